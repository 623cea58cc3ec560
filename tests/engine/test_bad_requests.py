"""Requests that make no sense: an error with the right code, and an engine that goes on."""

import random
from typing import Any

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc
from google.protobuf import empty_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from dex_agents_dex.devengine import DevEngine

CODES = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
}
CALLS = {
    "StartFlow": pb.StartFlowRequest,
    "StopFlow": pb.StopFlowRequest,
    "InvokeRPC": pb.InvokeRPCRequest,
    "GetFlowSummary": pb.GetFlowSummaryRequest,
    "GetFlowState": pb.GetFlowStateRequest,
    "GetHistoryEvents": pb.GetHistoryEventsRequest,
    "SearchFlows": pb.SearchFlowsRequest,
    "SkipTimer": pb.SkipTimerRequest,
    "LoadBlobs": pb.LoadBlobsRequest,
    "WriteStream": pb.WriteStreamRequest,
    "ListStreamMessages": pb.ListStreamMessagesRequest,
    "WaitForStepCompletion": pb.WaitForStepCompletionRequest,
    "WaitForAttribute": pb.WaitForAttributeRequest,
    "UpdateFlowConfig": pb.UpdateFlowConfigRequest,
    "SyncAttributeIndexes": pb.SyncAttributeIndexRequest,
}
TEXTS = ("", "f", "a/b", "x" * 5000, "Ünï\u2028", "\x00", "Map/k", "1", "99999999999999999999")
NUMBERS = (0, 1, -1, 7, 2**31 - 1, -(2**31))
TIMES_EACH = 100


@pytest.mark.parametrize("call", CALLS)
async def test_call__with_nonsense_is_refused_with_a_known_code(
    engine: DevEngine, call: str
) -> None:
    """A failure names its seed; the same seed makes the same requests."""
    async with grpc.aio.insecure_channel(engine.address) as channel:
        service: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        for seed in range(TIMES_EACH):
            request = CALLS[call]()
            _fill(request, random.Random(f"{call} {seed}"), depth=3)
            code = await _code_of(getattr(service, call)(request, timeout=0.2))
            assert code in CODES, f"seed {seed}: {code} for {request}"
        await service.HealthCheck(empty_pb2.Empty())


async def _code_of(call: Any) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def _fill(message: Message, chance: random.Random, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.3:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.message_type is None:
            values = [_scalar(field, chance) for _ in range(chance.choice((1, 1, 3)))]
            if field.is_repeated:
                getattr(message, field.name).extend(values)
            else:
                setattr(message, field.name, values[0])
        elif depth > 0:
            inner = getattr(message, field.name)
            _fill(inner.add() if field.is_repeated else inner, chance, depth - 1)


def _scalar(field: Any, chance: random.Random) -> object:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = chance.choice(TEXTS)
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return chance.choice((0.0, -1.0, 1.5, float("inf"), float("nan")))
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return chance.choice((0, 1, 2, 3, 77))
    number = chance.choice(NUMBERS)
    return abs(number) % 2**31 if kind == FieldDescriptor.CPPTYPE_UINT32 else number
