"""The FlowService's calls about Streams. They need no Flow."""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb
from google.protobuf import empty_pb2

from dex_agents_dex.devengine.core.errors import invalid
from dex_agents_dex.devengine.server.calls import Calls, Poll
from dex_agents_dex.devengine.server.message_log import StreamKey
from dex_agents_dex.devengine.server.refusals import answers_refusals


class StreamCalls(Calls):
    @answers_refusals
    async def WriteStream(self, request: pb.WriteStreamRequest) -> empty_pb2.Empty:
        if not request.source:
            raise invalid("WriteStream needs a source")
        self._hub.append_to_stream(
            _stream_key(request), request.value, request.source, request.stream_capacity_bytes
        )
        return empty_pb2.Empty()

    @answers_refusals
    async def ReadStream(self, request: pb.ReadStreamRequest) -> pb.ReadStreamResponse:
        key = _stream_key(request)
        nothing = f"nothing new in Stream {request.stream_name!r}"
        poll = Poll.of_wait_time(self._hub.waiters, request.wait_time_seconds, nothing)
        log, token = self._hub.log, request.resume_token
        while (message := log.after(key, token)) is None:
            await poll.until(key, lambda: log.after(key, token) is not None)
        return pb.ReadStreamResponse(message=message)

    @answers_refusals
    async def ListStreamMessages(
        self, request: pb.ListStreamMessagesRequest
    ) -> pb.ListStreamMessagesResponse:
        messages, token = self._hub.log.page_before(
            _stream_key(request), request.before_page_token, request.page_size
        )
        return pb.ListStreamMessagesResponse(messages=messages, next_page_token=token)


def _stream_key(
    request: pb.WriteStreamRequest | pb.ReadStreamRequest | pb.ListStreamMessagesRequest,
) -> StreamKey:
    if not (request.flow_id and request.flow_type and request.stream_name):
        raise invalid("a Stream is named by flow_id, flow_type and stream_name")
    return StreamKey(request.flow_type, request.stream_name, request.flow_id)
