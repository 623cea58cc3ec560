"""What Dex's protocol has no call for: to forget a Flow at once instead of after its retention.

A service of this engine's own, with messages of Dex's. Other servers answer UNIMPLEMENTED.
"""

from __future__ import annotations

from typing import Final

import grpc
from dex.dexpb import dex_pb2 as pb
from google.protobuf import empty_pb2

from dex_agents_dex.devengine.server.calls import Calls
from dex_agents_dex.devengine.server.refusals import answers_refusals

_SERVICE: Final = "dex_agents.devengine.Upkeep"
_FORGET_FLOW: Final = "ForgetFlow"
FORGET_FLOW_METHOD: Final = f"/{_SERVICE}/{_FORGET_FLOW}"
"""Takes a `StopFlowRequest`, of which only ``flow_id`` counts; returns an `Empty`."""


class UpkeepService(Calls):
    @answers_refusals
    async def ForgetFlow(self, request: pb.StopFlowRequest) -> empty_pb2.Empty:
        await self._hub.forget(request.flow_id)
        return empty_pb2.Empty()

    def add_to(self, server: grpc.aio.Server) -> None:
        handler = grpc.unary_unary_rpc_method_handler(
            self.ForgetFlow,
            request_deserializer=pb.StopFlowRequest.FromString,
            response_serializer=empty_pb2.Empty.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, {_FORGET_FLOW: handler}),)
        )
