"""Bearer tokens: who may call the engine at all.

A file holds one token a line; it is read again when it changes, so that tokens can be rotated.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.server.refusals import abort

_LOGGER = logging.getLogger(__name__)
_PREFIX: Final = "Bearer "

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class TokenFile:
    """The tokens of a file; raises `OSError` or `ValueError` if it cannot be used at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problem = ""  # that was told last
        self._version = self._current_version()
        self._tokens = _read_tokens(path)

    def allows(self, authorization: str) -> bool:
        """Whether an `authorization` header names one of the tokens, compared in constant time."""
        self._refresh()
        given = authorization.removeprefix(_PREFIX).encode()
        has_prefix = authorization.startswith(_PREFIX)
        # Every token is compared, so that the time tells nothing about which one was close.
        matches = [hmac.compare_digest(given, token) for token in self._tokens]
        return has_prefix and any(matches)

    def _refresh(self) -> None:
        try:
            version = self._current_version()
            if version != self._version:
                self._tokens, self._version = _read_tokens(self._path), version
            self._problem = ""
        except (OSError, ValueError) as error:
            if str(error) != self._problem:  # once, not at each call
                self._problem = str(error)
                _LOGGER.error("keeping the tokens read before: %s", error)

    def _current_version(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_mtime_ns, status.st_size


class BearerGate(grpc.aio.ServerInterceptor):
    """Refuses every call without a known token."""

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[_Request, _Response] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[_Request, _Response] | None:
        handler = await continuation(handler_call_details)
        if handler is None or self._tokens.allows(_authorization(handler_call_details)):
            return handler
        return _refusing(handler)


def _authorization(details: grpc.HandlerCallDetails) -> str:
    headers = dict(details.invocation_metadata)
    return str(headers.get("authorization", ""))


def _refusing(
    handler: grpc.RpcMethodHandler[_Request, _Response],
) -> grpc.RpcMethodHandler[_Request, _Response]:
    """A handler of the same kind that refuses; the FlowService and the pull stream are all there is."""
    if handler.request_streaming:
        return grpc.stream_stream_rpc_method_handler(
            _refuse, handler.request_deserializer, handler.response_serializer
        )
    return grpc.unary_unary_rpc_method_handler(
        _refuse, handler.request_deserializer, handler.response_serializer
    )


async def _refuse(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await abort(context, Refusal("UNAUTHENTICATED", "this engine needs a bearer token it knows"))


def _read_tokens(path: Path) -> tuple[bytes, ...]:
    lines = path.read_text("utf-8-sig").splitlines()
    tokens = tuple(line.strip().encode() for line in lines if line.strip())
    if not tokens:
        raise ValueError(f"{path} holds no token")
    return tokens
