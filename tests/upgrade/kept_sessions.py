"""A session as its server holds it, in a file, and back onto another server: its state whole, and its open Steps."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import grpc
from dex.dexpb import dex_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict

from dex_agents_dex.dex_server import DexServer
from tests.engine.wire_worker import execute_only, wire_worker

if TYPE_CHECKING:
    from .stories import Story

_FOLDER: Final = Path(__file__).parent
_SEED: Final = "Seed"


def path_of(release: str, story: Story) -> Path:
    """Where the session of ``story`` lies as ``release`` stored it."""
    return _FOLDER / release / f"{story.name}.json"


def releases() -> list[str]:
    """Those whose sessions are kept."""
    return sorted(path.name for path in _FOLDER.iterdir() if path.name.startswith("v"))


async def kept(server_address: str, session_id: str) -> str:
    """The session's state, as a file keeps it."""
    server = DexServer(server_address)
    async with server.flow_service() as service:
        state: pb.GetFlowStateResponse = await service.GetFlowState(
            pb.GetFlowStateRequest(flow_id=session_id)
        )
    state.ClearField("sticky_app_worker_id")
    data = _readable(MessageToDict(state, preserving_proto_field_name=True))
    return json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


async def put_back(server_address: str, session_id: str, flow_type: str, text: str) -> None:
    """Make a session of what was `kept`: a Step that nobody else knows commits all of it at once."""
    state = ParseDict(_as_protobuf(json.loads(text)), pb.GetFlowStateResponse())
    start = pb.StartFlowRequest(
        flow_id=session_id,
        flow_type=flow_type,
        request_id=uuid4().hex,
        start_step_type=_SEED,
        step_options=execute_only(),
    )
    server = DexServer(server_address)
    async with (
        server.flow_service() as service,
        grpc.aio.insecure_channel(server_address) as channel,
    ):
        await service.StartFlow(start)
        stream = await wire_worker(channel, "seed").stream(flow_type)
        task = await stream.next_task()
        assert task.execute.step_type == _SEED
        await stream.execute(pb.InvokeExecuteMethodOutput(result=_everything(state)))
        await stream.half_close()


def _readable(data: Any) -> Any:
    """JSON that stands as bytes in a protobuf message, as JSON."""
    if isinstance(data, list):
        return [_readable(each) for each in data]
    if not isinstance(data, dict):
        return data
    if "payload" in data:
        return {**data, "payload": json.loads(b64decode(data["payload"]))}
    return {name: _readable(each) for name, each in data.items()}


def _as_protobuf(data: Any) -> Any:
    """What `_readable` made ``data`` from."""
    if isinstance(data, list):
        return [_as_protobuf(each) for each in data]
    if not isinstance(data, dict):
        return data
    if "payload" in data:
        return {**data, "payload": b64encode(json.dumps(data["payload"]).encode()).decode()}
    return {name: _as_protobuf(each) for name, each in data.items()}


def _everything(state: pb.GetFlowStateResponse) -> pb.InvokeExecuteMethodResponse:
    return pb.InvokeExecuteMethodResponse(
        upsert_attributes=[
            pb.AttributeWrite(key=entry.key, value=entry.value) for entry in state.attributes
        ],
        publish_to_channel=[
            message
            for waiting in state.pending_channel_messages.values()
            for message in waiting.messages
        ],
        step_decision=pb.StepDecision(
            next_steps=[
                *(step.movement for step in state.active_step_executions),
                *state.queued_steps,
            ]
        ),
    )
