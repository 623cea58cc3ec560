"""What a simulated session has stored: text by key, as an engine would hold it, and the way in and out.

Every record passes `layout` and `wire` on each commit and on each load, so nothing in a simulation
can depend on the identity of an object. No rule and no schedule may live here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar, assert_never, cast

from attrs import fields_dict, frozen

from ..calls import AgentToolCall
from ..decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    PutToolCall,
    SetInterrupts,
    SetRunState,
    SetState,
    SetTakenRequestIds,
    SetUsage,
    Write,
)
from ..ids import SessionId
from ..layout import (
    Entry,
    Laid,
    lay_message,
    lay_run_state,
    lay_tool_call,
    message_key,
    read_message,
    read_run_state,
    read_tool_call,
)
from ..policy import AgentSessionOptions
from ..records import AgentInterrupt, AgentMessage, AgentState, AgentUsage
from ..runner import AgentFrameworkRunner, user_message
from ..wire import dump, load
from .channels import QUEUED_USER_MESSAGES, Channels, messages_in

V = TypeVar("V")
Records: TypeAlias = tuple[tuple[str, str], ...]
"""Stored text by key, sorted by key. Immutable: a snapshot is the thing itself."""

STATE: Final = "AgentState"
USAGE: Final = "AgentUsage"
INTERRUPTS: Final = "PendingInterrupts"
REQUEST_IDS: Final = "TakenRequestIds"
MESSAGES: Final = "AgentMessages/"
MESSAGE_PARTS: Final = "AgentMessageParts/"
RUN_STATE: Final = "FrameworkRunState/"
CALLS: Final = "AgentToolCalls/"
CALL_PARTS: Final = "AgentToolCallParts/"


# --- commits -------------------------------------------------------------------------------


@frozen
class Edit:
    """What one commit does to what is stored: first delete all keys of ``cleared``, then put."""

    cleared: tuple[str, ...]
    put: Mapping[str, str]

    def of(self, records: Records) -> Records:
        if not self.put and not self.cleared:
            return records
        kept = (
            pair
            for pair in records
            if pair[0] not in self.put and not pair[0].startswith(self.cleared)
        )
        return tuple(sorted((*kept, *self.put.items())))


def edit_for(writes: tuple[Write, ...], runner: AgentFrameworkRunner) -> Edit:
    """``writes``, in their order, as one edit.

    Raises:
        ContractBroken: the runner builds no user message out of a text.
    """
    cleared: tuple[str, ...] = ()
    put: dict[str, str] = {}
    for write in writes:
        if isinstance(write, ClearTurn):
            cleared = (*cleared, RUN_STATE, CALLS, CALL_PARTS)
            put = {key: text for key, text in put.items() if not key.startswith(cleared)}
        if isinstance(write, SetRunState):
            cleared = (*cleared, RUN_STATE)
        put |= _texts(write, runner)
    return Edit(cleared, put)


def _texts(write: Write, runner: AgentFrameworkRunner) -> dict[str, str]:
    match write:
        case SetState(state):
            return {STATE: _text(dump(state, AgentState))}
        case SetUsage(usage):
            return {USAGE: _text(dump(usage, AgentUsage))}
        case SetInterrupts(interrupts):
            return {INTERRUPTS: _text(dump(interrupts, tuple[AgentInterrupt, ...]))}
        case SetTakenRequestIds(request_ids):
            return {REQUEST_IDS: _text(dump(request_ids, tuple[str, ...]))}
        case SetRunState(run_state):
            return {RUN_STATE + key: part for key, part in lay_run_state(run_state).items()}
        case PutToolCall(record):
            return _laid(CALLS + record.tool_call_id, CALL_PARTS, lay_tool_call(record))
        case AppendMessages(messages):
            texts: dict[str, str] = {}
            for message in messages:
                texts |= _message(message)
            return texts
        case AppendUserMessage(sequence, turn, text):
            return _message(user_message(runner, sequence=sequence, turn=turn, text=text))
        case ClearTurn():
            return {}
        case _:
            assert_never(write)


def _message(message: AgentMessage) -> dict[str, str]:
    return _laid(MESSAGES + message_key(message.sequence), MESSAGE_PARTS, lay_message(message))


def _laid(key: str, parts: str, laid: Laid) -> dict[str, str]:
    return {
        key: _text(dict(laid.entry.data)),
        **{parts + name: part for name, part in laid.parts.items()},
    }


def _text(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


# --- loads ---------------------------------------------------------------------------------


def snapshot_for(
    view: type[Any], call: str | None, records: Records, channels: Channels
) -> Records:
    """What a Step or an RPC that reads ``view`` is given; ``call`` is the one tool call that it is about."""
    keys, prefixes = _selection(cast("Hashable", view), call)
    loaded = tuple(pair for pair in records if pair[0] in keys or pair[0].startswith(prefixes))
    if "queued_message_count" in fields_dict(view):
        count = len(messages_in(channels, QUEUED_USER_MESSAGES))
        return (*loaded, (QUEUED_USER_MESSAGES, str(count)))
    return loaded


def read_view(
    view: type[V], snapshot: Records, session: SessionId, options: AgentSessionOptions
) -> V:
    """``snapshot``, which was taken for this view, as the view."""
    names = fields_dict(cast("type[Any]", view)).keys() - {"session_id", "options"}
    values = {name: _READERS[name](snapshot) for name in names}
    make = cast("Callable[..., V]", view)
    return make(session_id=session, options=options, **values)


@lru_cache(maxsize=16_384)
def state_in(records: Records) -> AgentState | None:
    text = _at(records, STATE)
    return None if text is None else _loaded(text, AgentState)


@lru_cache(maxsize=16_384)
def usage_in(records: Records) -> AgentUsage:
    text = _at(records, USAGE)
    return AgentUsage() if text is None else _loaded(text, AgentUsage)


@lru_cache(maxsize=16_384)
def interrupts_in(records: Records) -> tuple[AgentInterrupt, ...]:
    text = _at(records, INTERRUPTS)
    return () if text is None else _loaded(text, tuple[AgentInterrupt, ...])


def request_ids_in(records: Records) -> tuple[str, ...]:
    text = _at(records, REQUEST_IDS)
    return () if text is None else _loaded(text, tuple[str, ...])


def run_state_in(records: Records) -> str | None:
    return read_run_state(_under(records, RUN_STATE))


@lru_cache(maxsize=16_384)
def messages_of(records: Records) -> tuple[AgentMessage, ...]:
    """All stored messages in sequence order."""
    parts = _under(records, MESSAGE_PARTS)
    if not parts:
        return tuple(_whole_message(text) for key, text in records if key.startswith(MESSAGES))
    return tuple(
        read_message(Entry(json.loads(text)), parts)
        for key, text in records
        if key.startswith(MESSAGES)
    )


@lru_cache(maxsize=16_384)
def tool_calls_in(records: Records) -> tuple[AgentToolCall, ...]:
    """The running turn's records, in model order."""
    parts = _under(records, CALL_PARTS)
    found = (
        read_tool_call(Entry(json.loads(text)), parts) if parts else _whole_call(text)
        for key, text in records
        if key.startswith(CALLS)
    )
    return tuple(sorted(found, key=lambda record: record.deferral_order))


@lru_cache(maxsize=65_536)
def _loaded(text: str, shape: Any) -> Any:
    return load(json.loads(text), shape)


@lru_cache(maxsize=65_536)
def _whole_message(text: str) -> AgentMessage:
    return read_message(Entry(json.loads(text)), {})


@lru_cache(maxsize=65_536)
def _whole_call(text: str) -> AgentToolCall:
    return read_tool_call(Entry(json.loads(text)), {})


def _at(records: Records, key: str) -> str | None:
    return next((text for found, text in records if found == key), None)


def _under(records: Records, prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: text for key, text in records if key.startswith(prefix)}


def _only_call(snapshot: Records) -> AgentToolCall | None:
    return next(iter(tool_calls_in(snapshot)), None)


def _queued(snapshot: Records) -> int:
    return int(_at(snapshot, QUEUED_USER_MESSAGES) or 0)


# One line for each field that any view has: how it is read, and from where.
_READERS: Final[Mapping[str, Callable[[Records], object]]] = {
    "state": state_in,
    "usage": usage_in,
    "interrupts": interrupts_in,
    "taken_request_ids": request_ids_in,
    "messages": messages_of,
    "run_state": run_state_in,
    "tool_calls": tool_calls_in,
    "record": _only_call,
    "queued_message_count": _queued,
}
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "state": (STATE,),
    "usage": (USAGE,),
    "interrupts": (INTERRUPTS,),
    "taken_request_ids": (REQUEST_IDS,),
    "messages": (MESSAGES, MESSAGE_PARTS),
    "run_state": (RUN_STATE,),
    "tool_calls": (CALLS, CALL_PARTS),
    "queued_message_count": (),
}


@lru_cache(maxsize=1_024)
def _selection(view: Hashable, call: str | None) -> tuple[frozenset[str], tuple[str, ...]]:
    keys: set[str] = set()
    prefixes: list[str] = []
    for name in fields_dict(cast("type[Any]", view)).keys() - {"session_id", "options"}:
        if name == "record":
            keys.add(f"{CALLS}{call}")
            prefixes.append(f"{CALL_PARTS}{call}.")
            continue
        keys.update(key for key in _KEYS[name] if not key.endswith("/"))
        prefixes += [key for key in _KEYS[name] if key.endswith("/")]
    return frozenset(keys), tuple(prefixes)
