"""A tool result of any size ends its call in one attempt: it is cut with a marker, and its work counts as done.

The marker names the tool and both sizes, for the model and for people. The same holds for what a
tool says when it fails, for errors that nobody meant to be long, and for files.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dex_agents_model import AgentSessionOptions, ToolCallId, ToolEffect
from dex_agents_model.calls import Runnable, Succeeded
from dex_agents_model.decision import EndBranch, PutToolCall, StepDecision
from dex_agents_model.effects import ToolReturned
from dex_agents_model.notes import OUTCOME_UNKNOWN_TOOL_RESULT
from dex_agents_model.records import TurnFailed, WaitingForUserMessage
from dex_agents_model.steps import CallTool
from dex_agents_model.table import react
from dex_agents_model.text import clean_text, size_bytes
from dex_agents_model.views import CallView
from tests.adapter.openai_protocol import calls, text
from tests.binding.script import Call, Reply
from tests.rules.samples import NOW, TURN, call_view
from tests.rules.samples import call as requested

from .agent import LONG_BYTES
from .bench import Bench

KIB, MIB = 1024, 1024 * 1024
KEPT = AgentSessionOptions().max_tool_output_bytes
ERROR_BYTES = 8 * KIB
WORDS = "tool look raised ConnectionError: "
TOOLS = ("look", "put", "pay")
SIZES = {
    "1.9 MiB": 19 * MIB // 10,
    "2.1 MiB": 21 * MIB // 10,
    "4.1 MiB": 41 * MIB // 10,
    "20 MiB": LONG_BYTES,
}


@pytest.mark.parametrize("size", SIZES)
async def test_result__of_any_size_ends_its_call_in_one_attempt(bench: Bench, size: str) -> None:
    talk = bench.talk()
    asked = (Call(id=f"c-{tool}", tool=tool, output_characters=SIZES[size]) for tool in TOOLS)
    await talk.start(Reply(calls=tuple(asked)), Reply(text="an answer"))

    assert (await talk.answers())[-1] == "an answer"
    told = await talk.told()
    for tool in TOOLS:
        marker = f"\n[The result of {tool} was cut: {KEPT} of {SIZES[size]} bytes are kept.]"
        assert told[f"c-{tool}"] == f"success: {'o' * KEPT}{marker}"
        assert talk.keys(tool) == [f"turn-1/c-{tool}"]
    assert {attempt for ended in (await bench.attempts(talk)).values() for attempt in ended} == {1}
    assert await talk.say(Reply(text="another"))
    assert (await talk.answers(2))[-1] == "another"


async def test_results__of_many_tools_at_once_are_cut_one_by_one(bench: Bench) -> None:
    talk = bench.talk()
    asked = tuple(Call(id=f"c-{n}", tool="pay", output_characters=4 * MIB) for n in range(8))
    await talk.start(Reply(calls=asked), Reply(text="an answer"))

    assert (await talk.answers())[-1] == "an answer"
    assert sorted(talk.keys("pay")) == [f"turn-1/{call.id}" for call in asked]
    assert {len(told) for told in (await talk.told()).values()} == {
        len(
            f"success: {'o' * KEPT}\n[The result of pay was cut: {KEPT} of {4 * MIB} bytes are kept.]"
        )
    }


@pytest.mark.parametrize("way", ["long crash", "long refusal"])
async def test_failure__with_an_error_of_any_size_ends_as_its_effect_says(
    bench: Bench, way: str
) -> None:
    talk = bench.talk()
    asked = (Call(id=f"c-{tool}", tool=tool, way=way) for tool in TOOLS)
    await talk.start(Reply(calls=tuple(asked)), Reply(text="an answer"))

    assert (await talk.answers())[-1] == "an answer"
    told = await talk.told()
    unknown = f"failed: {OUTCOME_UNKNOWN_TOOL_RESULT}"
    if way == "long refusal":
        said = f"failed: The tool call failed: {'x' * ERROR_BYTES}... [{LONG_BYTES} bytes in full]"
        assert told == {f"c-{tool}": said for tool in TOOLS}
    else:
        assert (told["c-put"], told["c-pay"]) == (unknown, unknown)
        assert told["c-look"].startswith(f"failed: The tool call failed: {WORDS}xxx")
        assert told["c-look"].endswith(f"... [{len(WORDS) + LONG_BYTES} bytes in full]")
    assert len(talk.keys("pay")) == 1


async def test_model_call__with_an_error_of_any_size_fails_its_turn_and_no_other(
    bench: Bench,
) -> None:
    talk = bench.talk()
    await talk.start(Reply(calls=(Call(id="c", tool="pay"),)), Reply(way="long crash"))

    state = (await talk.end_of_turn()).state
    assert isinstance(state, WaitingForUserMessage)
    assert isinstance(state.last_turn, TurnFailed)
    words = "the model call failed: ConnectionError: "
    assert state.last_turn.error.startswith(f"{words}xxx")
    assert state.last_turn.error.endswith(f"... [{len(words) + LONG_BYTES} bytes in full]")
    assert await talk.say(Reply(text="another"))
    assert (await talk.answers(2))[-1] == "another"
    assert len(talk.keys("pay")) == 1


@pytest.mark.parametrize("size_kib", [1900, 2100, 4100, 20 * KIB])
async def test_file__of_any_size_is_left_out_with_a_marker_and_its_work_is_done(
    bench: Bench, size_kib: int
) -> None:
    talk = await bench.remote(calls(("scan", f'{{"number": {size_kib}}}', "c")), text("Seen."))

    assert (await talk.answers())[-1] == "Seen."
    assert talk.keys("scan") == ["turn-1/c"]
    _, request = bench.asked(talk)
    [told] = [m["content"] for m in request["messages"] if m["role"] == "tool"]
    assert told.startswith("the scan\n[image/png, ")
    assert "[What scan returned beside this text was left out: " in told
    assert f"at most {MIB} are kept.]" in told
    assert "image_url" not in str(request)


# --- in the model: any text, any limit ----------------------------------------------------------------

RUNNABLE = Runnable(requested("a", ToolEffect.NON_IDEMPOTENT_WRITE))


@given(st.text(max_size=40), st.integers(1, 40))
def test_result__of_any_text_within_any_limit_is_a_success_and_says_what_was_cut(
    output: str, limit_bytes: int
) -> None:
    view = call_view(
        CallView, RUNNABLE, options=AgentSessionOptions(max_tool_output_bytes=limit_bytes)
    )
    decision = react(CallTool(TURN, ToolCallId("a")), view, ToolReturned(output), NOW)

    assert isinstance(decision, StepDecision)
    assert isinstance(decision.next, EndBranch)
    [put] = decision.commit.writes
    assert isinstance(put, PutToolCall)
    assert isinstance(put.record, Succeeded)
    output = clean_text(output)
    kept, _, marker = put.record.output.partition("\n[The result of tool_a was cut: ")
    if put.record.output_truncated:
        assert size_bytes(kept) <= limit_bytes < size_bytes(output)
        assert marker == f"{size_bytes(kept)} of {size_bytes(output)} bytes are kept.]"
    else:
        assert size_bytes(output) <= limit_bytes
        assert put.record.output == output
