"""What a watcher shows of a turn is one attempt's text and never two: a retry replaces what a lost attempt had said.

Every event names its turn, its Step execution, its attempt and its place in it. After the turn the
live text is the stored text, whoever read the events, from where, and how often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from dex_agents_dex import AgentSessionClient
from dex_agents_dex.testing import wait_until
from dex_agents_model import AgentEvent, AgentEventType, MessageRole, TurnId
from dex_agents_model.events import (
    EventPayload,
    ModelCallFailedEvent,
    ReasoningDelta,
    StepMethod,
    TextDelta,
)
from dex_agents_model.folding import LiveText, LiveTurn, fold_event, fold_events
from tests.adapter.openai_protocol import calls, text
from tests.adapter.sse_server import cut, held, refused

from .bench import Bench, Talk

PIECES = ("It ", "is ", "on ", "its ", "way", ", I think.")
THOUGHTS = ("Let ", "me ", "see")
LOST = text("No, ", "wait, ", "it ", "was ", "lost", "!", thinking=("Oh ", "no"))
WHOLE = text(*PIECES, thinking=THOUGHTS)


async def events_of(talk: Talk) -> list[AgentEvent]:
    """Every event of the one turn."""
    return await talk.events_through(AgentEventType.TURN_COMPLETED)


def shown(events: Iterable[AgentEvent]) -> list[LiveTurn]:
    """What a watcher shows after each event."""
    live, seen = LiveTurn(), []
    for event in events:
        live = fold_event(live, event)
        seen.append(live)
    return seen


async def assert_one_attempt_at_a_time(talk: Talk, *whole: tuple[str, str]) -> None:
    """After each event, the text and the thinking of each model call are the start of one attempt's own.

    ``whole`` are the (thinking, text) of each committed call, which are shown and stored in the end.
    """
    events = await events_of(talk)
    for end, live in enumerate(shown(events), start=1):
        assert not live.lost
        for said in live.texts:
            own = [e for e in events[:end] if e.step_execution_id == said.step_execution_id]
            newest = [e for e in own if e.attempt == max(e.attempt for e in own)]
            assert (said.reasoning, said.text) == spoken(newest)
    final = fold_events(events)
    assert [(said.reasoning, said.text) for said in final.texts] == list(whole)
    assert fold_events([*events, *events]) == final
    stored = [m.text or "" for m in await talk.messages() if m.role is MessageRole.ASSISTANT]
    assert [said.text for said in final.texts] == stored


def spoken(events: Iterable[AgentEvent]) -> tuple[str, str]:
    """All thinking and all text in ``events``."""
    payloads = [event.payload for event in events]
    return (
        "".join(p.text for p in payloads if isinstance(p, ReasoningDelta)),
        "".join(p.text for p in payloads if isinstance(p, TextDelta)),
    )


def failed_attempts(events: Iterable[AgentEvent]) -> list[tuple[str, int]]:
    return [
        (event.step_execution_id, event.attempt)
        for event in events
        if isinstance(event.payload, ModelCallFailedEvent)
    ]


async def test_retries__each_replace_what_was_said_before(bench: Bench) -> None:
    talk = await bench.remote(cut(LOST, after_frames=5), cut(LOST, after_frames=7), WHOLE)

    await assert_one_attempt_at_a_time(talk, ("".join(THOUGHTS), "".join(PIECES)))

    events = await events_of(talk)
    assert failed_attempts(events) == [("RunModel-1", 1), ("RunModel-1", 2)]
    model = [event for event in events if event.step_execution_id == "RunModel-1"]
    assert {event.turn_id for event in events} == {"turn-1"}
    for attempt in (1, 2, 3):
        told = [event.index for event in model if event.attempt == attempt]
        assert told == list(range(len(told))) != []


async def test_retry__that_says_less_shows_less(bench: Bench) -> None:
    talk = await bench.remote(cut(LOST, after_frames=7), refused(503), text("Gone."))

    await assert_one_attempt_at_a_time(talk, ("", "Gone."))


async def test_retries__of_one_model_call_leave_the_text_of_the_others(bench: Bench) -> None:
    first = calls(("look", '{"number": 7}', "c-look"), content=("Let me ", "look."))
    talk = await bench.remote(cut(LOST, after_frames=4), first, cut(LOST, after_frames=6), WHOLE)

    await assert_one_attempt_at_a_time(
        talk, ("", "Let me look."), ("".join(THOUGHTS), "".join(PIECES))
    )


async def test_retry__on_another_worker_replaces_what_the_dead_one_said(bench: Bench) -> None:
    talk = await bench.remote(held(LOST, after_frames=5), WHOLE)

    async def is_streaming() -> bool:
        live = fold_events(await events_so_far(talk.sessions, talk.session_id))
        return live.text == "No, wait, it "

    await wait_until("the text of the first attempt", is_streaming)
    bench.kill_worker()
    await bench.start_worker()

    await assert_one_attempt_at_a_time(talk, ("".join(THOUGHTS), "".join(PIECES)))
    assert failed_attempts(await events_of(talk)) == []


async def test_watcher__who_comes_late_knows_that_something_is_missing(bench: Bench) -> None:
    """Whichever event is the first that is read, the text is still one attempt's, or the end of it."""
    talk = await bench.remote(cut(LOST, after_frames=5), WHOLE)
    events = await events_of(talk)
    whole = fold_events(events)

    for start in range(1, len(events)):
        late = fold_events(events[start:])
        assert late.ended == whole.ended
        assert late.lost
        assert whole.text.endswith(late.text)


async def events_so_far(sessions: AgentSessionClient, session_id: str) -> list[AgentEvent]:
    """What a watcher reads now, without waiting for more."""
    newest = (await sessions.get_agent_snapshot(session_id)).event_token
    events: list[AgentEvent] = []
    token = ""
    while newest and token != newest:
        read = await sessions.read_agent_event(session_id, token)
        assert read is not None
        events.append(read.event)
        token = read.resume_token
    return events


# --- in the model: whatever comes late, and in whatever order -----------------------------------------

DELTAS: st.SearchStrategy[list[EventPayload]] = st.lists(
    st.builds(TextDelta, st.text(max_size=3)) | st.builds(ReasoningDelta, st.text(max_size=3)),
    max_size=6,
)


def attempt(number: int, payloads: Sequence[EventPayload]) -> list[AgentEvent]:
    return [
        AgentEvent(TurnId.of(1), "RunModel-1", StepMethod.EXECUTE, number, index, payload)
        for index, payload in enumerate(payloads)
    ]


@given(st.lists(DELTAS, min_size=1, max_size=4), st.data())
def test_fold__shows_the_latest_attempt_when_dead_workers_still_speak(
    attempts: list[list[EventPayload]], data: st.DataObject
) -> None:
    """Each attempt is told in its own order, and all of them in any: a Worker may hang and go on."""
    streams = [attempt(number, payloads) for number, payloads in enumerate(attempts, start=1)]
    told: list[AgentEvent] = []
    while waiting := [stream for stream in streams if stream]:
        told.append(data.draw(st.sampled_from(waiting)).pop(0))

    latest = max((event.attempt for event in told), default=1)
    reasoning, said = spoken(event for event in told if event.attempt == latest)
    expected = (LiveText("RunModel-1", said, reasoning),) if latest and attempts[latest - 1] else ()
    assert fold_events(told).texts == expected
