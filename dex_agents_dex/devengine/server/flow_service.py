"""The FlowService: what clients ask of the engine.

Each call is a command of the core, a wait for its durability, and an answer. The calls that only
look or wait live in the files beside this one.
"""

from __future__ import annotations

import socket
from typing import Final

from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc
from google.protobuf import empty_pb2

from dex_agents_dex.devengine.core.errors import not_running, unimplemented
from dex_agents_dex.devengine.server.inspection_calls import InspectionCalls
from dex_agents_dex.devengine.server.refusals import answers_refusals
from dex_agents_dex.devengine.server.stream_calls import StreamCalls
from dex_agents_dex.devengine.server.waiting_calls import WaitingCalls

SERVER_VERSION: Final = "dex-agents-devengine"
MINIMUM_PROTOCOL: Final = 1
# Version 3 promises hard-deleted Attributes, which this engine does not have.
CURRENT_PROTOCOL: Final = 2


class FlowService(WaitingCalls, InspectionCalls, StreamCalls, dex_pb2_grpc.FlowServiceServicer):
    @answers_refusals
    async def GetServerInfo(self, _: empty_pb2.Empty) -> pb.ServerInfo:
        return pb.ServerInfo(
            server_version=SERVER_VERSION,
            minimum_supported_protocol_version=MINIMUM_PROTOCOL,
            current_protocol_version=CURRENT_PROTOCOL,
            server_engine=pb.SERVER_ENGINE_ZD,
        )

    @answers_refusals
    async def HealthCheck(self, _: empty_pb2.Empty) -> pb.HealthInfo:
        return pb.HealthInfo(condition="OK", hostname=socket.gethostname())

    @answers_refusals
    async def SyncAttributeIndexes(
        self, request: pb.SyncAttributeIndexRequest
    ) -> pb.SyncAttributeIndexResponse:
        tx = self._hub.begin()
        self._hub.core.declare_indexes(tx, request)
        await self._hub.committed(tx)
        return pb.SyncAttributeIndexResponse()

    @answers_refusals
    async def StartFlow(self, request: pb.StartFlowRequest) -> pb.StartFlowResponse:
        await self._hub.library.look_up(request.flow_id)
        tx, run = self._hub.command(lambda tx: self._hub.core.start_flow(tx, request))
        await self._hub.committed(tx)
        return pb.StartFlowResponse(run_id=run.run_id)

    @answers_refusals
    async def StopFlow(self, request: pb.StopFlowRequest) -> empty_pb2.Empty:
        run = await self._hub.library.find(request.flow_id, request.run_id)
        tx, _ = self._hub.command(lambda tx: self._hub.core.stop_flow(tx, run, request))
        await self._hub.committed(tx)
        return empty_pb2.Empty()

    @answers_refusals
    async def InvokeRPC(self, request: pb.InvokeRPCRequest) -> pb.InvokeRPCResponse:
        return await self._hub.invoke_rpc(request)

    @answers_refusals
    async def SkipTimer(self, request: pb.SkipTimerRequest) -> empty_pb2.Empty:
        run = await self._hub.library.find(request.flow_id, request.run_id)
        if not run.is_running:
            raise not_running(run.flow_id)
        tx, _ = self._hub.command(lambda tx: self._hub.core.skip_timer(tx, run, request))
        await self._hub.committed(tx)
        return empty_pb2.Empty()

    @answers_refusals
    async def UpdateFlowConfig(self, request: pb.UpdateFlowConfigRequest) -> empty_pb2.Empty:
        """Accepted and ignored: nothing in a Flow's configuration changes this engine."""
        run = await self._hub.library.find(request.flow_id, request.run_id)
        if not run.is_running:
            raise not_running(run.flow_id)
        return empty_pb2.Empty()

    # --- not here -----------------------------------------------------------------------------

    @answers_refusals
    async def PublishToChannel(self, _: pb.PublishToChannelRequest) -> empty_pb2.Empty:
        raise unimplemented("PublishToChannel; publish from a Step or an RPC")

    @answers_refusals
    async def GetChannelMessages(
        self, _: pb.GetChannelMessagesRequest
    ) -> pb.GetChannelMessagesResponse:
        raise unimplemented("GetChannelMessages; load the Channel in a Step or an RPC")

    @answers_refusals
    async def DeleteChannelMessage(self, _: pb.DeleteChannelMessageRequest) -> empty_pb2.Empty:
        raise unimplemented("DeleteChannelMessage; delete in a Step or an RPC")

    @answers_refusals
    async def GetAttributes(self, _: pb.GetAttributesRequest) -> pb.GetAttributesResponse:
        raise unimplemented("GetAttributes; read in a Step or an RPC")

    @answers_refusals
    async def SetAttributes(self, _: pb.SetAttributesRequest) -> empty_pb2.Empty:
        raise unimplemented("SetAttributes; write in a Step or an RPC")

    @answers_refusals
    async def ResetFlow(self, _: pb.ResetFlowRequest) -> pb.ResetFlowResponse:
        raise unimplemented("time travel (ResetFlow)")

    @answers_refusals
    async def TriggerContinueAsNew(self, _: pb.TriggerContinueAsNewRequest) -> empty_pb2.Empty:
        raise unimplemented("continue-as-new")
