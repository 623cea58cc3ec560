"""Frames to a Worker: in order, and what the end of a stream makes of those not written."""

import asyncio
from typing import Any

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.server.roster import PollStream, Worker
from dex_agents_dex.devengine.server.worker_streams import Outbox

PING = pb.PollWorkerTaskResponse(ping=pb.PollWorkerTaskPing())
TASK = pb.PollWorkerTaskResponse(task=pb.PollWorkerTask(task_id="t"))


class _Wire:
    """A context whose writes wait for a gate, and may fail."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.gate = asyncio.Event()
        self.written: list[str | None] = []
        self._failure = failure

    async def write(self, frame: pb.PollWorkerTaskResponse) -> None:
        await self.gate.wait()
        if self._failure is not None:
            raise self._failure
        self.written.append(frame.WhichOneof("frame"))


def _outbox(wire: Any) -> tuple[Outbox, PollStream]:
    outbox = Outbox(wire)
    outbox.stream = PollStream(
        "queue", Worker("worker", "connection"), outbox.send, task_id="t", is_sent=True
    )
    return outbox, outbox.stream


async def test_outbox__writes_in_order() -> None:
    wire = _Wire()
    outbox, stream = _outbox(wire)
    for frame in (PING, TASK, PING):
        outbox.send(frame)
    wire.gate.set()
    await outbox.written()
    assert wire.written == ["ping", "task", "ping"]
    assert stream.is_sent


async def test_outbox__a_task_that_waits_behind_a_write_counts_as_not_sent() -> None:
    wire = _Wire()
    outbox, stream = _outbox(wire)
    outbox.send(PING)
    outbox.send(TASK)
    await asyncio.wait({asyncio.ensure_future(wire.gate.wait())}, timeout=0)
    outbox.close()
    wire.gate.set()
    await outbox.written()
    assert wire.written == ["ping"]
    assert not stream.is_sent


@pytest.mark.parametrize("failure", [RuntimeError("RPC already finished"), OSError("gone")])
async def test_outbox__a_task_whose_write_failed_counts_as_not_sent(failure: Exception) -> None:
    wire = _Wire(failure)
    outbox, stream = _outbox(wire)
    outbox.send(TASK)
    wire.gate.set()
    await outbox.written()
    assert not stream.is_sent
