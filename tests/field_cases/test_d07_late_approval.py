"""An approval that comes at its deadline or later is refused, though nothing has noticed yet that it is over.

The tool does not run, and the call is recorded once, as expired. An approval that was accepted
before is applied, however late. Who is there to notice decides nothing: the time does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from attrs import frozen

from dex_agents_dex import SessionBusy
from dex_agents_dex.cli.desk import answering_at
from dex_agents_dex.dex_server import DexServer
from dex_agents_dex.testing import wait_until
from dex_agents_model import AgentSessionOptions, InterruptId
from dex_agents_model.notes import EXPIRED_MESSAGE
from dex_agents_model.records import ApprovalDecision
from dex_agents_model.requests import ApprovalsPage, ListApprovals
from dex_agents_model.simulation import (
    EPOCH,
    INVARIANTS,
    Answers,
    Asks,
    Concludes,
    Scenario,
    ScriptedRunner,
    SimulatedWorld,
    ToolUse,
    explore,
)
from dex_agents_model.simulation.invariants.approvals import (
    late_answers_are_refused,
    timely_answers_are_accepted,
)
from tests.binding.flows import POLICIES
from tests.binding.script import Call, Reply

from .agent import IMPATIENT
from .bench import Bench, Talk

_SECOND: Final = timedelta(seconds=1)
_PATIENCE: Final = timedelta(seconds=2)
"""How long a person tries, whose answer is no answer after that."""


def _now() -> datetime:
    return datetime.now(UTC)


@frozen
class Asked:
    """A session whose call waits for an approval until its deadline."""

    talk: Talk
    interrupt_id: InterruptId
    deadline: datetime

    async def approve(self, offset: timedelta | None = None) -> bool:
        """Approve now, or at ``offset`` from the deadline or later. Whether that was accepted, which the time says.

        A Worker knows the engine's time by at most a second too little, and never too much. While
        the Step that acts on the Timer waits for a Worker, the session is busy: no approval either.
        """
        if offset is not None:
            moment = self.deadline + offset
            await wait_until(f"{moment}", lambda: _now() >= moment)
        asked_at = _now()
        is_accepted = False
        with suppress(TimeoutError, SessionBusy):
            async with asyncio.timeout(_PATIENCE.total_seconds()):
                is_accepted = await self.talk.sessions.resolve_interrupt(
                    self.talk.session_id, self.interrupt_id, approved=True
                )
        assert is_accepted or _now() >= self.deadline
        assert not is_accepted or asked_at < self.deadline + _SECOND
        return is_accepted

    async def check(self, *, is_accepted: bool) -> None:
        """The call ended as the answer to its approval said, and its end is recorded once."""
        await self.talk.end_of_turn()
        told = "success: done" if is_accepted else f"denied: {EXPIRED_MESSAGE}"
        assert await self.talk.told() == {"c": told}
        assert self.talk.keys("ask") == (["turn-1/c"] if is_accepted else [])
        page = await self.talk.sessions.list_approvals(self.talk.session_id)
        assert [kept.decision for kept in page.approvals] == [
            ApprovalDecision.APPROVED if is_accepted else ApprovalDecision.EXPIRED
        ]


async def _ask(bench: Bench) -> Asked:
    talk = bench.talk(IMPATIENT)
    await talk.start(Reply(calls=(Call(id="c", tool="ask"),)), Reply(text="an answer"))
    (question,) = await talk.when(
        "a question with its deadline",
        lambda snapshot: [q for q in snapshot.pending_interrupts if q.deadline is not None],
    )
    assert question.deadline is not None
    return Asked(talk, question.interrupt_id, question.deadline)


async def test_approval__around_its_deadline_runs_the_tool_exactly_when_it_was_accepted(
    bench: Bench,
) -> None:
    """The Timer fires at the same moments."""

    async def at(offset_s: float) -> None:
        asked = await _ask(bench)
        await asked.check(is_accepted=await asked.approve(timedelta(seconds=offset_s)))

    await asyncio.gather(*map(at, (-1, -0.5, -0.1, -0.02, 0, 0.02, 0.1, 0.5, 1)))


async def test_approval__that_is_late_is_refused_though_no_worker_has_seen_the_timer(
    bench: Bench,
) -> None:
    """The Workers are gone; a program that answers RPCs and runs no Step takes the approvals."""
    early, sharp, late = await asyncio.gather(*(_ask(bench) for _ in range(3)))
    bench.kill_worker()
    server = DexServer.at(bench.shared.stack.server_address)
    async with answering_at(server, [IMPATIENT]):
        was_early = await early.approve()
        was_sharp, was_late = await asyncio.gather(
            sharp.approve(timedelta(0)), late.approve(_SECOND)
        )
        assert not was_sharp
        assert not was_late
        for asked in (sharp, late):
            assert [q.interrupt_id for q in await asked.talk.questions()] == [asked.interrupt_id]
    await bench.start_worker()

    await early.check(is_accepted=was_early)
    for asked in (sharp, late):
        await asked.check(is_accepted=False)


# --- in the model, to the millisecond ----------------------------------------------------------

_MS: Final = timedelta(milliseconds=1)
_LIMIT: Final = timedelta(seconds=60)
_RUNNER: Final = ScriptedRunner({"go": (Asks(ToolUse("c", "ask")), Concludes("Gone."))})
_OPTIONS: Final = AgentSessionOptions(tool_policies=POLICIES, interrupt_deadline=_LIMIT)


@pytest.mark.parametrize("offset_ms", [-1000, -1, 0, 1, 1000])
def test_world__an_answer_counts_up_to_the_last_millisecond(offset_ms: int) -> None:
    """The Timer may have fired, but the Step that acts on it has not been handed out."""
    world = SimulatedWorld(_RUNNER, options=_OPTIONS, first_message="go")
    world.run()
    (question,) = world.snapshot().pending_interrupts
    assert question.deadline == EPOCH + _LIMIT

    world.pass_time(EPOCH + _LIMIT + offset_ms * _MS - world.now)
    is_accepted = world.resolve(question.interrupt_id, approved=True)
    world.pass_time(2 * _SECOND)
    world.run()

    assert is_accepted == (offset_ms < 0)
    page = world.ask(ListApprovals())
    assert isinstance(page, ApprovalsPage)
    assert [kept.decision for kept in page.approvals] == [
        ApprovalDecision.APPROVED if is_accepted else ApprovalDecision.EXPIRED
    ]


@pytest.mark.parametrize("offset_ms", [-1, 0, 1])
def test_explore__an_answer_and_its_deadline_meet_in_every_order(offset_ms: int) -> None:
    """Clocks are exact here, so no tolerance is given."""
    exact = (late_answers_are_refused(0), timely_answers_are_accepted(0))
    names = {checker.__name__ for checker in exact}
    others = tuple(each for each in INVARIANTS if each.__name__ not in names)
    scenario = Scenario(
        name="deadline",
        about="an answer a millisecond around its deadline",
        first_message="go",
        options=_OPTIONS,
        runner=_RUNNER,
        acts=(Answers("c", approved=True, at=_LIMIT + offset_ms * _MS),),
    )

    seen = explore(scenario, invariants=(*others, *exact))

    assert (len(others), seen.findings, seen.is_complete) == (len(INVARIANTS) - 2, (), True)
