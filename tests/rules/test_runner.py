"""What a runner is given and what is taken from it ([core: runner contract])."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import Factory, define

from dex_agents_model.calls import Runnable, Succeeded, ToolCallStatus, ToolEffect
from dex_agents_model.effects import (
    BuildUnfinishedTurn,
    CallModel,
    Effect,
    ExecuteTool,
    HistorySummarized,
    Summarize,
    ToolRaised,
    ToolReturned,
    TurnCompleted,
    UnfinishedTurnBuilt,
)
from dex_agents_model.errors import ClaimRefused, ContractBroken
from dex_agents_model.events import ModelCallFailedEvent
from dex_agents_model.ids import ToolCallId, TurnId
from dex_agents_model.performing import Invocation, perform
from dex_agents_model.policy import AgentSessionOptions, ToolPolicy
from dex_agents_model.records import AgentUserMessage, FrameworkMessage, MessageRole
from dex_agents_model.runner import (
    AgentTurnContext,
    DeferredToolExecution,
    ModelCallFailed,
    RunnerFailed,
    SummaryRequest,
    ToolExecutionError,
    ToolExecutionResult,
    ToolNotStarted,
    ToolOutcomeUnknown,
    UnfinishedTurn,
)

from .samples import MESSAGES, SESSION, TURN, USED, call

ENDED = Succeeded(call("a"), "found")
RUNNABLE = Runnable(call("b"))
OPTIONS = AgentSessionOptions(tool_policies={"tool_a": ToolPolicy(ToolEffect.READ, True)})


KEPT = FrameworkMessage(MessageRole.ASSISTANT, "<call>")
HELLO = AgentUserMessage("hello", "message-1")
UNFINISHED = BuildUnfinishedTurn(TURN, "state", (ENDED,), "lost")


@define
class ScriptedRunner:
    """Answers as it was told and writes down what it was given and what it announced."""

    answer: Any = None
    role: MessageRole = MessageRole.USER
    log: list[object] = Factory(list)

    def build_user_message(self, text: str) -> FrameworkMessage:
        return FrameworkMessage(self.role, f"<{text}>", text)

    async def run_model_step(self, turn: AgentTurnContext) -> Any:
        return self._answer(turn)

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> Any:
        return self._answer(call)

    def _answer(self, given: object) -> Any:
        self.log.append(given)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def write_text_delta(self, text: str) -> None:
        self.log.append(("text", text))

    def write_reasoning_delta(self, text: str) -> None:
        self.log.append(("reasoning", text))

    def write_tool_call_started(self, tool_call_id: ToolCallId, tool_name: str) -> None:
        self.log.append(("started", tool_call_id, tool_name))

    def write_tool_call_finished(
        self, tool_call_id: ToolCallId, tool_name: str, status: ToolCallStatus
    ) -> None:
        self.log.append(("finished", tool_call_id, tool_name, status))

    def write_event(self, name: str, data: str) -> None:
        self.log.append((name, data))

    async def beat(self) -> None:
        self.log.append("heartbeat")


class KeepingRunner(ScriptedRunner):
    """A runner that can also build the messages of an unfinished turn."""

    def build_unfinished_turn_messages(self, turn: UnfinishedTurn) -> Any:
        return self._answer(turn)


class SummarisingRunner(ScriptedRunner):
    """A runner that can also summarise."""

    async def summarize_history(self, request: SummaryRequest) -> Any:
        return self._answer(request)

    def estimate_overhead_tokens(self) -> int:
        return 0


def where(runner: ScriptedRunner, *, grants: bool = True) -> Invocation:
    async def claim(turn: TurnId, call: ToolCallId) -> bool:
        runner.log.append(("claim", turn, call))
        return grants

    return Invocation(
        session=SESSION,
        attempt=2,
        options=OPTIONS,
        events=runner,
        tell=runner.log.append,
        heartbeat=runner.beat,
        claim=claim,
    )


async def test_perform__gives_a_model_call_its_whole_turn() -> None:
    runner = ScriptedRunner(TurnCompleted(()))
    invocation = where(runner)

    outcome = await perform(
        CallModel(TURN, MESSAGES, "state", (ENDED,), (HELLO,), "told", (ToolCallId("a"),)),
        runner,
        invocation,
    )

    assert outcome == TurnCompleted(())
    assert runner.log == [
        AgentTurnContext(
            flow_id=SESSION,
            turn_id=TURN,
            attempt=2,
            messages=MESSAGES,
            framework_run_state="state",
            tool_calls={ENDED.tool_call_id: ENDED},
            steering_messages=(FrameworkMessage(MessageRole.USER, "<hello>", "hello"),),
            summary="told",
            shortened_results=frozenset({ToolCallId("a")}),
            options=OPTIONS,
            events=runner,
            heartbeat=invocation.heartbeat,
        )
    ]


@pytest.mark.parametrize("fenced", [False, True])
async def test_perform__claims_a_fenced_call_then_announces_it_and_beats_before_it_runs(
    fenced: bool,
) -> None:
    runner = ScriptedRunner(ToolExecutionResult("found", "<image>"))
    invocation = where(runner)

    outcome = await perform(ExecuteTool(RUNNABLE, fenced), runner, invocation)

    assert outcome == ToolReturned("found", "<image>")
    assert runner.log == [
        *([("claim", "turn-2", "b")] if fenced else []),
        ("started", "b", "tool_b"),
        "heartbeat",
        DeferredToolExecution(
            flow_id=SESSION,
            tool_call=RUNNABLE,
            idempotency_key="session-1/turn-2/b",
            attempt=2,
            events=runner,
            heartbeat=invocation.heartbeat,
        ),
    ]


async def test_perform__runs_nothing_when_the_claim_is_refused() -> None:
    runner = ScriptedRunner(ToolExecutionResult("found"))

    with pytest.raises(ClaimRefused, match="tool call b of turn-2 is not this delivery's to run"):
        await perform(ExecuteTool(RUNNABLE, fenced=True), runner, where(runner, grants=False))
    assert runner.log == [("claim", "turn-2", "b")]


async def test_perform__asks_a_runner_to_keep_an_unfinished_turn_only_if_it_can() -> None:
    runner = ScriptedRunner()

    outcome = await perform(UNFINISHED, runner, where(runner))

    assert (outcome, runner.log) == (UnfinishedTurnBuilt(None, "lost"), [])


@pytest.mark.parametrize(
    ("answer", "messages"),
    [
        (None, None),
        ([], ()),
        ([KEPT], (KEPT,)),
        (ConnectionError("lost"), None),
        ([KEPT, FrameworkMessage(MessageRole.TOOL, "\ud800")], None),
    ],
    ids=["it cannot", "nothing", "a message", "it fails", "what cannot be stored"],
)
async def test_perform__takes_what_the_runner_keeps_of_an_unfinished_turn(
    answer: list[FrameworkMessage] | Exception | None, messages: tuple[FrameworkMessage, ...] | None
) -> None:
    runner = KeepingRunner(answer)

    outcome = await perform(UNFINISHED, runner, where(runner))

    assert outcome == UnfinishedTurnBuilt(messages, "lost")
    assert runner.log == [
        UnfinishedTurn(
            flow_id=SESSION,
            turn_id=TURN,
            framework_run_state="state",
            tool_calls={ENDED.tool_call_id: ENDED},
        )
    ]


async def test_perform__lets_the_runner_summarise() -> None:
    runner = SummarisingRunner(HistorySummarized("short"))
    invocation = where(runner)

    outcome = await perform(Summarize(TURN, MESSAGES, "before", 9), runner, invocation)

    assert outcome == HistorySummarized("short")
    assert runner.log == [
        SummaryRequest(
            flow_id=SESSION,
            turn_id=TURN,
            attempt=2,
            messages=MESSAGES,
            previous_summary="before",
            token_limit=9,
            heartbeat=invocation.heartbeat,
        )
    ]


async def test_perform__refuses_to_summarise_with_a_runner_that_cannot() -> None:
    runner = ScriptedRunner()

    with pytest.raises(ContractBroken, match="its runner cannot summarise"):
        await perform(Summarize(TURN, MESSAGES, None, 9), runner, where(runner))


@pytest.mark.parametrize(
    ("error", "may_have_happened"), [(ToolExecutionError, False), (ToolOutcomeUnknown, True)]
)
async def test_perform__takes_a_failure_for_the_model_as_an_outcome(
    error: type[ToolExecutionError], may_have_happened: bool
) -> None:
    runner = ScriptedRunner(error("no such order"))

    outcome = await perform(ExecuteTool(RUNNABLE), runner, where(runner))

    assert outcome == ToolRaised("no such order", may_have_happened)


async def test_perform__ends_a_claimed_call_that_never_started() -> None:
    runner = ScriptedRunner(ToolNotStarted("no vault"))

    outcome = await perform(ExecuteTool(RUNNABLE, fenced=True), runner, where(runner))

    assert outcome == ToolRaised("the call never started: no vault")


async def test_perform__leaves_open_whether_another_delivery_started_an_unclaimed_call() -> None:
    not_started = ToolNotStarted("no vault")
    runner = ScriptedRunner(not_started)

    with pytest.raises(ToolNotStarted) as failed:
        await perform(ExecuteTool(RUNNABLE), runner, where(runner))
    assert failed.value is not_started


@pytest.mark.parametrize("effect", [CallModel(TURN, MESSAGES, None, ()), ExecuteTool(RUNNABLE)])
@pytest.mark.parametrize(
    "raised",
    [
        ConnectionError("lost"),
        BaseExceptionGroup("two", [KeyboardInterrupt()]),
        SystemExit(3),
        KeyboardInterrupt("no more"),
    ],
    ids=repr,
)
async def test_perform__names_the_type_of_every_other_exception(
    effect: Effect, raised: BaseException
) -> None:
    runner = ScriptedRunner(raised)

    with pytest.raises(RunnerFailed) as failed:
        await perform(effect, runner, where(runner))
    assert str(failed.value) == f"{type(raised).__name__}: {raised}"
    assert failed.value.__cause__ is raised


@pytest.mark.parametrize(
    "effect", [CallModel(TURN, MESSAGES, None, ()), Summarize(TURN, MESSAGES, None, 9)]
)
async def test_perform__tells_what_a_failed_model_call_used(effect: Effect) -> None:
    lost = ModelCallFailed("the stream broke", usage=USED)
    runner = SummarisingRunner(lost)

    with pytest.raises(ModelCallFailed) as failed:
        await perform(effect, runner, where(runner))
    assert failed.value is lost
    assert runner.log[1:] == [ModelCallFailedEvent("the stream broke", USED)]


@pytest.mark.parametrize("effect", [CallModel(TURN, MESSAGES, None, ()), ExecuteTool(RUNNABLE)])
async def test_perform__shortens_an_error_that_an_engine_could_not_carry(effect: Effect) -> None:
    runner = ScriptedRunner(ValueError("\x00" + "x" * 1000))

    with pytest.raises(RunnerFailed) as failed:
        await perform(effect, runner, where(runner))
    assert str(failed.value) == f"ValueError: \ufffd{'x' * 945}... [1015 bytes in full]"


@pytest.mark.parametrize("effect", [CallModel(TURN, MESSAGES, None, ()), ExecuteTool(RUNNABLE)])
async def test_perform__leaves_a_runners_own_words_alone(effect: Effect) -> None:
    said = RunnerFailed("the provider hung up")
    runner = ScriptedRunner(said)

    with pytest.raises(RunnerFailed) as failed:
        await perform(effect, runner, where(runner))
    assert failed.value is said


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        (
            CallModel(TURN, MESSAGES, None, ()),
            "run_model_step returned 'done', not an AgentTurnOutcome",
        ),
        (
            ExecuteTool(RUNNABLE),
            "execute_deferred_tool_call returned 'done', not a ToolExecutionResult",
        ),
        (
            Summarize(TURN, MESSAGES, None, 9),
            "summarize_history returned 'done', not a HistorySummarized",
        ),
    ],
)
async def test_perform__refuses_what_the_contract_does_not_know(
    effect: Effect, message: str
) -> None:
    runner = SummarisingRunner("done")

    with pytest.raises(ContractBroken, match=message):
        await perform(effect, runner, where(runner))


def context(run_state: str | None) -> AgentTurnContext:
    writer = ScriptedRunner()
    return AgentTurnContext(
        flow_id=SESSION,
        turn_id=TURN,
        attempt=1,
        messages=MESSAGES,
        framework_run_state=run_state,
        tool_calls={ENDED.tool_call_id: ENDED},
        steering_messages=(),
        summary=None,
        shortened_results=frozenset(),
        options=OPTIONS,
        events=writer,
        heartbeat=writer.beat,
    )


def test_agent_turn_context__resumes_exactly_with_a_run_state() -> None:
    assert [context(None).is_resuming, context("state").is_resuming] == [False, True]


def test_agent_turn_context__reads_one_record() -> None:
    assert context("state").recorded_tool_call("a") == ENDED
    with pytest.raises(KeyError, match="b"):
        context("state").recorded_tool_call("b")


def test_agent_turn_context__resolves_policies_by_the_options() -> None:
    assert context(None).resolve_tool_policy("tool_a") == ToolPolicy(ToolEffect.READ, True)
    assert context(None).resolve_tool_policy("tool_b", ToolEffect.READ) == ToolPolicy(
        ToolEffect.READ
    )
