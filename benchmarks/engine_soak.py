"""An engine under hours of use, in minutes: `python -m benchmarks.engine_soak --minutes 10`.

200 sessions at once; 50 Workers that come and go, one that is slow, one that takes a task and is
never heard of again; clients that vanish in a long poll. Every session must end right, nothing may
be held once all have left, and the engine's memory and file descriptors must stay flat. Reads
`/proc`, so it needs Linux. Exit code 1 when something is wrong.
"""

import asyncio
import itertools
import json
import logging
import random
import statistics
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

import click
import grpc
from attrs import Factory, define, frozen
from dex import WorkerInvocationError
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from tests.engine.crash_session import REPEATABLE, CrashSession, Effects, drive, is_right
from tests.engine.rig import Rig, rig_at, until
from tests.engine.wire_worker import execute_only, wire_worker

SESSIONS: Final = 200
WORKERS: Final = 50
VANISHING_CLIENTS: Final = 5
IDLE: Final = "idle"  # a Flow that nobody talks to
SILENT: Final = "Silent"
SILENCE_SECONDS: Final = 10  # the shortest heartbeat timeout
WARM_UP_SHARE: Final = 1 / 3
LARGEST_GROWTH: Final = 1.1
HELD_BY_THE_LIVING: Final = ("tasks_in_flight", "tasks_at_workers", "rpcs_open", "polls_waiting")


@define
class EffectsOfEach(Effects):
    """Effects by Flow, and how long a tool takes."""

    flows: dict[str, Effects] = Factory(dict)
    tool_seconds: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.before_tool = self._take_time

    def note(self, flow_id: str, tool: str) -> None:
        self.flows.setdefault(flow_id, Effects()).note(flow_id, tool)

    async def _take_time(self) -> None:
        await asyncio.sleep(self.tool_seconds)


@frozen
class Sample:
    memory_bytes: int
    descriptors: int


@define
class Report:
    sessions: int = 0
    silences: int = 0
    polls_left: int = 0
    wrong: list[str] = Factory(list)
    samples: list[Sample] = Factory(list)
    before: int = 0  # descriptors, when nobody but the first client had come
    counts: dict[str, int] = Factory(dict)  # of the engine, at its end

    def faults(self) -> list[str]:
        held = {name: self.counts[name] for name in HELD_BY_THE_LIVING if self.counts[name]}
        return [*self.wrong, *([f"still held: {held}"] if held else [])]

    def growth(self) -> tuple[float, float]:
        """Of memory and of descriptors: the last third of the samples by the middle third."""
        third = int(len(self.samples) * WARM_UP_SHARE)
        middle, last = self.samples[third : 2 * third], self.samples[2 * third :]
        return (
            statistics.median(each.memory_bytes for each in last)
            / statistics.median(each.memory_bytes for each in middle),
            statistics.median(each.descriptors for each in last)
            / statistics.median(each.descriptors for each in middle),
        )


@define
class Soak:
    """One engine and everybody who uses it, until `seconds` are over and each has used it once."""

    scratch: Path
    seconds: float
    chance: random.Random = Factory(lambda: random.Random(1))
    report: Report = Factory(Report)
    _effects: dict[str, Effects] = Factory(dict)
    _end: float = 0.0

    async def run(self) -> Report:
        stderr = self.scratch / "stderr"
        with stderr.open("wb") as sink:
            engine = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dex_agents_dex.devengine", "--port", "0", "--metrics"),
                *("--data-dir", str(self.scratch / "data"), "--retention", "1m"),
                stdout=PIPE,
                stderr=sink,
            )
        assert engine.stdout is not None
        address = json.loads(await engine.stdout.readline())["address"]
        try:
            await self._use(engine, address)
            await until(lambda: sample(engine.pid).descriptors <= self.report.before)
        finally:
            engine.terminate()
            await engine.wait()
        self.report.counts = json.loads(stderr.read_text().splitlines()[-1])
        return self.report

    async def _use(self, engine: Process, address: str) -> None:
        fast = CrashSession(EffectsOfEach(flows=self._effects))
        slow = CrashSession(EffectsOfEach(flows=self._effects, tool_seconds=1.0))
        async with AsyncExitStack() as stack:
            rig = await stack.enter_async_context(rig_at(address, self.scratch, fast))
            slow_rig = await stack.enter_async_context(rig_at(address, self.scratch, slow))
            await stack.enter_async_context(slow_rig.worker(max_concurrent_tasks=2))
            await stack.enter_async_context(rig.worker(max_concurrent_tasks=20))
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
            await rig.client.start_flow(fast, IDLE, "")  # over the connection that gRPC keeps open
            self.report.before = sample(engine.pid).descriptors
            users = await stack.enter_async_context(asyncio.TaskGroup())
            self._end = asyncio.get_running_loop().time() + self.seconds
            for number in range(SESSIONS):
                users.create_task(self._talk(rig, fast, number))
            for act, on, count in (
                (self._come_and_go, rig, WORKERS),
                (self._vanish, address, VANISHING_CLIENTS),
                (self._fall_silent, channel, 1),
                (self._sample, engine.pid, 1),
            ):
                for _ in range(count):
                    users.create_task(self._again(act, on))

    async def _again(self, act: Callable[[Any], Coroutine[Any, Any, None]], on: Any) -> None:
        await act(on)
        while asyncio.get_running_loop().time() < self._end:
            await act(on)

    async def _pause(self, longest_seconds: float) -> None:
        await asyncio.sleep(self.chance.uniform(0, min(longest_seconds, self.seconds / 4)))

    async def _talk(self, rig: Rig, flow: CrashSession, number: int) -> None:
        """Session after session, each idle for a while; each must end, and right."""
        for count in itertools.count(1):
            flow_id = f"s{number}-{count}"
            await rig.client.start_flow(flow, flow_id, "", REPEATABLE)
            await self._pause(8)
            outputs = await _driven(rig, flow, flow_id)
            effects = self._effects.pop(flow_id, Effects())
            self.report.sessions += 1
            if not is_right(outputs, effects):
                self.report.wrong.append(f"{flow_id}: {outputs}, {dict(effects.runs)}")
            if asyncio.get_running_loop().time() >= self._end:
                return

    async def _come_and_go(self, rig: Rig) -> None:
        await self._pause(5)
        async with rig.worker():
            await self._pause(20)

    async def _vanish(self, address: str) -> None:
        """A client of its own, gone while its long polls are open."""
        own = (("grpc.use_local_subchannel_pool", 1),)  # a connection that ends with it
        async with grpc.aio.insecure_channel(address, options=own) as channel:
            stub: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
            polls = [
                stub.WaitForFlow(pb.WaitForFlowRequest(flow_id=IDLE, wait_time_seconds=60)),
                stub.ReadStream(pb.ReadStreamRequest(flow_type="T", stream_name="S", flow_id=IDLE)),
            ]
            await self._pause(2)
            self.report.polls_left += sum(not poll.done() for poll in polls)

    async def _fall_silent(self, channel: grpc.aio.Channel) -> None:
        """A task whose Worker is connected and says nothing: it costs its only attempt."""
        stub: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        flow_id = f"silent-{self.report.silences}"
        options = execute_only(attempts=1)
        options.heartbeat_timeout_seconds = SILENCE_SECONDS
        await stub.StartFlow(
            pb.StartFlowRequest(
                flow_id=flow_id,
                flow_type=SILENT,
                request_id="r",
                start_step_type="Only",
                step_options=options,
            )
        )
        stream = await wire_worker(channel, "silent").stream(SILENT)
        await stream.next_task()
        ended = await stub.WaitForFlow(pb.WaitForFlowRequest(flow_id=flow_id, wait_time_seconds=60))
        stream.cut()
        self.report.silences += 1
        if ended.flow_status != pb.FLOW_STATUS_FAILED:
            self.report.wrong.append(f"{flow_id}: {pb.FlowStatus.Name(ended.flow_status)}")

    async def _sample(self, pid: int) -> None:
        self.report.samples.append(sample(pid))
        await asyncio.sleep(self.seconds / 300)


async def _driven(rig: Rig, flow: CrashSession, flow_id: str) -> list[tuple[str, Any]]:
    """As a client does that repeats a call whose Worker left meanwhile."""
    while True:
        with suppress(WorkerInvocationError):
            return await drive(rig, flow, flow_id)


def sample(pid: int) -> Sample:
    status = Path(f"/proc/{pid}/status").read_text()
    [resident] = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return Sample(int(resident) * 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())))


@click.command()
@click.option("--minutes", default=10.0, show_default=True)
def main(minutes: float) -> None:
    logging.getLogger("dex").setLevel(logging.CRITICAL)  # it tells of every Worker that leaves
    with tempfile.TemporaryDirectory() as scratch:
        report = asyncio.run(Soak(Path(scratch), minutes * 60).run())
    memory, descriptors = report.growth()
    last = report.samples[-1]
    click.echo(
        f"{report.sessions} sessions, {report.silences} silent Workers, {report.polls_left} polls left\n"
        f"memory {last.memory_bytes / 2**20:.0f} MiB, grown by {memory:.3f};"
        f" {last.descriptors} descriptors, grown by {descriptors:.3f}"
    )
    faults = report.faults()
    if memory > LARGEST_GROWTH or descriptors > LARGEST_GROWTH:
        faults.append(f"not flat: more than {LARGEST_GROWTH}")
    for fault in faults:
        click.echo(fault, err=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
