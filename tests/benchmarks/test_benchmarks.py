"""The benchmarks' own parts: what they compare must be what they say. No figure is asserted."""

import asyncio
from asyncio import StreamReader, StreamWriter
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pydantic_ai.messages import ModelMessagesTypeAdapter

from benchmarks.chart import Bars, Lines, picture
from benchmarks.plain import PlainConversation
from benchmarks.racing import Lap, Laps, contender, race
from benchmarks.step_flows import EXECUTE, bench, null_server_on
from benchmarks.wire_meter import wire_meter
from benchmarks.workload import TOOLS, build_agent
from dex_agents_dex.testing import EXECUTE_COMPLETED_EVENT, read_step_history

SVG = "{http://www.w3.org/2000/svg}"


async def test_race__takes_every_turn_of_every_contender(tmp_path: Path) -> None:
    laps, turns = Laps(), []

    async def note(turn: int) -> None:
        turns.append(turn)

    async with contender("plain", tmp_path) as plain, contender("session", tmp_path) as session:
        await race(laps, [plain, session], 2, note)
        many_seconds = await session.all(1)

    assert turns == [0, 1]
    assert {kind: [len(laps) for laps in rounds] for kind, rounds in laps.of.items()} == {
        "plain": [2],
        "session": [2],
    }
    assert set(session.processes) == {"engine", "program"}
    assert session.stored_bytes() > plain.stored_bytes() == 0
    assert many_seconds > 0


async def test_bare__takes_the_steps_of_a_turn(tmp_path: Path) -> None:
    async with contender("bare", tmp_path) as bare:
        await bare.turn()
        assert bare.address is not None
        history = await read_step_history(bare.address, "bare-0")

    executed = sorted(e.step_type for e in history if e.event_type == EXECUTE_COMPLETED_EVENT)
    assert executed == ["Ask", "Ask", "Await", *["Call"] * len(TOOLS), "Resume"]


async def test_workload__is_two_model_calls_and_three_tools_a_turn() -> None:
    conversation = PlainConversation(build_agent())

    for _ in range(2):
        await conversation.take_turn()

    kinds = [
        [part["part_kind"] for part in message["parts"]]
        for message in ModelMessagesTypeAdapter.dump_python(conversation.history, mode="json")
    ]
    turn = [["user-prompt"], ["tool-call"] * len(TOOLS), ["tool-return"] * len(TOOLS), ["text"]]
    assert kinds == turn * 2


def test_laps__compare_turns_that_were_taken_side_by_side() -> None:
    laps = Laps({"one": [_laps(2, 30), _laps(4, 8)], "other": [_laps(1, 10), _laps(4, 2)]})

    assert laps.ratio("one", "other") == 2.5
    assert laps.difference_ms("one", "other", slice(1)) == 0.5
    assert laps.ms("one", slice(-1, None)) == 19


async def test_wire_meter__counts_both_directions() -> None:
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"!" * len(await reader.readexactly(5)) * 2)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, wire_meter(f"127.0.0.1:{port}") as meter:
        host, _, relayed = meter.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(relayed))
        writer.write(b"hello")
        answered = await reader.read()
        writer.close()

    assert answered == b"!" * 10
    assert meter.passed_bytes == 15


async def test_null_server__runs_flows_to_their_results(tmp_path: Path) -> None:
    async with bench("null", tmp_path, "null", null_server_on) as on:
        await on.run_many(flows=40, at_once=40, steps=5)
        await on.client.start_flow(EXECUTE, "alone", 2)
        result = await on.client.wait_for_flow("alone", timedelta(seconds=60))

    ended_with = [(each.step_execution_id, each.decode(str)) for each in result.completions]
    assert ended_with == [("Run-2", "done")]


@pytest.mark.parametrize("scale", [0.004, 1.0, 7777.0])
def test_picture__draws_every_series_inside_its_frame(scale: float) -> None:
    lines = Lines("ms <a turn>", "turn", {"one": [scale, 2 * scale], "other": [scale, scale / 2]})

    drawn = ElementTree.fromstring(picture(lines, [Bars("turns/s", {"one": scale, "other": 1})]))

    polylines = [each.attrib["points"] for each in drawn.iter(f"{SVG}polyline")]
    assert len(polylines) == 2
    width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
    for point in " ".join(polylines).split():
        x, y = map(float, point.split(","))
        assert 0 <= x <= width
        assert 0 <= y <= height
    assert "ms <a turn>" in [each.text for each in drawn.iter(f"{SVG}text")]


def _laps(*ms: float) -> list[Lap]:
    return [Lap(each, cpu_ms=0, written_bytes=0) for each in ms]
