"""A call of every command that needs a server. What comes of it is the tests' business."""

from __future__ import annotations

from typing import Final

from . import agent

SESSION: Final = "s"

EVERY_COMMAND: Final[dict[str, tuple[str, ...]]] = {
    "approve": (SESSION,),
    "cancel": (SESSION,),
    "chat": (agent.NAME, "--session", SESSION),
    "close": (SESSION,),
    "erase": (SESSION, "--yes"),
    "events": (SESSION,),
    "export": (SESSION,),
    "messages": (SESSION,),
    "question": (SESSION,),
    "queue": (SESSION,),
    "reject": (SESSION,),
    "send": (SESSION, "hello"),
    "serve": (agent.NAME,),
    "sessions": (),
    "show": (SESSION,),
    "steer": (SESSION, "hello"),
    "withdraw": (SESSION, "an ID"),
}
NEED_NO_SERVER: Final = frozenset({"completion", "dev"})


def call_of(name: str) -> tuple[str, ...]:
    """The command and its arguments."""
    return name, *EVERY_COMMAND[name]
