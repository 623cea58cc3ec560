"""A small session for crash tests: two tools that may run once, and a client that repeats itself.

No rule is asserted here.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from attrs import Factory, define
from dex import (
    AsyncContext,
    Attribute,
    AttributeMap,
    Channel,
    Context,
    Flow,
    FlowNotActiveOrNotFoundError,
    PersistenceSchema,
    RPCResult,
    StartFlowOptions,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    StepOptions,
    Wait,
    dead_end,
    go_to_many,
    graceful_complete,
    rpc,
)

from tests.engine.rig import ONE_ATTEMPT, Rig, step

TOOLS = ("left", "right")
REPEATABLE = StartFlowOptions(request_id="once", ignore_already_started=True)
SEEN, TURN = AttributeMap("Seen", bool), Attribute("Turn", str)
INBOX, RESULTS = Channel("Inbox", str), Channel("Results", str)


@define
class Effects:
    """What the tools did in the world, over all crashes."""

    runs: Counter[str] = Factory(Counter)
    before_tool: Callable[[], Awaitable[None]] | None = None

    def note(self, flow_id: str, tool: str) -> None:
        self.runs[tool] += 1


class CrashSession(Flow[str]):
    """Waits for a message, runs each tool at most once, and completes with both results."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._unknown = step("RecordUnknown", self._record_unknown)
        spent = StepOptions(execute_retry=ONE_ATTEMPT).on_execute_failure_proceed_to(
            type(self._unknown)
        )
        self._tool = step("Tool", self._run_tool, options=spent)
        self._join = step("Join", self._complete, wait_for=self._wait_for_results)
        self._await = step("Await", self._plan, wait_for=self._wait_for_message)

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(self._await).other_steps(self._tool, self._unknown, self._join)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(SEEN, TURN, INBOX, RESULTS)

    @rpc(is_transactional=True, load_attribute_maps=(SEEN,))
    def send(self, context: Context, message_id: str) -> RPCResult[bool]:
        is_new = not SEEN.get(context, message_id)
        if is_new:
            SEEN.set(context, message_id, True)
            INBOX.publish(context, message_id)
        return RPCResult(is_new)

    async def _wait_for_message(self, context: AsyncContext, given: str) -> Wait:
        return Wait.until(INBOX.for_one())

    async def _plan(self, context: AsyncContext, given: str) -> StepDecision:
        TURN.set(context, INBOX.results(context)[0])
        tools = [_to(self._tool, name) for name in TOOLS]
        return go_to_many(*tools, _to(self._join, ""))

    async def _run_tool(self, context: AsyncContext, name: str) -> StepDecision:
        self._effects.note(context.flow_id, name)
        if self._effects.before_tool is not None:
            await self._effects.before_tool()
        RESULTS.publish(context, f"{name}: done")
        return dead_end()

    async def _record_unknown(self, context: AsyncContext, name: str) -> StepDecision:
        RESULTS.publish(context, f"{name}: unknown")
        return dead_end()

    async def _wait_for_results(self, context: AsyncContext, given: str) -> Wait:
        return Wait.until(RESULTS.for_n(len(TOOLS)))

    async def _complete(self, context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete([TURN.get(context), *sorted(RESULTS.results(context))])


def _to(target: Step[str], given: str) -> StepMovement[str]:
    return StepMovement.of(type(target), given)


async def drive(rig: Rig, flow: CrashSession, flow_id: str = "s") -> list[tuple[str, Any]]:
    """Everything that the client does, in calls that may be repeated; the Flow's outputs."""
    await rig.client.start_flow(flow, flow_id, "", REPEATABLE)
    with suppress(FlowNotActiveOrNotFoundError):  # it has ended, so it has the message
        await rig.rpc(flow.send, flow_id, "hello")
    return await rig.outputs(flow_id, list[str])


def is_right(
    outputs: list[tuple[str, Any]], effects: Effects, *, most_runs_of_a_tool: int = 1
) -> bool:
    """One result a tool, told rightly: `done` only if it ran, and none ran more often."""
    [(step_id, (turn, *results))] = outputs
    told = dict(result.split(": ") for result in results)
    return (
        (step_id, turn, set(told), len(results)) == ("Join-1", "hello", set(TOOLS), len(TOOLS))
        and all(effects.runs[name] <= most_runs_of_a_tool for name in TOOLS)
        and all(effects.runs[name] >= 1 for name in TOOLS if told[name] == "done")
    )
