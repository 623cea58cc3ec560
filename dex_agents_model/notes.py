"""How an ended tool call is told to a model, in words. Nothing is decided here."""

from __future__ import annotations

from typing import Final

from .calls import (
    AgentToolCall,
    Cancelled,
    Failed,
    FinalCall,
    OutcomeUnknown,
    Rejected,
    Succeeded,
)
from .text import shorten

OUTCOME_UNKNOWN_TOOL_RESULT: Final = (
    "The outcome of this tool call is unknown: it was cut off, and its work may or may not have been done."
    " Check before you call it again."
)
"""What the model is told of such a call."""
DEFAULT_REJECTION_MESSAGE: Final = "The tool call was rejected."
SUPERSEDED_MESSAGE: Final = "The tool call was not run: it was superseded by a new user message."
CANCELLED_MESSAGE: Final = "The tool call was not run: the turn was cancelled."
EXPIRED_MESSAGE: Final = "Nobody approved the tool call before its deadline; it was not run."
UNREADABLE_CONTENT: Final = (
    "[What the user sent beside this text was left out: the agent cannot read it.]"
)

SHORTENED_RESULT_BYTES: Final = 2048
_NOTE_START: Final = "[Dex] The previous turn"
_NOTE_TEXT_BYTES: Final = 4096


def describe_tool_call_outcome(record: FinalCall) -> str:
    """The text that stands for the call's result in the model's input."""
    match record:
        case Succeeded(output=output) if record.call.arguments_edited:
            return f"[An approver changed the arguments to {record.arguments}]\n{output}"
        case Succeeded(output=output):
            return output
        case Rejected(rejection_message=message):
            return message
        case Failed(error=error):
            return f"The tool call failed: {error}"
        case OutcomeUnknown():
            return OUTCOME_UNKNOWN_TOOL_RESULT
        case Cancelled():
            return CANCELLED_MESSAGE


def shorten_result(output: str) -> str:
    """What the model is shown of a result that is too much for its context window."""
    return shorten(output, SHORTENED_RESULT_BYTES)


def build_turn_failure_note(
    records: tuple[AgentToolCall, ...], *, ended: str = "failed"
) -> str | None:
    """What the next turn's model must know of a turn without an answer: one line a final record, in model order.

    ``ended`` is the word for how the turn ended.

    None when no tool may have run. Arguments and results beyond 4 KiB each are shortened.
    """
    final = sorted(
        (record for record in records if isinstance(record, FinalCall)),
        key=lambda record: record.deferral_order,
    )
    if not any(_may_have_run(record) for record in final):
        return None
    return "\n".join(
        (
            f"{_NOTE_START} {ended} after these tool calls ran:",
            *map(_line, final),
            "Do not repeat these tool calls unless the user asks again.",
        )
    )


def is_turn_failure_note(text: str) -> bool:
    """Whether ``text`` is what `build_turn_failure_note` has written."""
    return text.startswith(_NOTE_START)


def _may_have_run(record: FinalCall) -> bool:
    return not isinstance(record, Rejected | Cancelled)


def _line(record: FinalCall) -> str:
    arguments = shorten(record.arguments, _NOTE_TEXT_BYTES)
    outcome = shorten(describe_tool_call_outcome(record), _NOTE_TEXT_BYTES)
    return f"- {record.tool_name} {arguments} -> {record.status}: {outcome}"
