"""What a scripted model says and what its tools do, as data that travels in the user's message. No behaviour here."""

from __future__ import annotations

from attrs import frozen
from cattrs.preconf.json import make_converter

_CONVERTER = make_converter()


@frozen(kw_only=True)
class Call:
    """A tool call that the model asks for, and what running it does, in the order of the fields."""

    id: str
    tool: str
    gate: str | None = None
    """Reached while the tool runs; it goes on when the gate is released."""
    crash: str | None = None
    """The tool raises, as by a bug or a lost connection."""
    error: str | None = None
    """The tool says that it failed."""
    way: str | None = None
    """How else the tool ends, by a name that only an agent of a framework knows (`tests/field_cases`)."""
    output: str = "done"
    output_characters: int | None = None
    """Return as many characters instead of ``output``."""
    measures: bool = False
    """Return the number of characters of its arguments instead of ``output``."""
    padding_characters: int = 0
    """Makes the arguments as much longer."""
    early_gate: str | None = None
    """Reached when a Worker has the call, and the tool has not begun."""
    raw: str | None = None
    """What an agent's model writes in place of the arguments (`tests/field_cases`)."""
    late_gate: str | None = None
    """Reached when the tool's work is done, and its result is told to nobody yet."""

    def arguments(self) -> str:
        """The call's arguments: itself, as JSON, and a padding that means nothing."""
        return _CONVERTER.dumps(
            {**_CONVERTER.unstructure(self), "padding": "x" * self.padding_characters}
        )

    @classmethod
    def of(cls, arguments: str) -> Call:
        return _CONVERTER.loads(arguments, cls)


@frozen(kw_only=True)
class Reply:
    """One model call of a turn, in the order of the fields. It ends the turn unless it has calls."""

    gate: str | None = None
    deltas: tuple[str, ...] = ()
    delta_from_thread: str | None = None
    crash: str | None = None
    crashes_until_attempt: int = 3
    """The last attempt at which ``crash`` is raised."""
    way: str | None = None
    """How else the model call ends, as that of a `Call`."""
    thought: str | None = None
    """What an agent of a framework thinks before it answers (`tests/field_cases`)."""
    signature: str | None = None
    """What its provider gives with the thought, which nobody may change."""
    calls: tuple[Call, ...] = ()
    text: str = "done"
    output: str | None = None
    """The answer as JSON text, when it is data."""
    text_characters: int | None = None
    """Answer with as many characters instead of ``text``."""


@frozen
class Script:
    """The model calls of one turn, in order."""

    replies: tuple[Reply, ...]

    @property
    def message(self) -> str:
        """The user's message that carries the script."""
        return _CONVERTER.dumps(self)

    @classmethod
    def of(cls, message: str) -> Script:
        return _CONVERTER.loads(message, cls)


def script(*replies: Reply) -> str:
    """The user's message that makes the model say ``replies``."""
    return Script(replies).message
