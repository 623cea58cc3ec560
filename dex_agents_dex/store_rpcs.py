"""What a session answers about its storage as such: all that it holds, and how it forgets it. No rule is asked here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import dex

from dex_agents_model import wire
from dex_agents_model.records import AgentUserMessage, SteeringMessage
from dex_agents_model.requests import MAX_READ_BYTES
from dex_agents_model.text import size_bytes

from .codec import SIGNAL
from .entries import texts_of
from .entry_texts import ForgetEntries, ReadEntries, ReadWaiting, StoredTexts
from .schema import (
    DEFINITIONS,
    INTERRUPT_RESOLUTIONS,
    QUEUED_USER_MESSAGES,
    STEERING_MESSAGES,
    TOOL_CALL_RESULTS,
)
from .steps import STEP_CLASSES

_SINGLETONS: Final = tuple(each for each in DEFINITIONS if isinstance(each, dex.Attribute))
_MAPS: Final = {each.name: each for each in DEFINITIONS if isinstance(each, dex.AttributeMap)}
_EVERY_STEP: Final = tuple(STEP_CLASSES.values())


class StoreRpcs:
    """The handlers; Dex's Registry reads their types and names. A part of `AgentSessionFlow`."""

    @dex.rpc()
    def stored_entries(
        self, context: dex.Context, request: ReadEntries
    ) -> dex.RPCResult[StoredTexts]:
        """Entries of a map, each loaded for this call."""
        return dex.RPCResult(texts_of(context, request))

    @dex.rpc()
    def stored_singletons(self, context: dex.Context) -> dex.RPCResult[StoredTexts]:
        """The JSON of one object: what is stored beside maps and Channels, by name."""
        stored: dict[str, wire.JsonData] = {}
        for each in _SINGLETONS:
            value: object = each.get(context)
            if value is not None:
                stored[each.name] = _data(each.value_type, value)
        return dex.RPCResult(StoredTexts((json.dumps(stored, ensure_ascii=False),)))

    # One RPC a type: Dex loads a Channel whole, and may mix up the values of several.

    @dex.rpc(load_channels=(QUEUED_USER_MESSAGES,))
    def waiting_user_messages(
        self, context: dex.Context, request: ReadWaiting
    ) -> dex.RPCResult[StoredTexts]:
        return _page(AgentUserMessage, _waiting(QUEUED_USER_MESSAGES, context, request), request)

    @dex.rpc(load_channels=(STEERING_MESSAGES,))
    def waiting_steering(
        self, context: dex.Context, request: ReadWaiting
    ) -> dex.RPCResult[StoredTexts]:
        return _page(SteeringMessage, _waiting(STEERING_MESSAGES, context, request), request)

    @dex.rpc(load_channels=(TOOL_CALL_RESULTS,), load_channel_maps=(INTERRUPT_RESOLUTIONS,))
    def waiting_signals(
        self, context: dex.Context, request: ReadWaiting
    ) -> dex.RPCResult[StoredTexts]:
        waiting = _waiting(TOOL_CALL_RESULTS, context, request)
        for key in INTERRUPT_RESOLUTIONS.get_all_instance_keys(context):
            answers = INTERRUPT_RESOLUTIONS.pending_messages(context, key)
            for message in answers if request.forget else ():
                INTERRUPT_RESOLUTIONS.delete(context, key, message.message_id)
            waiting += (answer.value for answer in answers)
        return _page(SIGNAL, waiting, request)

    @dex.rpc(is_transactional=True)
    def forget_entries(
        self, context: dex.Context, request: ForgetEntries
    ) -> dex.RPCResult[StoredTexts]:
        """No Step goes on after this, so nothing comes back that was forgotten."""
        for key in request.keys:
            _MAPS[request.map_name].delete(context, key)
        return dex.RPCResult(StoredTexts(()), canceling_steps=_EVERY_STEP)

    @dex.rpc(is_transactional=True)
    def forget_singletons(self, context: dex.Context) -> dex.RPCResult[StoredTexts]:
        for each in _SINGLETONS:
            each.delete(context)
        return dex.RPCResult(StoredTexts(()), canceling_steps=_EVERY_STEP)


def _waiting(channel: dex.Channel[Any], context: dex.Context, request: ReadWaiting) -> list[Any]:
    """What waits in ``channel``; deleted from it, when it is to be forgotten."""
    waiting = channel.pending_messages(context)
    for message in waiting if request.forget else ():
        channel.delete(context, message.message_id)
    return [message.value for message in waiting]


def _data(shape: Any, value: object) -> wire.JsonData:
    return value if isinstance(value, str | int) else wire.dump(value, shape)


def _page(
    shape: Any, waiting: Iterable[object], request: ReadWaiting
) -> dex.RPCResult[StoredTexts]:
    """Nothing when there is no more; else at least one."""
    page: list[str] = []
    left_bytes = MAX_READ_BYTES
    for number, value in enumerate(waiting):
        if request.forget or number < request.after:
            continue
        text = json.dumps(wire.dump(value, shape), ensure_ascii=False)
        left_bytes -= size_bytes(text)
        if page and left_bytes < 0:
            break
        page.append(text)
    return dex.RPCResult(StoredTexts(tuple(page)))
