"""The WorkerTaskService: streams of Workers, frame by frame.

What a frame means is said in `traffic`; here live the stream's order of writes and its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final, TypeAlias

import grpc
from attrs import Factory, define
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine.core.errors import invalid, stopping
from dex_agents_dex.devengine.server.hub import Hub
from dex_agents_dex.devengine.server.refusals import abort
from dex_agents_dex.devengine.server.roster import PollStream
from dex_agents_dex.devengine.server.traffic import Traffic

_LOGGER = logging.getLogger(__name__)

# After a client's EOF: a Worker that was killed has its stream cancelled within 1 ms, or later on a busy machine.
_CUT_FOLLOWS_WITHIN_SECONDS: Final = 0.25

_Context: TypeAlias = grpc.aio.ServicerContext[pb.PollWorkerTaskRequest, pb.PollWorkerTaskResponse]


class WorkerTaskService(dex_pb2_grpc.WorkerTaskServiceServicer):
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._traffic = Traffic(hub)
        self._serving: set[asyncio.Task[None]] = set()
        self._is_ending = False

    def end_streams(self) -> None:
        """End every stream in good order, whatever it carries."""
        self._is_ending = True
        for serving in self._serving:
            serving.cancel()

    async def PollWorkerTask(self, _requests: Any, context: _Context) -> None:
        first = await _read(context)
        if first is None or not first.HasField("register"):
            await abort(context, invalid("the first frame of a Worker's stream must register it"))
        register = first.register
        if not register.queue or not register.app_worker_id:
            await abort(context, invalid("a Worker's stream needs a queue and an app_worker_id"))
        if self._hub.is_stopping:
            await abort(context, stopping())
        outbox = Outbox(context)
        stream = self._traffic.connect(
            register.queue, register.app_worker_id, context.peer(), outbox.send
        )
        outbox.stream = stream
        is_cut = True
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        try:
            await self._read_frames(stream, context)
            is_cut = False
        except asyncio.CancelledError:
            if not self._is_ending:
                raise  # the Worker cut it
            serving.uncancel()
        except (grpc.RpcError, grpc.aio.UsageError) as error:
            _LOGGER.debug("stream of %s: %s", register.app_worker_id, error)
        finally:
            self._serving.discard(serving)
            outbox.close()
            self._traffic.disconnect(stream, is_cut=is_cut)
        await outbox.written()

    async def _read_frames(self, stream: PollStream, context: _Context) -> None:
        while (frame := await _read(context)) is not None:
            self._take_frame(stream, frame)
        self._traffic.withdraw(stream)
        if stream.task_id:
            await asyncio.sleep(_CUT_FOLLOWS_WITHIN_SECONDS)

    def _take_frame(self, stream: PollStream, request: pb.PollWorkerTaskRequest) -> None:
        self._hub.dispatcher.note_life(stream.worker)
        kind = request.WhichOneof("frame")
        if kind == "task_frame":
            frame = request.task_frame
            if stream.task_id and frame.task_id == stream.task_id:
                stream.frames += 1
                self._take_task_frame(stream, frame)
        elif kind == "reject":
            if stream.task_id and request.reject.task_id == stream.task_id:
                self._traffic.reject(stream, request.reject)
        elif kind != "pong":
            _LOGGER.warning("Worker %s sent an unexpected %s frame", stream.worker.id, kind)

    def _take_task_frame(self, stream: PollStream, frame: pb.PollWorkerTaskFrame) -> None:
        kind = frame.WhichOneof("output")
        if kind == "wait_for" or kind == "execute":  # narrows a literal type
            output = frame.wait_for if kind == "wait_for" else frame.execute
            part = output.WhichOneof("output")
            if part == "heartbeat":
                self._traffic.heartbeat(stream, output.heartbeat)
                return
            if part == "stream_write":
                self._traffic.write_stream(stream, output.stream_write)
                return
        self._traffic.finish(stream, frame)


async def _read(context: _Context) -> pb.PollWorkerTaskRequest | None:
    """The client's next frame; None once it sends no more. The stubs do not know of EOF."""
    frame: object = await context.read()
    return frame if isinstance(frame, pb.PollWorkerTaskRequest) else None


@define(eq=False)
class Outbox:
    """Writes frames one at a time, in order, without making the sender wait."""

    _context: _Context
    stream: PollStream | None = None
    _frames: deque[pb.PollWorkerTaskResponse] = Factory(deque)
    _writing: asyncio.Task[None] | None = None
    _is_closed: bool = False

    def send(self, frame: pb.PollWorkerTaskResponse) -> None:
        if self._is_closed:
            return
        self._frames.append(frame)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    def close(self) -> None:
        """Send no more. A task that was not written yet counts as not sent."""
        self._is_closed = True
        for frame in self._frames:
            self._note_unsent(frame)
        self._frames.clear()

    async def written(self) -> None:
        """Return when no write is under way: grpc cannot end a call beside its first write."""
        if self._writing is not None:
            await asyncio.wait({self._writing})

    async def _write_all(self) -> None:
        try:
            while self._frames:
                frame = self._frames.popleft()
                try:
                    await self._context.write(frame)
                except Exception as error:  # noqa: BLE001  # grpc raises several kinds here
                    _LOGGER.debug("a frame was not written: %s", error)
                    self._note_unsent(frame)
        finally:
            self._writing = None

    def _note_unsent(self, frame: pb.PollWorkerTaskResponse) -> None:
        """Not delivered, so the same attempt goes elsewhere once the stream has ended."""
        if self.stream is not None and frame.HasField("task"):
            self.stream.is_sent = False
