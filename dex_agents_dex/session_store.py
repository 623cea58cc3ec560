"""One session's storage from outside, whole: read part by part in answers that fit a frame, and forgotten so."""

from __future__ import annotations

import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, Final, TypeVar, cast

import dex
from attrs import frozen

from dex_agents_model import wire
from dex_agents_model.calls import AgentToolCall
from dex_agents_model.events import AgentEvent
from dex_agents_model.ids import SessionId, ToolCallId
from dex_agents_model.layout import (
    REQUEST_IDS_KEYS,
    Entry,
    approval_key,
    message_key,
    read_run_state,
    read_tool_call,
    run_state_keys,
    steering_key,
)
from dex_agents_model.records import (
    AgentState,
    ApprovalRecord,
    HistorySummary,
    RunningModel,
    RunningTools,
    TakenSteering,
)
from dex_agents_model.wire import JsonData

from .calling import PATIENT, read_entries, retrying
from .codec import STATE
from .entries import Entries
from .entry_texts import ForgetEntries, ReadEntries, ReadWaiting, StoredTexts
from .errors import WorkerFailed
from .flow import AgentSessionFlow
from .schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_STATE,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    APPROVAL_COUNT,
    APPROVALS,
    FRAMEWORK_RUN_STATE,
    HISTORY_SUMMARY,
    RUN_STATE_PART_COUNT,
    TAKEN_REQUEST_IDS,
    TAKEN_STEERING,
    TOOL_CALL_CLAIMS,
)

R = TypeVar("R")

_CALL: Final = cast("type[AgentToolCall]", AgentToolCall)
_KEYS_AT_ONCE: Final = 500
_MESSAGES_AT_ONCE: Final = 200
_EVENTS_AT_ONCE: Final = 20  # of at most 100 KiB each


@frozen
class _Inventory:
    """Which entries there are, as the session's state tells; some may be gone by the time they are read."""

    state: AgentState | None
    run_state_part_count: int
    approval_count: int

    @classmethod
    def of(cls, singletons: Mapping[str, JsonData]) -> _Inventory:
        state = singletons.get(AGENT_STATE.name)
        return cls(
            None if state is None else wire.load(state, STATE),
            cast("int", singletons.get(RUN_STATE_PART_COUNT.name, 0)),
            cast("int", singletons.get(APPROVAL_COUNT.name, 0)),
        )

    @property
    def messages(self) -> Sequence[str]:
        if self.state is None:
            return ()
        stored = range(self.state.history.first_sequence, self.state.message_count + 1)
        return tuple(map(message_key, stored))

    @property
    def calls(self) -> Sequence[ToolCallId]:
        return () if self._turn is None else self._turn.tool_call_ids

    @property
    def steering(self) -> Sequence[str]:
        return (
            () if self._turn is None else tuple(map(steering_key, range(self._turn.steering_count)))
        )

    @property
    def run_state(self) -> Sequence[str]:
        return run_state_keys(self.run_state_part_count)

    @property
    def approvals(self) -> Sequence[str]:
        return tuple(map(approval_key, range(self.approval_count)))

    @property
    def summary(self) -> Sequence[str]:
        through = 0 if self.state is None else self.state.history.summarised_through
        return (message_key(through),) if through else ()

    @property
    def _turn(self) -> RunningModel | RunningTools | None:
        return self.state if isinstance(self.state, RunningModel | RunningTools) else None


class SessionStore:
    """What a server holds of one session. A Worker must answer the RPCs of its Flow type."""

    def __init__(self, client: dex.AsyncClient, flow: AgentSessionFlow, session: SessionId) -> None:
        self._client = client
        self._flow = flow
        self._session = session
        self._entries = Entries(self._read)

    async def everything(self) -> dict[str, JsonData]:
        """All of it as JSON data by part. What cannot be read is named under ``unreadable``, with the reason."""
        singletons = await self._singletons()
        kept = _Inventory.of(singletons)
        parts: dict[str, Callable[[], Awaitable[JsonData]]] = {
            "messages": lambda: self._messages(kept),
            "summaries": lambda: self._records(HISTORY_SUMMARY, kept.summary, HistorySummary),
            "run_state": lambda: self._run_state(kept),
            "tool_calls": lambda: self._tool_calls(kept),
            "tool_call_claims": lambda: self._claims(kept),
            "taken_steering": lambda: self._records(TAKEN_STEERING, kept.steering, TakenSteering),
            "approvals": lambda: self._records(APPROVALS, kept.approvals, ApprovalRecord),
            "taken_request_ids": self._request_ids,
            "queued_user_messages": lambda: self._waiting(self._flow.waiting_user_messages),
            "queued_steering": lambda: self._waiting(self._flow.waiting_steering),
            "turn_signals": lambda: self._waiting(self._flow.waiting_signals),
            "events": self._events,
        }
        found: dict[str, JsonData] = {"singletons": singletons}
        unreadable: dict[str, JsonData] = {}
        for name, read in parts.items():
            try:
                found[name] = await read()
            except WorkerFailed as error:
                unreadable[name] = str(error)
        return {**found, "unreadable": unreadable}

    async def forget(self) -> None:
        """Let no Step go on, and delete all of it from the session's present state. It must be open."""
        await self._forget(AGENT_MESSAGES, ())
        kept = _Inventory.of(await self._singletons())
        for entries, parts, keys in (
            (AGENT_MESSAGES, AGENT_MESSAGE_PARTS, kept.messages),
            (AGENT_TOOL_CALLS, AGENT_TOOL_CALL_PARTS, kept.calls),
        ):
            async for heads in self._in_chunks(entries, keys):
                part_keys = [key for head in heads.values() for key in head.part_keys()]
                await self._forget(parts, part_keys)
                await self._forget(entries, tuple(heads))
        await self._forget(TOOL_CALL_CLAIMS, kept.calls)
        await self._forget(FRAMEWORK_RUN_STATE, kept.run_state)
        await self._forget(TAKEN_STEERING, kept.steering)
        await self._forget(HISTORY_SUMMARY, kept.summary)
        await self._forget(APPROVALS, kept.approvals)
        await self._forget(TAKEN_REQUEST_IDS, REQUEST_IDS_KEYS)
        for channel in (
            self._flow.waiting_user_messages,
            self._flow.waiting_steering,
            self._flow.waiting_signals,
        ):
            await self._ask(channel, ReadWaiting(forget=True))
        await self._ask(self._flow.forget_singletons, None)

    async def _singletons(self) -> dict[str, JsonData]:
        (text,) = (await self._ask(self._flow.stored_singletons, None)).texts
        assert text is not None, "there is always an object"
        return cast("dict[str, JsonData]", json.loads(text))

    async def _messages(self, kept: _Inventory) -> JsonData:
        found: list[JsonData] = []
        async for heads in self._in_chunks(AGENT_MESSAGES, kept.messages):
            keys = [key for head in heads.values() for key in head.part_keys()]
            parts = await self._entries.stored(AGENT_MESSAGE_PARTS, keys)
            found += [dict(head.joined(parts)) for head in _whole(heads, parts)]
        return found

    async def _tool_calls(self, kept: _Inventory) -> JsonData:
        heads = await self._entries.stored(AGENT_TOOL_CALLS, map(str, kept.calls))
        keys = [key for head in heads.values() for key in head.part_keys()]
        parts = await self._entries.stored(AGENT_TOOL_CALL_PARTS, keys)
        return [wire.dump(read_tool_call(head, parts), _CALL) for head in _whole(heads, parts)]

    async def _run_state(self, kept: _Inventory) -> JsonData:
        return read_run_state(await self._entries.stored(FRAMEWORK_RUN_STATE, kept.run_state))

    async def _claims(self, kept: _Inventory) -> JsonData:
        claims = await self._entries.stored(TOOL_CALL_CLAIMS, kept.calls)
        return {call: claimant for call, claimant in claims.items()}  # noqa: C416 - JsonData takes no dict of str

    async def _records(
        self, entries: dex.AttributeMap[R], keys: Sequence[str], shape: type[R]
    ) -> JsonData:
        found = await self._entries.stored(entries, keys)
        return [wire.dump(record, shape) for record in found.values()]

    async def _request_ids(self) -> JsonData:
        found = await self._entries.stored(TAKEN_REQUEST_IDS, REQUEST_IDS_KEYS)
        return [request_id for ids in found.values() for request_id in ids]

    async def _waiting(
        self, channel: Callable[[dex.Context, ReadWaiting], dex.RPCResult[StoredTexts]]
    ) -> JsonData:
        found: list[JsonData] = []
        while texts := (await self._ask(channel, ReadWaiting(after=len(found)))).texts:
            found += [json.loads(text) for text in texts if text is not None]
        return found

    async def _events(self) -> JsonData:
        newest_first: list[JsonData] = []
        token = ""
        while True:
            read = partial(
                self._client.list_stream_messages,
                *(self._session, self._flow.agent_events, _EVENTS_AT_ONCE, token),
            )
            page = await self._call(read)
            for message in page.messages:
                newest_first += [wire.dump(e, AgentEvent) for e in reversed(message.value.events())]
            token = page.next_page_token
            if not token:
                return newest_first[::-1]

    async def _in_chunks(
        self, entries: dex.AttributeMap[Entry], keys: Sequence[str]
    ) -> AsyncIterator[dict[str, Entry]]:
        for start in range(0, len(keys), _MESSAGES_AT_ONCE):
            yield await self._entries.stored(entries, keys[start : start + _MESSAGES_AT_ONCE])

    async def _forget(self, entries: dex.AttributeMap[Any], keys: Iterable[str]) -> None:
        every = tuple(keys)
        for start in range(0, max(len(every), 1), _KEYS_AT_ONCE):
            request = ForgetEntries(entries.name, every[start : start + _KEYS_AT_ONCE])
            await self._ask(self._flow.forget_entries, request)

    async def _read(self, entries: dex.AttributeMap[Any], request: ReadEntries) -> StoredTexts:
        rpc = self._flow.stored_entries
        return await read_entries(self._client, rpc, self._session, entries, request)

    async def _ask(self, rpc: Callable[..., dex.RPCResult[R]], request: object) -> R:
        return await self._call(lambda: self._client.invoke_rpc(rpc, self._session, request))

    async def _call(self, call: Callable[[], Awaitable[R]]) -> R:
        return await retrying(self._client, self._session, call, within=PATIENT)


def _whole(heads: Mapping[str, Entry], parts: Mapping[str, str]) -> Iterator[Entry]:
    """Those whose long texts were there, too: others went while they were read."""
    return (head for head in heads.values() if parts.keys() >= set(head.part_keys()))
