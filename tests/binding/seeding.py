"""What a server holds of a session, put there and looked at past the product's own code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.dex_server import DexServer
from dex_agents_model import AgentState
from dex_agents_model.records import AgentUserMessage
from dex_agents_model.steps import AwaitUserMessage, Step
from dex_agents_model.wire import dump
from tests.upgrade.kept_sessions import put_back

from .flows import SCRIPTED

_STATE: Any = AgentState
_AT_REST: Final = AwaitUserMessage()


async def put_session(
    server_address: str,
    session_id: str,
    *,
    state: AgentState,
    stored: Mapping[str, object] | None = None,
    queued: tuple[AgentUserMessage, ...] = (),
    open_step: Step = _AT_REST,
) -> None:
    """Make a session with ``stored``, JSON data or a number by key, beside its ``state``."""
    attributes = {"AgentState": dump(state, _STATE), **(stored or {})}
    waiting = [
        {"channel_name": "QueuedUserMessages", "value": _value(dump(message, AgentUserMessage))}
        for message in queued
    ]
    step_input = dump(open_step, type(open_step))
    kept = {
        "attributes": [{"key": key, "value": _value(data)} for key, data in attributes.items()],
        "active_step_executions": [
            {"movement": {"step_type": type(open_step).__name__, "step_input": _value(step_input)}}
        ],
        "pending_channel_messages": {"QueuedUserMessages": {"messages": waiting}},
    }
    await put_back(server_address, session_id, SCRIPTED, json.dumps(kept))


async def state_at(server_address: str, session_id: str) -> pb.GetFlowStateResponse:
    """All that the server holds of the session's present state."""
    async with DexServer(server_address).flow_service() as service:
        state: pb.GetFlowStateResponse = await service.GetFlowState(
            pb.GetFlowStateRequest(flow_id=session_id)
        )
        return state


def _value(data: Any) -> dict[str, object]:
    if isinstance(data, int):
        return {"int_value": str(data)}
    return {"obj_value": {"encoding": "json", "payload": data}}
