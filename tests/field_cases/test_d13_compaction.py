"""A summary stands for whole earlier turns: no cut falls between a tool call and its result, nor into the running turn.

What the model is then told is the summary and every message behind it, once, and a strict provider
would take it. Nothing is lost: all messages stay readable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from dex_agents_model import (
    AgentEventType,
    AgentMessage,
    AgentSessionOptions,
    CompactionPolicy,
    MessageRole,
    ToolEffect,
    ToolPolicy,
    TurnId,
)
from dex_agents_model.effects import CallModel, Summarize
from dex_agents_model.events import HistoryCompacted
from dex_agents_model.simulation import (
    INVARIANTS,
    Asks,
    Breaks,
    Concludes,
    Returns,
    SimulatedWorld,
    ThoroughRunner,
    ToolUse,
)
from dex_agents_model.simulation.actions import Change, Ran
from dex_agents_model.simulation.scripted import ModelReply
from tests.binding.script import Call, Reply

from .agent import FORGETFUL
from .bench import Bench, Talk

TURNS = 14
PARALLEL = ("look", "put", "pay")


def a_turn(number: int) -> tuple[Reply, ...]:
    """Three calls at once, then one more, then an answer."""
    at_once = tuple(
        Call(id=f"c-{number}-{tool}", tool=tool, output_characters=400) for tool in PARALLEL
    )
    one_more = Call(id=f"c-{number}-again", tool="look")
    return Reply(calls=at_once), Reply(calls=(one_more,)), Reply(text=f"answer {number}")


def turn_of(messages: Sequence[AgentMessage], sequence: int) -> TurnId | None:
    return next((m.turn_id for m in messages if m.sequence == sequence), None)


async def compactions(talk: Talk, turns: int) -> list[tuple[TurnId, int]]:
    """In which turn the history was compacted, and through which message, as it was told."""
    found: list[tuple[TurnId, int]] = []
    token, ended = "", 0
    while ended < turns:
        read = await talk.sessions.read_agent_event(talk.session_id, token)
        assert read is not None
        token = read.resume_token
        ended += read.event.type is AgentEventType.TURN_COMPLETED
        if isinstance(read.event.payload, HistoryCompacted):
            found.append((read.event.turn_id, read.event.payload.through_sequence))
    return found


async def talk_for_long(bench: Bench, turns: int) -> Talk:
    talk = bench.talk(FORGETFUL)
    await talk.start(*a_turn(1))
    for number in range(2, turns + 1):
        await talk.end_of_turn(number - 1)
        assert await talk.say(*a_turn(number))
    await talk.end_of_turn(turns)
    return talk


async def test_session__that_is_compacted_again_and_again_keeps_every_call_with_its_result(
    bench: Bench,
) -> None:
    """Its model is strict: it refuses a history in which a call lacks its result."""
    talk = await talk_for_long(bench, TURNS)

    messages = await talk.messages()
    answers = [m.text for m in messages if m.role is MessageRole.ASSISTANT and m.text]
    assert answers == [f"answer {number}" for number in range(1, TURNS + 1)]
    assert await talk.history()
    cuts = await compactions(talk, TURNS)
    assert len(cuts) >= 2
    for turn, through in cuts:
        last, first = turn_of(messages, through), turn_of(messages, through + 1)
        assert last is not None
        assert last != first
        assert last.number < turn.number
    assert [through for _, through in cuts] == sorted({through for _, through in cuts})


async def test_session__goes_on_behind_its_summary_on_another_worker(bench: Bench) -> None:
    talk = await talk_for_long(bench, 6)
    assert await compactions(talk, 6)

    bench.kill_worker()
    await bench.start_worker()
    assert await talk.say(*a_turn(7))

    assert (await talk.answers(7))[-1] == "answer 7"
    assert await talk.history()


# --- in the model: any history, any window -----------------------------------------------------------


def the_model_is_told_whole_turns(change: Change) -> Iterator[str]:
    """Each call that the model is told of has its result behind it, and no result stands alone."""
    if not isinstance(change.cause, Ran):
        return
    for effect in change.cause.attempt.ran:
        if isinstance(effect, CallModel | Summarize):
            yield from _torn(effect.messages)


def _torn(messages: Sequence[AgentMessage]) -> Iterator[str]:
    waiting: list[str] = []
    for message in messages:
        if message.tool_call_id is None:
            continue
        if message.role is MessageRole.ASSISTANT:
            waiting.append(message.tool_call_id)
        elif message.tool_call_id in waiting:
            waiting.remove(message.tool_call_id)
        else:
            yield f"the result of {message.tool_call_id} is told without its call"
    for call in waiting:
        yield f"{call} is told without its result"


TOOLS = {name: ToolPolicy(ToolEffect.READ) for name in ("short", "middle", "long")}
OUTPUTS = {
    name: Returns("x" * size) for name, size in (("short", 5), ("middle", 400), ("long", 4000))
}
ENDS: tuple[ModelReply, ...] = (Concludes("Done."), Concludes("y" * 500), Breaks())


@st.composite
def turns(draw: st.DrawFn) -> tuple[ModelReply, ...]:
    """Up to two rounds of up to three calls at once, and an end of any kind."""
    ids = iter("abcdef")
    rounds = draw(
        st.lists(st.lists(st.sampled_from(sorted(TOOLS)), min_size=1, max_size=3), max_size=2)
    )
    asked = (Asks(*(ToolUse(next(ids), name) for name in names)) for names in rounds)
    return (*asked, draw(st.sampled_from(ENDS)))


@settings(max_examples=60)
@given(
    st.lists(turns(), min_size=2, max_size=6),
    st.integers(200, 4000),
    st.floats(0.1, 1.0),
    st.integers(0, 1500),
    st.sampled_from((None, 0, 3)),
)
def test_history__of_any_kind_is_cut_between_turns_for_any_window(
    said: list[tuple[ModelReply, ...]],
    window: int,
    ratio: float,
    recent: int,
    kept: int | None,
) -> None:
    replies = {f"message {number}": turn for number, turn in enumerate(said)}
    policy = CompactionPolicy(
        context_window_tokens=window,
        trigger_ratio=ratio,
        keep_recent_tokens=recent,
        kept_summarised_messages=kept,
    )
    world = SimulatedWorld(
        ThoroughRunner(replies, OUTPUTS),
        options=AgentSessionOptions(tool_policies=TOOLS, compaction=policy),
        invariants=(*INVARIANTS, the_model_is_told_whole_turns),
    )
    for text in replies:
        world.say(text)
    world.run()

    state = world.snapshot().state
    assert state is not None
    assert state.turn_count == len(said)
