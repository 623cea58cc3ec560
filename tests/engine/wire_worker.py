"""A Worker by hand: streams of the Worker protocol, frame by frame, for what no SDK would do."""

import asyncio
from typing import Any

import grpc
from attrs import define
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

GENEROUS_SECONDS = 20.0


@define
class WireStream:
    """One stream; `task` is what it was given last."""

    _call: Any
    task: pb.PollWorkerTask

    async def read(self) -> pb.PollWorkerTaskResponse | None:
        """The engine's next frame; None at its end of the stream."""
        async with asyncio.timeout(GENEROUS_SECONDS):
            frame = await self._call.read()
        return None if frame is grpc.aio.EOF else frame

    async def next_task(self) -> pb.PollWorkerTask:
        frame = await self.read()
        assert frame is not None, "the stream ended"
        while frame.WhichOneof("frame") == "registered":
            frame = await self.read()
            assert frame is not None, "the stream ended"
        assert frame.WhichOneof("frame") == "task", frame
        self.task = frame.task
        return frame.task

    async def execute(self, output: pb.InvokeExecuteMethodOutput) -> None:
        await self.send(
            task_frame=pb.PollWorkerTaskFrame(task_id=self.task.task_id, execute=output)
        )

    async def heartbeat(self) -> None:
        await self.execute(pb.InvokeExecuteMethodOutput(heartbeat=pb.StepMethodHeartbeat()))

    async def complete(self, output: str) -> None:
        """Decide to complete the Flow gracefully."""
        decision = pb.StepDecision(
            close_decision=pb.CloseDecision(
                close_decision_type=pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE,
                close_input=pb.Value(string_value=output),
            )
        )
        response = pb.InvokeExecuteMethodResponse(step_decision=decision)
        await self.execute(pb.InvokeExecuteMethodOutput(result=response))

    async def fail(self, detail: str) -> None:
        """Report that the handler failed."""
        error = pb.WorkerErrorResponse(detail=detail)
        await self.send(
            task_frame=pb.PollWorkerTaskFrame(task_id=self.task.task_id, worker_error=error)
        )

    async def reject(self, reason: pb.PollWorkerTaskRejectReason) -> None:
        await self.send(reject=pb.PollWorkerTaskReject(task_id=self.task.task_id, reason=reason))

    async def send(self, **frame: Any) -> None:
        await self._call.write(pb.PollWorkerTaskRequest(**frame))

    async def half_close(self) -> None:
        """Send no more, as a stream does that the SDK retires; return at the engine's end."""
        await self._call.done_writing()
        while await self.read() is not None:
            pass

    def cut(self) -> None:
        """Drop the stream, as a killed process does."""
        self._call.cancel()


@define
class WireWorker:
    """Opens streams under one `app_worker_id`."""

    _stub: Any
    app_worker_id: str

    async def stream(self, queue: str) -> WireStream:
        call = self._stub.PollWorkerTask()
        register = pb.PollWorkerTaskRegister(
            queue=queue, app_worker_id=self.app_worker_id, flow_types=[queue]
        )
        await call.write(pb.PollWorkerTaskRequest(register=register))
        return WireStream(call, pb.PollWorkerTask())


def wire_worker(channel: grpc.aio.Channel, app_worker_id: str) -> WireWorker:
    stub = dex_pb2_grpc.WorkerTaskServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
    return WireWorker(stub, app_worker_id)


def execute_only(attempts: int = 0) -> pb.StepOptions:
    """Options of a Step without `wait_for` that is tried `attempts` times; 0: without limit."""
    return pb.StepOptions(
        skip_wait_for=True,
        execute_retry_policy=pb.RetryPolicy(maximum_attempts=attempts),
    )
