"""Requests and frames that hypothesis invents: the right kind of error, and an engine that lives.

`pytest tests/engine/test_fuzz.py --hypothesis-profile=fuzz` goes on for long.
"""

import asyncio
import string
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc
from google.protobuf import empty_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dex_agents_dex.devengine import DevEngine
from tests.engine.wire_worker import execute_only

T = TypeVar("T")
CODES: Final = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
}
FLOW_TYPE: Final = "Fuzzed"
ANSWER_SECONDS: Final = 0.05
DEPTH: Final = 3
_INTEGERS: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_TEXTS: Final = (
    st.sampled_from(("", "f", FLOW_TYPE, "A", "A-1", "in", "Map/k", "a/b", "x" * 9000))
    | st.text(max_size=8)
    | st.text(string.printable, max_size=8)
)
METHODS: Final = tuple(
    method
    for method in pb.DESCRIPTOR.services_by_name["FlowService"].methods
    if method.input_type.full_name != "google.protobuf.Empty"
)


def _messages(descriptor: Any, depth: int = DEPTH) -> st.SearchStrategy[Any]:
    """Any message of a type; below `depth` its messages are empty."""
    made = GetMessageClass(descriptor)
    fields = {
        field.name: _field(field, depth)
        for field in descriptor.fields
        if depth > 0 or field.message_type is None
    }
    return st.fixed_dictionaries({}, optional=fields).map(
        lambda given: made(**_one_of_each(given, descriptor))
    )


def _one_of_each(given: dict[str, Any], descriptor: Any) -> dict[str, Any]:
    """Of each oneof the last field alone, as protobuf has it."""
    taken = {
        field.containing_oneof.full_name: field.name
        for field in descriptor.fields
        if field.name in given and field.containing_oneof is not None
    }
    return {
        name: value
        for name, value in given.items()
        if (oneof := descriptor.fields_by_name[name].containing_oneof) is None
        or taken[oneof.full_name] == name
    }


def _field(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        return st.dictionaries(_one(entry["key"], 0), _one(entry["value"], depth), max_size=2)
    one = _one(field, depth)
    return st.lists(one, max_size=3) if field.is_repeated else one


def _one(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        return st.deferred(lambda: _messages(field.message_type, depth - 1))
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return st.binary(max_size=8) if field.type == FieldDescriptor.TYPE_BYTES else _TEXTS
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return st.floats(width=32)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return st.integers(0, 9)
    low, high = _INTEGERS[kind]
    return st.sampled_from((low, -1 if low else 0, 0, 1, 2, high)) | st.integers(low, high)


@pytest.fixture
def on_live_engine(tmp_path: Path) -> Iterator[Callable[[Callable[[Any, Any], Awaitable[T]]], T]]:
    """Run a coroutine function on stubs of an engine that lives over all examples of a test."""
    with asyncio.Runner() as runner:
        engine = DevEngine(tmp_path / "data")
        runner.run(engine.start())
        channel = grpc.aio.insecure_channel(engine.address)

        def run(act: Callable[[Any, Any], Awaitable[T]]) -> T:
            async def both() -> T:
                flows: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
                tasks: Any = dex_pb2_grpc.WorkerTaskServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
                result = await act(flows, tasks)
                await flows.HealthCheck(empty_pb2.Empty())
                return result

            return runner.run(both())

        yield run
        runner.run(channel.close())
        runner.run(engine.stop())


_ON_ONE_ENGINE: Final = settings(
    max_examples=settings().max_examples // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_call__of_any_shape_is_answered_with_a_known_code(on_live_engine: Any, method: Any) -> None:
    @_ON_ONE_ENGINE
    @given(_messages(method.input_type))
    def ask(request: Message) -> None:
        async def act(flows: Any, _: Any) -> grpc.StatusCode:
            return await _code_of(getattr(flows, method.name)(request, timeout=ANSWER_SECONDS))

        assert on_live_engine(act) in CODES

    ask()


def test_worker__that_says_anything_harms_nobody(on_live_engine: Any) -> None:
    """A stream that registers, takes the task of a Flow, and answers it with any frames at all."""
    frames = _messages(pb.PollWorkerTaskFrame.DESCRIPTOR, DEPTH + 1)
    starts = st.just(execute_only()) | _messages(pb.StepOptions.DESCRIPTOR)
    flows_started = 0

    @_ON_ONE_ENGINE
    @given(starts, st.lists(frames, min_size=1, max_size=3))
    def work(options: pb.StepOptions, said: list[Any]) -> None:
        nonlocal flows_started
        flows_started += 1
        flow_id = f"f{flows_started}"

        async def act(flows: Any, tasks: Any) -> None:
            request = pb.StartFlowRequest(
                flow_id=flow_id, flow_type=flow_id, request_id="r", start_step_type="A"
            )
            request.step_options.MergeFrom(options)
            if await _code_of(flows.StartFlow(request)) is not grpc.StatusCode.OK:
                return
            register = pb.PollWorkerTaskRegister(
                queue=flow_id, app_worker_id="w", flow_types=[flow_id]
            )
            stream = tasks.PollWorkerTask(timeout=10)
            await stream.write(pb.PollWorkerTaskRequest(register=register))
            while not (response := await stream.read()).HasField("task"):
                pass
            for frame in said:
                frame.task_id = response.task.task_id
                await stream.write(pb.PollWorkerTaskRequest(task_frame=frame))
            await stream.done_writing()
            await _code_of(flows.StopFlow(pb.StopFlowRequest(flow_id=flow_id)))
            stream.cancel()

        on_live_engine(act)

    work()


async def _code_of(call: Any) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
