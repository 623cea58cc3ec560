"""A server that does nothing but hand out the next Step: `python -m benchmarks.null_server`.

It speaks just so much of Dex's protocol that the SDK's client and Worker run Flows of execute-only
Steps on it, in the manner of the dev engine: `grpc.aio`, one stream a task, spare streams registered
late. There is no store, no history, no retry and no rule. What it cannot reach is out of reach for
every engine that is written so, on this machine. Prints its address as one JSON line.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import grpc
from attrs import define
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc
from google.protobuf import empty_pb2

_NO_ROOM_SECONDS: Final = 0.02  # before a stream whose Worker was full gets another task
_LAST_ANSWERS_SECONDS: Final = 1.0
_REGISTERED: Final = pb.PollWorkerTaskResponse(
    registered=pb.PollWorkerTaskRegistered(supports_unknown_name_rejection=True)
)


@define(eq=False)
class _Flow:
    """One Flow at work, with the task that is to be handed out next, or is out."""

    ended: asyncio.Future[pb.FlowResult]
    task: pb.PollWorkerTask
    steps: int = 0

    def takes(self, decision: pb.StepDecision) -> bool:
        """Whether the Flow goes on after a Step that decided so."""
        if decision.next_steps:
            self.go_on(decision.next_steps[0].step_type, decision.next_steps[0].step_input)
            return True
        completion = pb.StepCompletionOutput(
            completed_step_execution_id=self.task.execute.context.step_execution_id,
            completed_step_output=decision.close_decision.close_input,
        )
        self.ended.set_result(
            pb.FlowResult(flow_status=pb.FLOW_STATUS_COMPLETED, results=[completion])
        )
        return False

    def go_on(self, step_type: str, step_input: pb.Value) -> None:
        self.steps += 1
        self.task.task_id = f"{self.task.execute.context.run_id}-{self.steps}"
        request = self.task.execute
        request.step_type = step_type
        request.step_input.CopyFrom(step_input)
        request.context.step_execution_id = f"{step_type}-{self.steps}"


@define(eq=False)
class _Stream:
    """One stream of a Worker: a task out, its result in."""

    context: Any
    is_registered: bool = False
    flow: _Flow | None = None  # whose task it carries

    async def register(self) -> None:
        self.is_registered = True
        await self.context.write(_REGISTERED)

    async def carry(self, flow: _Flow) -> None:
        self.flow = flow
        if not self.is_registered:
            await self.register()
        await self.context.write(pb.PollWorkerTaskResponse(task=flow.task))


class NullServer(dex_pb2_grpc.FlowServiceServicer, dex_pb2_grpc.WorkerTaskServiceServicer):
    """Flows in line for a stream, and streams that are idle."""

    def __init__(self) -> None:
        self._flows: dict[str, _Flow] = {}
        self._line: deque[_Flow] = deque()
        self._idle: dict[str, list[_Stream]] = {}  # by queue

    async def GetServerInfo(self, _: empty_pb2.Empty, __: object) -> pb.ServerInfo:
        return pb.ServerInfo(
            server_version="null",
            minimum_supported_protocol_version=1,
            current_protocol_version=2,
            server_engine=pb.SERVER_ENGINE_ZD,
        )

    async def SyncAttributeIndexes(
        self, _: pb.SyncAttributeIndexRequest, __: object
    ) -> pb.SyncAttributeIndexResponse:
        return pb.SyncAttributeIndexResponse()

    async def StartFlow(self, request: pb.StartFlowRequest, _: object) -> pb.StartFlowResponse:
        now = datetime.now(UTC)
        task = pb.PollWorkerTask()
        task.deadline.FromDatetime(now + timedelta(hours=2))
        task.execute.flow_type = request.flow_type
        context = task.execute.context
        context.flow_id = context.run_id = request.flow_id
        context.flow_started_timestamp = context.first_attempt_timestamp = int(now.timestamp())
        context.attempt = context.run_attempt = 1
        flow = _Flow(asyncio.get_running_loop().create_future(), task)
        flow.go_on(request.start_step_type, request.step_input)
        self._flows[request.flow_id] = flow
        await self._hand_out(flow)
        return pb.StartFlowResponse(run_id=request.flow_id)

    async def WaitForFlow(self, request: pb.WaitForFlowRequest, _: object) -> pb.FlowResult:
        result = await self._flows[request.flow_id].ended
        del self._flows[request.flow_id]
        return result

    async def PollWorkerTask(self, _: object, context: Any) -> None:
        first = await context.read()
        is_first = first.register.queue not in self._idle
        idle = self._idle.setdefault(first.register.queue, [])
        stream = _Stream(context)
        idle.append(stream)
        if is_first:
            await stream.register()
        try:
            await self._read(stream, idle)
        finally:
            if stream in idle:
                idle.remove(stream)
        if stream.flow is not None:  # its task crossed the end of the stream
            await self._hand_out(stream.flow)

    async def _read(self, stream: _Stream, idle: list[_Stream]) -> None:
        while (frame := await stream.context.read()) is not grpc.aio.EOF:
            flow, stream.flow = stream.flow, None
            assert flow is not None
            is_refused = frame.HasField("reject")
            if is_refused or flow.takes(frame.task_frame.execute.result.step_decision):
                self._line.append(flow)
            if is_refused:
                await asyncio.sleep(_NO_ROOM_SECONDS)
            idle.append(stream)
            if self._line:
                await _longest_idle(idle).carry(self._line.popleft())

    async def _hand_out(self, flow: _Flow) -> None:
        """Behind what is in line already."""
        idle = self._idle[flow.task.execute.flow_type]
        if idle:
            await _longest_idle(idle).carry(flow)
        else:
            self._line.append(flow)


def _longest_idle(idle: list[_Stream]) -> _Stream:
    """Spares last: a stream that the Worker drops for a spare would take its task along."""
    index = next((index for index, stream in enumerate(idle) if stream.is_registered), 0)
    return idle.pop(index)


async def main() -> None:
    server = grpc.aio.server()
    null = NullServer()
    dex_pb2_grpc.add_FlowServiceServicer_to_server(null, server)  # type: ignore[no-untyped-call]  # generated code
    dex_pb2_grpc.add_WorkerTaskServiceServicer_to_server(null, server)  # type: ignore[no-untyped-call]  # generated code
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"address": f"127.0.0.1:{port}"}), flush=True)
    told_to_end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told_to_end.set)
    await told_to_end.wait()
    await server.stop(_LAST_ANSWERS_SECONDS)


if __name__ == "__main__":
    asyncio.run(main())
