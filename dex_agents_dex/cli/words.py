"""What a session holds, as lines for a person and as JSON for a script. Nothing is asked or decided here."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from dex_agents_model.calls import (
    AgentToolCall,
    Failed,
    OutcomeUnknown,
    Rejected,
    Succeeded,
    ToolCallStatus,
)
from dex_agents_model.records import (
    AgentInterrupt,
    AgentMessage,
    AgentUsage,
    AgentUserMessage,
    MessageRole,
    TurnFailed,
    WaitingForUserMessage,
)
from dex_agents_model.requests import AgentSnapshot
from dex_agents_model.text import digest, size_bytes

SHOWN_CHARACTERS: Final = 200
MESSAGE_REFUSED: Final = (
    "the session refused the message: it is blank or too long, or too much waits already"
)
_UNBOUNDED_CELLS: Final = 1_000_000
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but line breaks and tabs; what turns the direction of text; what cannot be written."""

GOOD: Final = "green"
BAD: Final = "red"
ASKING: Final = "yellow"
QUIET: Final = "dim"

_MARKS: Final = {
    ToolCallStatus.SUCCEEDED: ("✓", GOOD),
    ToolCallStatus.REJECTED: ("✗", ASKING),
    ToolCallStatus.FAILED: ("✗", BAD),
    ToolCallStatus.OUTCOME_UNKNOWN: ("?", BAD),
    ToolCallStatus.CANCELLED: ("✗", ASKING),
    ToolCallStatus.AWAITING_APPROVAL: ("?", ASKING),
    ToolCallStatus.RUNNABLE: ("…", QUIET),
}
_SPEAKERS: Final = {
    MessageRole.USER: (">", "bold"),
    MessageRole.ASSISTANT: ("●", "bold cyan"),
}


class SafeConsole(Console):
    """Whatever it prints, nothing of it is a command to the terminal, or to rich."""

    def __init__(self, *, force_terminal: bool | None = None, width: int | None = None) -> None:
        super().__init__(
            force_terminal=force_terminal, width=width, highlight=False, markup=False, emoji=False
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            is_text = segment.control is None
            yield Segment(safe(segment.text), segment.style) if is_text else segment


def screen() -> Console:
    """Where a command writes for a person: colours and rows as wide as the terminal, or else neither."""
    console = SafeConsole()
    if console.is_terminal:
        return console
    return SafeConsole(width=_UNBOUNDED_CELLS)


def write_json(data: object) -> None:
    """One JSON value on one line; nothing of it is lost where the output is not in UTF-8."""
    encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding  # None: it was closed before
    is_utf_8 = codecs.lookup(encoding).name == "utf-8"
    click.echo(json.dumps(data, ensure_ascii=not is_utf_8))


def in_one_line(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """``text`` without line breaks and control characters, cut to ``limit`` characters with an ellipsis."""
    line = safe(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def safe(text: str) -> str:
    """``text`` without what a terminal would obey, or what would show it in another order."""
    return _UNSAFE.sub("�", text.replace("\r\n", "\n"))


def told_message(message: AgentMessage) -> RenderableType:
    """One stored message."""
    if message.role is MessageRole.TOOL:
        said = in_one_line(message.text or "")
        return _in_one_row(
            ("  < ", QUIET),
            in_one_line(message.tool_name or "tool"),
            (f"  {said}" if said else "", QUIET),
        )
    return told_words(message.role, message.text or "")


def told_words(role: MessageRole, text: str, note: str = "") -> RenderableType:
    """What somebody said, hanging beside a mark of who it was."""
    said = safe(text).strip()
    words = Text.assemble(said or ("(no text)", QUIET), (note, QUIET))
    row = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    row.add_row(Text(*_SPEAKERS[role]), words)
    return row


def told_queued(message: AgentUserMessage) -> str:
    """What waits in the queue. Only an agent can read what lies beside a text, so that is told by its size."""
    beside = message.framework_content
    files = () if beside is None else (f"[{size_bytes(beside)} bytes beside the text]",)
    return " ".join((in_one_line(message.text), *files)).lstrip()


def told_call(call: AgentToolCall) -> Text:
    """One tool call and where it stands."""
    mark, style = _MARKS[call.status]
    outcome = outcome_of(call)
    return _in_one_row(
        (f"  {mark} ", style),
        in_one_line(call.tool_name),
        (f" {in_one_line(call.arguments)}", QUIET),
        (f"  {spoken(call.status)}", style),
        (f": {in_one_line(outcome)}" if outcome else "", QUIET),
    )


def told_end_of_call(name: str, status: ToolCallStatus, outcome: str) -> Text:
    """How a tool call ended."""
    mark, style = _MARKS[status]
    said = "" if status is ToolCallStatus.SUCCEEDED else f"  {spoken(status)}"
    return _in_one_row(
        (f"  {mark} ", style),
        in_one_line(name),
        (said, style),
        (f"  {in_one_line(outcome)}" if outcome else "", QUIET),
    )


def told_start_of_call(name: str, arguments: str) -> Text:
    """The model asks for a tool."""
    return _in_one_row(("  → ", QUIET), in_one_line(name), (f" {in_one_line(arguments)}", QUIET))


def outcome_of(call: AgentToolCall) -> str:
    """What a final call returned, or why it did not; empty for one that is open or was cancelled."""
    match call:
        case Succeeded(output=text) | Failed(error=text) | OutcomeUnknown(error=text):
            return text
        case Rejected(rejection_message=text):
            return text
        case _:
            return ""


def told_question(asked: AgentInterrupt) -> Text:
    """A question that waits for a person, and how to see what is not shown of it."""
    told = told_whole_question(asked, asked.arguments)
    if digest(asked.arguments) != asked.arguments_digest:
        told.append("\n  shortened: `dex-agents question` prints all of it", QUIET)
    return told


def told_whole_question(asked: AgentInterrupt, arguments: str) -> Text:
    """A question that waits for a person, with as much of its ``arguments`` as is given."""
    until = f"  until {told_time(asked.deadline)}" if asked.deadline else ""
    name = (in_one_line(asked.tool_name), "bold")
    return Text.assemble(("? ", ASKING), name, f" {arguments}", (until, QUIET))


def _in_one_row(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def told_status(snapshot: AgentSnapshot) -> str:
    """What the session is doing, in words."""
    state = snapshot.state
    if state is None:
        return "about to start"
    if snapshot.pending_interrupts:
        return "waiting for approval"
    if isinstance(state, WaitingForUserMessage) and isinstance(state.last_turn, TurnFailed):
        return "waiting for a message; the last turn failed"
    return spoken(state.status)


def told_usage(usage: AgentUsage) -> str:
    return (
        f"{counted(usage.requests, 'model call')},"
        f" {usage.input_tokens} tokens in, {usage.output_tokens} out"
    )


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def spoken(name: str) -> str:
    return name.replace("_", " ")


def told_time(instant: datetime) -> str:
    """In the reader's own time zone."""
    return f"{instant.astimezone():%Y-%m-%d %H:%M:%S}"


def told_duration(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return str(timedelta(seconds=round(seconds)))
