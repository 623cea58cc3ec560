"""A runner whose model and tools are data: what the model replies to which message, and what each tool does.

It keeps nothing between calls. What it did so far in a turn, it reads from its run state, as an
adapter does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, assert_never

from attrs import field, frozen

from ..calls import AgentToolCall, FinalCall
from ..effects import (
    DeferredToolCall,
    HistorySummarized,
    ToolCallsRequested,
    TurnCompleted,
    TurnGivenUp,
)
from ..errors import ContractBroken
from ..ids import ToolCallId
from ..notes import describe_tool_call_outcome
from ..records import AgentUsage, FrameworkMessage, MessageRole
from ..runner import (
    AgentTurnContext,
    AgentTurnOutcome,
    DeferredToolExecution,
    ModelCallFailed,
    SummaryRequest,
    ToolExecutionError,
    ToolExecutionResult,
    ToolOutcomeUnknown,
    UnfinishedTurn,
)

_USAGE: Final = AgentUsage(requests=1, input_tokens=100, output_tokens=10)


# --- what a model does ---------------------------------------------------------------------


@frozen
class ToolUse:
    """One tool call that the scripted model asks for. Its policy is the session's for ``tool_name``."""

    tool_call_id: str
    tool_name: str
    arguments: str = "{}"


@frozen(init=False)
class Asks:
    """The model asks for tools, in this order."""

    uses: tuple[ToolUse, ...]

    def __init__(self, *uses: ToolUse) -> None:
        self.__attrs_init__(uses)


@frozen
class Concludes:
    """The model gives its final answer; ``output`` is JSON text, when the answer is data, too."""

    text: str
    output: str | None = None


@frozen
class GivesUp:
    """The model was asked again and again, and gave nothing that can be used."""

    error: str = "no answer can be used"


@frozen
class Breaks:
    """The model call raises on its first ``attempts`` attempts, then gives ``then``; always, without it.

    Each of these attempts had used what a call uses.
    """

    error: str = "the provider is down"
    attempts: int = 1
    then: Asks | Concludes | GivesUp | None = None


ModelReply: TypeAlias = Asks | Concludes | GivesUp | Breaks
"""What one model call comes to."""


# --- what a tool does ----------------------------------------------------------------------


@frozen
class Returns:
    """The tool returns ``output``."""

    output: str


@frozen
class Refuses:
    """The tool says that it failed, in words for the model, and perhaps that its work may have been done."""

    message: str
    may_have_happened: bool = False


@frozen
class Raises:
    """The tool raises on its first ``attempts`` attempts, then returns ``then``; always, without it."""

    error: str = "the connection was reset"
    attempts: int = 1
    then: Returns | None = None


ToolBehaviour: TypeAlias = Returns | Refuses | Raises
"""What a tool does."""


class ScriptedFailure(Exception):
    """What a scripted tool raises to fail its attempt."""


@frozen
class ScriptedRunner:
    """Replies by the text of the turn's user message, one for each model call of the turn.

    ``replies`` lacks a text or has no more for it: the model concludes with "Done.". A tool that
    ``tools`` lacks returns "ok". It can build no message of a text that is ``unbuildable``.
    """

    replies: Mapping[str, tuple[ModelReply, ...]] = field(factory=dict)
    tools: Mapping[str, ToolBehaviour] = field(factory=dict)
    unbuildable: frozenset[str] = frozenset()

    def build_user_message(self, text: str) -> FrameworkMessage:
        """The text itself.

        Raises:
            ScriptedFailure: it is ``unbuildable``.
        """
        if text in self.unbuildable:
            raise ScriptedFailure(f"no message can be made of {text!r}")
        return _item(MessageRole.USER, text=text)

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        said = next(m for m in reversed(turn.messages) if m.role is MessageRole.USER)
        items: list[dict[str, Any]] = json.loads(turn.framework_run_state or "[]")
        calls_made = sum(item["role"] == "call" for item in items)
        items = _with_results(items, turn.tool_calls.values())
        items += [{"role": "user", "text": each.text} for each in turn.steering_messages]
        script = self.replies.get(said.text or "", ())
        reply = script[calls_made] if calls_made < len(script) else Concludes("Done.")
        return _outcome(_unbroken(reply, turn.attempt), items, turn)

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        match self.tools.get(call.tool_call.tool_name, Returns("ok")):
            case Returns(output):
                return ToolExecutionResult(output)
            case Refuses(message, may_have_happened):
                raise (ToolOutcomeUnknown if may_have_happened else ToolExecutionError)(message)
            case Raises(error, attempts, then):
                if then is None or call.attempt <= attempts:
                    raise ScriptedFailure(error)
                return ToolExecutionResult(then.output)
            case unreachable:
                assert_never(unreachable)


class ThoroughRunner(ScriptedRunner):
    """A scripted runner that also keeps what an unfinished turn has finished, and summarises history."""

    def build_unfinished_turn_messages(self, turn: UnfinishedTurn) -> tuple[FrameworkMessage, ...]:
        items: list[dict[str, Any]] = json.loads(turn.framework_run_state)
        return _in_order(_with_results(items, turn.tool_calls.values()))

    async def summarize_history(self, request: SummaryRequest) -> HistorySummarized:
        newest = request.messages[-1].sequence
        before = request.previous_summary
        return HistorySummarized(f"{before or 'Summary'}, up to message {newest}", _USAGE)

    def estimate_overhead_tokens(self) -> int:
        return 0


def _unbroken(reply: ModelReply, attempt: int) -> Asks | Concludes | GivesUp:
    if not isinstance(reply, Breaks):
        return reply
    if reply.then is None or attempt <= reply.attempts:
        raise ModelCallFailed(reply.error, usage=_USAGE)
    return reply.then


def _outcome(
    reply: Asks | Concludes | GivesUp, items: list[dict[str, Any]], turn: AgentTurnContext
) -> AgentTurnOutcome:
    if isinstance(reply, GivesUp):
        return TurnGivenUp(reply.error, _USAGE)
    if isinstance(reply, Concludes):
        turn.events.write_text_delta(reply.text)
        answer = _item(MessageRole.ASSISTANT, reply.text)
        return TurnCompleted((*_in_order(items), answer), _USAGE, output=reply.output)
    asked = [
        {"role": "assistant", "id": use.tool_call_id, "name": use.tool_name, "text": use.arguments}
        for use in reply.uses
    ]
    return ToolCallsRequested(
        json.dumps([*items, {"role": "call"}, *asked], sort_keys=True),
        tuple(
            DeferredToolCall(
                use.tool_call_id,
                use.tool_name,
                use.arguments,
                turn.resolve_tool_policy(use.tool_name),
            )
            for use in reply.uses
        ),
        _USAGE,
    )


def _with_results(
    items: list[dict[str, Any]], records: Iterable[AgentToolCall]
) -> list[dict[str, Any]]:
    """``items``, and the result of each final call that has none, in model order."""
    known = {item["id"] for item in items if item["role"] == "tool"}
    return items + [_result(each) for each in records if each.tool_call_id not in known]


def _in_order(items: list[dict[str, Any]]) -> tuple[FrameworkMessage, ...]:
    """``items`` as providers want them: each call, and its result right after it."""
    results = {item["id"]: item for item in items if item["role"] == "tool"}
    ordered: list[FrameworkMessage] = []
    for item in items:
        if item["role"] == "assistant":
            ordered += [_stored(item), _stored(results[item["id"]])]
        elif item["role"] == "user":
            ordered.append(_item(MessageRole.USER, item["text"]))
    return tuple(ordered)


def _result(record: AgentToolCall) -> dict[str, Any]:
    if not isinstance(record, FinalCall):
        raise ContractBroken(f"the model is called while a tool call is open: {record}")
    text = describe_tool_call_outcome(record)
    return {"role": "tool", "id": record.tool_call_id, "name": record.tool_name, "text": text}


def _stored(item: dict[str, Any]) -> FrameworkMessage:
    return _item(MessageRole(item["role"]), item["text"], item["id"], item["name"])


def _item(
    role: MessageRole, text: str, call: str | None = None, tool: str | None = None
) -> FrameworkMessage:
    content = json.dumps({"role": role, "text": text, "id": call, "name": tool}, sort_keys=True)
    return FrameworkMessage(role, content, text, None if call is None else ToolCallId(call), tool)
