"""Maps that grow with their Flow's age: memory holds what was used last, the store everything."""

import asyncio
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from dex import (
    AsyncContext,
    AttributeMap,
    Context,
    RPCResult,
    StepDecision,
    StepOptions,
    go_to,
    graceful_complete,
    rpc,
)
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.devengine.core.transaction import Settings
from tests.engine.conftest import OnEngine
from tests.engine.rig import Rig, Scenario, rig, step, until

NOTES = AttributeMap("Notes", str)
TEXT = "x" * 20_000
ENTRIES = 40  # 800 kB; each Step writes one
IN_MEMORY_BYTES = Settings().map_bytes_in_memory


class _Growing(Scenario):
    @rpc(load_attribute_map_instances=(NOTES.load("0"), NOTES.load("gone"), NOTES.load("39")))
    def ends(self, context: Context) -> RPCResult[str]:
        return RPCResult(str([_brief(NOTES.get(context, key)) for key in ("0", "gone", "39")]))

    @rpc(is_transactional=True)
    def put(self, context: Context, key: str) -> RPCResult[bool]:
        NOTES.set(context, key, f"old {key}")
        return RPCResult(True)

    @rpc(load_attribute_maps=(NOTES,), is_transactional=True)
    def replace_first(self, context: Context) -> RPCResult[int]:
        NOTES.delete(context, "1")
        NOTES.set(context, "0", "new")
        return RPCResult(len(NOTES.get_all_instance_keys(context)))


def _brief(text: str | None) -> str | None:
    return None if text is None else text.rstrip("x")


def _growing() -> _Growing:
    async def write(context: AsyncContext, given: str) -> StepDecision:
        NOTES.set(context, given, given + TEXT)
        following = int(given) + 1
        return (
            go_to(type(writing), str(following)) if following < ENTRIES else go_to(type(last), "")
        )

    async def read(context: AsyncContext, given: str) -> StepDecision:
        keys = sorted(NOTES.get_all_instance_keys(context), key=int)
        return graceful_complete([_brief(NOTES.get(context, key)) for key in keys])

    writing = step("Writing", write)
    last = step("Last", read, options=StepOptions(execute_load_attribute_maps=(NOTES,)))
    return _Growing(writing, last, schema=(NOTES,))


async def _grow(made: Rig, flow: _Growing) -> None:
    await made.client.start_flow(flow, "f", "0")
    assert await made.outputs("f", list[str]) == [("Last-1", [str(n) for n in range(ENTRIES)])]


async def test_map__of_which_memory_holds_a_part_is_loaded_whole_and_by_entry(
    on_engine: OnEngine,
) -> None:
    flow = _growing()
    async with on_engine(flow) as made:
        await _grow(made, flow)
        assert 0 < made.engine.counts()["map_bytes_in_memory"] <= IN_MEMORY_BYTES
        assert await made.rpc(flow.ends, "f") == "['0', None, '39']"
        assert made.engine.counts()["map_bytes_in_memory"] <= IN_MEMORY_BYTES


async def test_map__is_read_from_the_store_after_a_restart(tmp_path: Path) -> None:
    flow = _growing()
    async with DevEngine(tmp_path / "data") as engine, rig(engine, tmp_path, flow) as made:
        await _grow(made, flow)
    async with DevEngine(tmp_path / "data") as engine, rig(engine, tmp_path, flow) as made:
        await made.client.describe_flow("f")
        assert engine.counts()["map_bytes_in_memory"] == 0
        assert await made.rpc(flow.ends, "f") == "['0', None, '39']"


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry stays in memory, so that each is read when it is needed."""
    monkeypatch.setattr(
        "dex_agents_dex.devengine.options.Settings",
        lambda **chosen: Settings(**chosen, map_bytes_in_memory=0),
    )


@pytest.mark.usefixtures("small_memory")
async def test_map__that_is_never_in_memory_is_changed_shown_and_waited_for(
    tmp_path: Path,
) -> None:
    flow = _Growing(schema=(NOTES,))
    async with DevEngine(tmp_path / "data") as engine, rig(engine, tmp_path, flow) as made:
        await made.client.start_flow(flow, "f", cast(Any, None))
        for key in "012":
            await made.rpc(flow.put, "f", key)
        async with grpc.aio.insecure_channel(engine.address) as channel:
            flows: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
            match = pb.AttributeMatch(
                key="Notes/0",
                operator=pb.ATTRIBUTE_MATCH_OPERATOR_EQUAL,
                operand=pb.Value(string_value="new"),
            )
            waiting = asyncio.ensure_future(
                flows.WaitForAttribute(pb.WaitForAttributeRequest(flow_id="f", match=match))
            )
            await until(lambda: engine.counts()["polls_waiting"] == 1)
            assert await made.rpc(flow.replace_first, "f") == 2
            assert (await waiting).matched_value.string_value == "new"
            state = await flows.GetFlowState(pb.GetFlowStateRequest(flow_id="f"))
        assert {each.key: each.value.string_value for each in state.attributes} == {
            "Notes/0": "new",
            "Notes/2": "old 2",
        }
        await made.rpc(flow.put, "f", "3")
        assert engine.counts()["map_bytes_in_memory"] == 0
