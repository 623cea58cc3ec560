"""Requests whose bytes are no message: refused as a bad argument, where gRPC would say UNKNOWN."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from attrs import frozen
from google.protobuf.message import DecodeError

from dex_agents_dex.devengine.core.errors import invalid
from dex_agents_dex.devengine.server.refusals import abort

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


@frozen
class _Undecodable:
    """Takes the place of a request."""

    problem: str


class DecodingGate(grpc.aio.ServerInterceptor):
    """For calls of one request; a Worker's stream that sends nonsense is cut."""

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[_Request, _Response] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[_Request, _Response] | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        serve: Any = handler.unary_unary
        decode: Any = handler.request_deserializer

        def decoded(content: bytes) -> Any:
            try:
                return decode(content)
            except DecodeError as error:
                return _Undecodable(str(error))

        async def served(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            if isinstance(request, _Undecodable):
                await abort(context, invalid(request.problem))
            return await serve(request, context)

        return grpc.unary_unary_rpc_method_handler(served, decoded, handler.response_serializer)
