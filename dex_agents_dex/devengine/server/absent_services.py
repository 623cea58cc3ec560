"""Services of Dex that this engine does not have: who calls one is told what is missing.

Without this gRPC would say "Method not found!" only.
"""

from __future__ import annotations

from typing import Any, Final

import grpc
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import unimplemented
from dex_agents_dex.devengine.server.refusals import abort

_ABSENT: Final = {
    "WorkerService": "push Workers (WorkerService); use WorkerTarget(pull=True)",
    "MatchingService": "MatchingService, by which the servers of a cluster share tasks",
    "InternalService": "continue-as-new (InternalService)",
}


def add_absent_services(server: grpc.aio.Server) -> None:
    for name, feature in _ABSENT.items():
        service = pb.DESCRIPTOR.services_by_name[name]
        refusing = _refusing(feature)
        methods = {method.name: refusing for method in service.methods}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service.full_name, methods),)
        )


def _refusing(feature: str) -> grpc.RpcMethodHandler[bytes, bytes]:
    """For calls of every kind: none is read, and none is answered."""

    async def refuse(_: Any, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await abort(context, unimplemented(feature))

    return grpc.stream_stream_rpc_method_handler(refuse)
