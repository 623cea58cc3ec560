"""A Dex server as programs use it: its address, and the token that lets them in. Every connection begins here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Final

import dex
import grpc
from attrs import frozen
from dex.dexpb import dex_pb2_grpc

from .errors import SHUT, AccessDenied, EngineUnavailable, denied

SERVER_ADDRESS_VARIABLE: Final = "DEX_SERVER_ADDRESS"
TOKEN_FILE_VARIABLE: Final = "DEX_SERVER_TOKEN_FILE"

_SILENT: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_BLOB_CACHE_BYTES: Final = 64 * 1024 * 1024
_ANY_SIZE: Final = (("grpc.max_receive_message_length", -1),)


class TokenFile:
    """The bearer token in a file, which may be replaced at any time.

    Raises:
        AccessDenied: the file cannot be read, or holds no token; also when a token is asked for.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = dex.FileCredential(path)
        except (OSError, ValueError) as error:
            raise _unusable(path, error) from error

    def token(self) -> str:
        """The token of this moment, as the SDK asks for it before each call."""
        try:
            return self._file.token()
        except (OSError, ValueError) as error:
            raise _unusable(self.path, error) from error


@frozen
class DexServer:
    """One server. Without a credential calls carry no token."""

    address: str
    credential: dex.Credential | None = None

    @classmethod
    def at(cls, address: str, token_file: str | Path | None = None) -> DexServer:
        """The server at ``address``, with the token in the file, or else in the one that the environment names.

        Raises:
            AccessDenied: the file cannot be read, or holds no token.
        """
        path = token_file or os.environ.get(TOKEN_FILE_VARIABLE)
        return cls(address, TokenFile(Path(path)) if path else None)

    @property
    def client_options(self) -> dex.ClientOptions:
        return dex.ClientOptions(
            server_address=self.address,
            worker_target=dex.WorkerTarget(pull=True),
            credential=self.credential,
        )

    def worker_options(self, pull: dex.PullWorkerOptions) -> dex.WorkerOptions:
        return dex.WorkerOptions(server_address=self.address, pull=pull, credential=self.credential)

    @asynccontextmanager
    async def client(
        self, registry: dex.Registry
    ) -> AsyncIterator[tuple[dex.AsyncClient, dex.BlobCache]]:
        """A client, and the cache of blobs that it shares with a Worker of the same program."""
        with tempfile.TemporaryDirectory(prefix="dex-blobs-") as directory:
            cache = dex.open_blob_cache(dex.BlobCacheConfig(directory, _BLOB_CACHE_BYTES))
            try:
                async with dex.AsyncClient(registry, cache, self.client_options) as client:
                    yield client, cache
            finally:
                cache.close()

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """For calls that are not Dex's; each call needs `metadata`."""
        async with grpc.aio.insecure_channel(self.address, options=_ANY_SIZE) as channel:
            yield channel

    @asynccontextmanager
    async def flow_service(self) -> AsyncIterator[dex_pb2_grpc.FlowServiceStub]:
        """The service itself, for what the SDK's client does not ask; each call needs `metadata`."""
        async with self.channel() as channel:
            yield dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code

    def trouble(self, error: grpc.aio.AioRpcError) -> AccessDenied | EngineUnavailable | None:
        """What a call's error says about the server as a whole; None when it is about the call."""
        said = words_of(error)
        if error.code() in SHUT:
            return denied(self.address, self.credential, said)
        if error.code() in _SILENT:
            return EngineUnavailable(f"no Dex server answers at {self.address}: {said}")
        return None

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        """What shows the server that a call may be made.

        Raises:
            AccessDenied: the token file cannot be read (any more).
        """
        if self.credential is None:
            return ()
        token = self.credential.token()
        if isawaitable(token):
            token = await token
        return (("authorization", f"Bearer {token}"),)


def words_of(error: grpc.aio.AioRpcError) -> str:
    """What a person needs of a call's error: gRPC tells the whole way to the fault, and the fault last."""
    return (error.details() or error.code().name).rpartition(": ")[2].strip("]")


def _unusable(path: Path, error: OSError | ValueError) -> AccessDenied:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return AccessDenied(f"cannot use the token file {path}: {said}")
