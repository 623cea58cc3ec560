"""Refusals on the wire: a gRPC status whose details hold a `ServiceErrorResponse`.

Without that detail the SDK sees an uncategorized error only.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

import grpc
from dex.dexpb import dex_pb2 as pb
from google.protobuf import any_pb2
from google.rpc import status_pb2
from grpc_status import rpc_status

from dex_agents_dex.devengine.core.errors import Refusal

_LOGGER = logging.getLogger(__name__)

Service = TypeVar("Service")
Request = TypeVar("Request")
Response = TypeVar("Response")


async def abort(context: grpc.aio.ServicerContext[Any, Any], refusal: Refusal) -> NoReturn:
    """End the call with a refusal, shortened to what fits a client's 8 KiB of metadata.

    The message travels percent-encoded, the details as base64; a larger error would reach the
    client as RESOURCE_EXHAUSTED, and say nothing.
    """
    body = pb.ServiceErrorResponse(
        detail=_shortened(refusal.detail, 1500), sub_status=refusal.sub_status
    )
    if (error := refusal.worker_error) is not None:
        body.original_worker_error_detail = _shortened(error.detail, 1024)
        body.original_worker_error_type = _shortened(error.error_type, 256)
        body.original_worker_error_status = error.grpc_status or grpc.StatusCode.UNKNOWN.value[0]
        body.original_worker_error_stack_trace = _shortened(error.stack_trace, 1000)
    packed = any_pb2.Any()
    packed.Pack(body)
    status = status_pb2.Status(
        code=grpc.StatusCode[refusal.code].value[0],
        message=_shortened(refusal.detail, 500) or refusal.code,
        details=[packed],
    )
    # The type stubs lack `abort_with_status` on the aio context.
    await cast("Any", context).abort_with_status(rpc_status.to_status(status))
    raise AssertionError("abort_with_status raises")


def _shortened(text: str, limit_bytes: int) -> str:
    encoded = text.encode()
    if len(encoded) <= limit_bytes:
        return text
    return encoded[:limit_bytes].decode(errors="ignore") + " ... (shortened)"


def answers_refusals(
    method: Callable[[Service, Request], Awaitable[Response]],
) -> Callable[[Service, Request, grpc.aio.ServicerContext[Request, Response]], Awaitable[Response]]:
    """Make a service method of one that takes the request only and may raise `Refusal`."""

    @wraps(method)
    async def serve(
        self: Service, request: Request, context: grpc.aio.ServicerContext[Request, Response]
    ) -> Response:
        try:
            return await method(self, request)
        except Refusal as refusal:
            await abort(context, refusal)
        except Exception as error:
            _LOGGER.exception("%s failed", method.__name__)
            await abort(context, Refusal("INTERNAL", f"{method.__name__} failed: {error}"))

    return serve
