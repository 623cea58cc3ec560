"""SearchFlows: by type, status and indexed Attributes, page by page."""

import pytest
from dex import (
    AsyncContext,
    Attribute,
    AttributeIndex,
    Context,
    FlowStatus,
    IndexType,
    RPCResult,
    StartFlowOptions,
    Step,
    StepDecision,
    dead_end,
    rpc,
)

from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.searching import Query, parse_query
from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, step

COLOR = Attribute("Color", str, index=AttributeIndex(IndexType.KEYWORD))
SIZE = Attribute("Size", int, index=AttributeIndex(IndexType.INT, index_key="Weight"))


class _Painted(Scenario):
    def __init__(self, *steps: Step[str]) -> None:
        super().__init__(*steps, schema=(COLOR, SIZE))

    @rpc(is_transactional=True)
    def paint(self, context: Context, color: str) -> RPCResult[bool]:
        COLOR.set(context, color)
        SIZE.set(context, len(color))
        return RPCResult(True)

    @rpc(is_transactional=True)
    def forget_color(self, context: Context) -> RPCResult[bool]:
        COLOR.delete(context)
        return RPCResult(True)


async def _idle(context: AsyncContext, given: str) -> StepDecision:
    return dead_end()


async def test_search__finds_by_type_status_and_indexed_attributes(on_engine: OnEngine) -> None:
    flow, other = _Painted(step("Idle", _idle)), _Other(step("Idle", _idle))
    red = StartFlowOptions().with_attribute(COLOR, "red")
    async with on_engine(flow, other) as rig:

        async def found(query: str) -> list[str]:
            page = await rig.client.search_flows(query, 10)
            return [entry.flow_id for entry in page.flows]

        await rig.client.start_flow(flow, "red", "", red)
        await rig.client.start_flow(flow, "blue", "")
        await rig.rpc(flow.paint, "blue", "blue")
        await rig.client.start_flow(other, "other", "")
        await rig.client.stop_flow("red")
        assert await found("") == ["other", "blue", "red"]
        assert await found("FlowType = '_Painted'") == ["blue", "red"]
        assert await found("ExecutionStatus = 'Running'") == ["other", "blue"]
        assert await found("Color = 'red' AND ExecutionStatus = 'Canceled'") == ["red"]
        assert await found('Color = "blue" and Weight=4') == ["blue"]
        assert await found("Color = 'green'") == []
        [blue] = (await rig.client.search_flows("Color = 'blue'", 10)).flows
        assert (blue.status, set(blue.indexed_attributes)) == (
            FlowStatus.RUNNING,
            {"Color", "Weight"},
        )
        await rig.rpc(flow.paint, "blue", "green")
        assert await found("Color = 'blue'") == []
        assert await found("Color = 'green'") == ["blue"]
        await rig.rpc(flow.forget_color, "blue")
        assert await found("Color = 'green'") == []


class _Other(Scenario):
    pass


async def test_search__goes_page_by_page_newest_first(on_engine: OnEngine) -> None:
    flow = _Painted(step("Idle", _idle))
    async with on_engine(flow, has_worker=False) as rig:
        for number in range(5):
            await rig.client.start_flow(flow, str(number), "")
        pages: list[list[str]] = []
        token = ""
        while not pages or token:
            page = await rig.client.search_flows("", 2, token)
            pages.append([entry.flow_id for entry in page.flows])
            token = page.next_page_token
        assert pages == [["4", "3"], ["2", "1"], ["0"]]


async def test_search__cuts_a_page_that_no_frame_would_hold(on_engine: OnEngine) -> None:
    flow = _Painted(step("Idle", _idle))
    long_color = StartFlowOptions().with_attribute(COLOR, "red" * 20_000)
    async with on_engine(flow) as rig:  # whose Worker says what is indexed
        for number in range(70):
            await rig.client.start_flow(flow, str(number), "", long_color)
        first = await rig.client.search_flows("", 0)
        second = await rig.client.search_flows("", 0, first.next_page_token)
        found = [entry.flow_id for page in (first, second) for entry in page.flows]
    assert found == [str(number) for number in reversed(range(70))]
    assert second.flows
    assert second.next_page_token == ""


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query((), ())),
        ("FlowType='A'", Query(("flow_type = ?",), ("A",))),
        ("ExecutionStatus = 'completed'", Query(("status = ?",), (2,))),
        (
            f"`Color` = 'it''s' AND Size = {2**63 - 1} AND On = true",
            Query(
                ("run_key IN (SELECT run_key FROM search WHERE index_key = ? AND value = ?)",) * 3,
                ("Color", "it's", "Size", 2**63 - 1, "On", 1),
            ),
        ),
    ],
)
def test_parse_query__reads_equalities_joined_by_and(text: str, query: Query) -> None:
    assert parse_query(text) == query


@pytest.mark.parametrize(
    "text",
    [
        "Color",
        "Color > 3",
        "Color = 'a' OR Size = 3",
        "Color = red",
        "Color = 'a' AND",
        "AND",
        " AND ".join(["Size = 3"] * 101),
    ],
)
def test_parse_query__refuses_everything_else(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_query(text)
    assert refused.value.code == "INVALID_ARGUMENT"
