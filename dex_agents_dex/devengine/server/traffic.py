"""What the frames of Workers mean: each is a command of the core, or a fact for the dispatcher.

Reading and writing frames happens in `worker_streams`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from attrs import define
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.core.transaction import Transaction
from dex_agents_dex.devengine.server.hub import Hub
from dex_agents_dex.devengine.server.message_log import StreamKey
from dex_agents_dex.devengine.server.roster import PollStream

_LOGGER = logging.getLogger(__name__)


@define(eq=False)
class Traffic:
    _hub: Hub

    def connect(
        self,
        queue: str,
        worker_id: str,
        connection: str,
        send: Callable[[pb.PollWorkerTaskResponse], None],
    ) -> PollStream:
        self._hub.counts["streams_opened"] += 1
        stream = self._hub.dispatcher.connect(queue, worker_id, connection, send)
        self._hub.feed(stream)
        self._hub.dispatcher.register_if_first(stream)
        return stream

    def withdraw(self, stream: PollStream) -> None:
        """The Worker sends no more on this stream, so it gets no further task."""
        self._hub.dispatcher.withdraw(stream)

    def finish(self, stream: PollStream, frame: pb.PollWorkerTaskFrame) -> None:
        """A final frame: apply it, and use the stream again."""
        self._hub.unload(stream)
        worker_id = stream.worker.id
        was_full = stream.worker.note_finished()
        tx = self._hub.attempt(lambda tx: self._hub.core.finish(tx, worker_id, frame))
        self._hub.commit(tx, freed=stream)
        if was_full:
            self._hub.dispatcher.feed(stream.worker)

    def heartbeat(self, stream: PollStream, beat: pb.StepMethodHeartbeat | None) -> None:
        task_id = stream.task_id
        self._hub.commit(self._hub.attempt(lambda tx: self._hub.core.heartbeat(tx, task_id, beat)))

    def write_stream(self, stream: PollStream, write: pb.StepStreamWrite) -> None:
        """Append at once; whatever becomes of the attempt, the message stays."""
        origin = self._hub.core.stream_source(stream.task_id)
        if origin is None:
            return
        self.heartbeat(stream, None)
        run, step_id = origin
        key = StreamKey(run.flow_type, write.stream_name, run.flow_id)
        try:
            self._hub.append_to_stream(key, write.value, f"#{step_id}", write.stream_capacity_bytes)
        except Refusal as refusal:
            _LOGGER.warning("dropped a Stream write of %s: %s", step_id, refusal)

    def reject(self, stream: PollStream, reject: pb.PollWorkerTaskReject) -> None:
        """A Worker declined its task, which never started."""
        self._hub.counts["tasks_rejected"] += 1
        offer = self._hub.unload(stream)
        is_full = reject.reason == pb.POLL_WORKER_TASK_REJECT_REASON_NO_CAPACITY
        if offer is not None and is_full:
            self._hub.dispatcher.note_no_room(stream, is_step=not offer.is_rpc)
        elif offer is not None:
            self._hub.dispatcher.note_unknown(stream, offer)
        tx = self._hub.attempt(lambda tx: self._hub.core.take_back(tx, reject.task_id))
        self._hub.commit(tx, freed=None if is_full else stream)

    def disconnect(self, stream: PollStream, *, is_cut: bool) -> None:
        """A stream ended; whatever it carried goes on elsewhere."""
        hub, task_id, worker_id = self._hub, stream.task_id, stream.worker.id
        hub.unload(stream)
        hub.dispatcher.disconnect(stream)
        if hub.is_stopping:
            return
        if is_cut:
            hub.counts["streams_cut"] += 1
            hub.dispatcher.note_cut(stream.worker)
        if not hub.core.is_in_flight(task_id):
            return
        has_frames = stream.frames > 0
        never_started = not stream.is_sent or (not is_cut and not has_frames)

        def lose(tx: Transaction) -> None:
            if never_started:
                hub.core.take_back(tx, task_id)
            else:
                hub.core.cut(tx, task_id, worker_id, has_frames=has_frames)

        hub.commit(hub.attempt(lose))
