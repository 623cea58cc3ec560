"""Promises about what is numbered or named once: turns, and the requests of clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...decision import SetState
from ...requests import ResolveInterrupt, SendUserMessage, SteerUserMessage, WithdrawUserMessage
from ..actions import Change
from ..stored import active_turn_in, state_in

_NAMED: Final = SendUserMessage | SteerUserMessage | WithdrawUserMessage | ResolveInterrupt


def turn_numbers_are_never_reused(change: Change) -> Iterator[str]:
    """Each turn that begins has the number after the latest one's, and no commit goes back to an earlier one."""
    if change.commit(SetState) is None:
        return
    before, after = state_in(change.before.records), state_in(change.after.records)
    latest = 0 if before is None else before.turn_count
    runs = active_turn_in(change.before.records) is not None
    begins = not runs and active_turn_in(change.after.records) is not None
    counted = 0 if after is None else after.turn_count
    if counted != latest + begins:
        yield f"turn {latest} was the latest, and the state goes on with turn {counted}"


def a_repeated_request_is_answered_as_before(change: Change) -> Iterator[str]:
    """A client that repeats a request which was accepted is told so again, and nothing else happens."""
    cause = change.commit()
    if cause is None or not isinstance(cause.by, _NAMED):
        return
    request_id = cause.by.request_id
    if not request_id or request_id not in change.before.ledger.accepted:
        return
    if cause.decided.reply is not True:
        yield f"{request_id} was accepted, and its repeat is refused"
    if cause.decided.writes or cause.decided.publishes:
        yield f"{request_id} was accepted, and its repeat changes the session"
