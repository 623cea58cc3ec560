"""What operators do with whole sessions: close them, take a copy of them, and have them forgotten."""

from __future__ import annotations

from typing import Any, Final

import dex
import grpc
from attrs import frozen
from dex.dexpb import dex_pb2 as pb
from google.protobuf import empty_pb2

from dex_agents_model.ids import SessionId
from dex_agents_model.text import clean_text
from dex_agents_model.wire import JsonData

from .devengine.server.upkeep_service import FORGET_FLOW_METHOD
from .dex_server import DexServer, words_of
from .errors import AgentSessionError, SessionNotFound
from .session_calls import SessionCalls
from .session_store import SessionStore

_EXPORT_VERSION: Final = 1

HISTORY_LEFT: Final = (
    "the server's history of the session and its blobs, until its retention removes them:"
    " Dex has no call that deletes them"
)
EVENTS_LEFT: Final = "events of the session, until newer ones of its Flow type take their place"
STATE_LEFT: Final = (
    "all that the session stored, which stays readable as long: it was closed before,"
    " and Dex lets nobody change a closed Flow"
)


@frozen
class Erasure:
    """What became of an erased session. ``left`` says what the server still has, one phrase each."""

    session_id: SessionId
    left: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the server has nothing of it any more."""
        return not self.left


class SessionOperations(SessionCalls):
    """Sessions of one Flow type, as whoever runs them deals with them."""

    async def close_session(self, session_id: str, *, reason: str = "") -> None:
        """End a session for good: what runs is stopped, what is stored stays readable.

        Raises:
            SessionNotFound: there is no open session of this ID.
        """
        session = SessionId(session_id)
        options = dex.StopFlowOptions(reason=clean_text(reason) or None)
        await self._call(session, lambda: self._client.stop_flow(session, options))

    async def export_session(self, session_id: str) -> dict[str, JsonData]:
        """Everything that is stored of a session, also of a closed one, as JSON data.

        Records have the durable form of `dex_agents_model.wire`, their long texts whole. It is read
        in many answers, each of which fits a frame; a session that goes on meanwhile changes under
        it. ``unreadable`` names what a Worker could not read, and why.

        Raises:
            SessionNotFound: there is no session of this ID.
        """
        session = SessionId(session_id)
        info = await self._describe(session)
        stored = await SessionStore(self._client, self._flow, session).everything()
        return {
            "version": _EXPORT_VERSION,
            "session_id": str(session),
            "flow_type": info.flow_type,
            "run_id": info.run_id,
            "status": info.status.value,
            "started_at": info.started_at.isoformat(),
            **stored,
        }

    async def erase_session(self, session_id: str) -> Erasure:
        """Have a session forgotten, open or closed, as far as its server can.

        The dev engine forgets it to the last byte of its file. On another server an open session is
        stopped, emptied and closed; what such a server keeps all the same is `Erasure.left`. Logs,
        traces, and the memory of Workers that served it are nobody's to erase from here.

        Raises:
            SessionNotFound: there is no session of this ID.
        """
        session = SessionId(session_id)
        if await self._is_forgotten_by_the_server(session):
            return Erasure(session, left=())
        info = await self._describe(session)
        if info.status is not dex.FlowStatus.RUNNING:
            return Erasure(session, left=(STATE_LEFT, HISTORY_LEFT, EVENTS_LEFT))
        await SessionStore(self._client, self._flow, session).forget()
        await self.close_session(session, reason="erased")
        return Erasure(session, left=(HISTORY_LEFT, EVENTS_LEFT))

    async def _describe(self, session: SessionId) -> dex.FlowInfo:
        return await self._call(session, lambda: self._client.describe_flow(session))

    async def _is_forgotten_by_the_server(self, session: SessionId) -> bool:
        """False where the server has no call for it."""
        options = self._client.options
        server = DexServer(options.server_address, options.credential)
        async with server.channel() as channel:
            forget: Any = channel.unary_unary(
                FORGET_FLOW_METHOD,
                request_serializer=pb.StopFlowRequest.SerializeToString,
                response_deserializer=empty_pb2.Empty.FromString,
            )
            try:
                await forget(pb.StopFlowRequest(flow_id=session), metadata=await server.metadata())
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return False
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    raise SessionNotFound(f"there is no session {session!r}") from error
                said = f"the server did not erase session {session!r}: {words_of(error)}"
                raise server.trouble(error) or AgentSessionError(said) from error
        return True
