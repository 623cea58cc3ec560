"""`show`: one session on one page."""

from __future__ import annotations

from collections.abc import Iterator

import click
import dex
from attrs import frozen
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from dex_agents_model import wire
from dex_agents_model.records import ApprovalRecord
from dex_agents_model.requests import AgentSnapshot

from ..server_history import EndedStep, ended_steps
from .connecting import Place, at_a_place, in_time, session_at
from .names import SESSION
from .options import as_json
from .trouble import run
from .words import (
    BAD,
    QUIET,
    counted,
    screen,
    spoken,
    told_call,
    told_duration,
    told_message,
    told_question,
    told_status,
    told_time,
    told_usage,
    write_json,
)


@frozen
class _Shown:
    place: Place
    info: dex.FlowInfo
    snapshot: AgentSnapshot
    approvals: tuple[ApprovalRecord, ...]
    steps: tuple[EndedStep, ...]

    @property
    def is_open(self) -> bool:
        return self.info.status is dex.FlowStatus.RUNNING


@click.command()
@click.argument("session", type=SESSION)
@click.option("--steps/--no-steps", default=True, help="With or without its Steps.")
@as_json
@at_a_place
def show(session: str, steps: bool, as_json: bool, place: Place) -> None:
    """Print one session on a page.

    It has what was said, tool calls, questions, approvals, usage, and the Steps with their attempts.

    \b
    Examples:
      dex-agents show order-7
      dex-agents show order-7 --no-steps --json
    """
    shown = run(_read(place, session, with_steps=steps))
    if as_json:
        write_json(_data(shown))
        return
    out = screen()
    for part in (_heading, _transcript, _open_work, _approvals, _steps):
        _print(out, part(shown))


async def _read(place: Place, session: str, *, with_steps: bool) -> _Shown:
    async with session_at(place, session) as found, in_time(found.server):
        snapshot = await found.sessions.get_agent_snapshot(session)
        approvals = list[ApprovalRecord]()
        while True:
            page = await found.sessions.list_approvals(session, after=len(approvals))
            approvals.extend(page.approvals)
            if not page.has_more:
                break
        steps = await ended_steps(found.server, session) if with_steps else ()
        return _Shown(place, found.info, snapshot, tuple(approvals), steps)


def _print(out: Console, lines: Iterator[RenderableType]) -> None:
    for line in lines:
        out.print(line)


def _heading(shown: _Shown) -> Iterator[RenderableType]:
    snapshot, info = shown.snapshot, shown.info
    state = snapshot.state
    turns = counted(state.turn_count if state is not None else 0, "turn")
    status = told_status(snapshot) if shown.is_open else info.status.value
    yield Text.assemble((snapshot.session_id, "bold"), f"  {info.flow_type}  {status}")
    yield Text(
        f"started {told_time(info.started_at)}, {turns}, {told_usage(snapshot.usage)}", QUIET
    )


def _transcript(shown: _Shown) -> Iterator[RenderableType]:
    snapshot = shown.snapshot
    if snapshot.has_earlier_messages:
        command = shown.place.command("messages", snapshot.session_id)
        yield Text(f"\n(earlier messages are left out: `{command}` prints all)", QUIET)
    turn = None
    for message in snapshot.messages:
        if message.turn_id != turn:
            turn = message.turn_id
            yield Text(f"\n{turn}", QUIET)
        yield told_message(message)


def _open_work(shown: _Shown) -> Iterator[RenderableType]:
    snapshot = shown.snapshot
    for call in snapshot.tool_calls:
        yield told_call(call)
    for asked in snapshot.pending_interrupts:
        yield Text("")
        yield told_question(asked)
        command = shown.place.command("approve", snapshot.session_id, asked.interrupt_id)
        yield Text(f"  {command}", QUIET)
    if snapshot.queued_message_count:
        queued = counted(snapshot.queued_message_count, "message")
        yield Text(f"\n{queued} in the queue", QUIET)


def _approvals(shown: _Shown) -> Iterator[RenderableType]:
    if not shown.approvals:
        return
    yield Text("\napprovals", QUIET)
    table = _table("question", "tool", "decision", "by", "when", "why")
    for record in shown.approvals:
        edited = ", edited" if record.edited_arguments_digest is not None else ""
        table.add_row(
            record.interrupt_id,
            record.tool_name,
            f"{record.decision}{edited}",
            record.resolved_by or "",
            told_time(record.decided_at),
            record.reason or "",
        )
    yield table


def _steps(shown: _Shown) -> Iterator[RenderableType]:
    if not shown.steps:
        return
    yield Text("\nSteps that have ended", QUIET)
    table = _table("Step", "method", "attempts", "began", "lasted", "")
    for step in shown.steps:
        table.add_row(
            step.step_execution_id,
            spoken(step.method),
            Text(str(step.attempts), BAD if step.attempts > 1 else ""),
            told_time(step.started_at),
            told_duration(step.lasted),
            Text(f"failed: {step.error}" if step.error is not None else "", BAD),
        )
    yield table


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style=QUIET)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _data(shown: _Shown) -> dict[str, object]:
    return {
        "flow_type": shown.info.flow_type,
        "is_open": shown.is_open,
        "started_at": shown.info.started_at.isoformat(),
        "snapshot": wire.dump(shown.snapshot, AgentSnapshot),
        "approvals": [wire.dump(record, ApprovalRecord) for record in shown.approvals],
        "steps": [
            {
                "step_type": step.step_type,
                "step_execution_id": step.step_execution_id,
                "method": step.method,
                "attempts": step.attempts,
                "started_at": step.started_at.isoformat(),
                "lasted_seconds": step.lasted.total_seconds(),
                "error": step.error,
            }
            for step in shown.steps
        ],
    }
