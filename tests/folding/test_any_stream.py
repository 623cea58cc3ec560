"""What a watcher sees of any turn, whatever the Stream did with its events."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from dex_agents_model.events import AgentEvent, StepMethod
from dex_agents_model.folding import LiveTurn, fold_event, fold_events

from .stories import Story, sessions, stories, told_by


def seen(live: LiveTurn) -> LiveTurn:
    """``live`` without what it remembers to read on."""
    return evolve(live, attempts=(), settled_interrupts=())


def truth(story: Story) -> LiveTurn:
    return LiveTurn(
        turn_id=story.turn, texts=story.texts, tool_calls=story.tool_calls, ended=story.ended
    )


@given(stories())
def test_fold_events__shows_the_final_attempts_of_a_turn_when_nothing_is_lost(story: Story) -> None:
    live = fold_events(story.events)

    assert seen(live) == truth(story)
    assert live.text == "".join(said.text for said in story.texts)


@given(sessions())
def test_fold_events__shows_the_latest_of_several_turns(told: tuple[Story, ...]) -> None:
    assert seen(fold_events(told_by(told))) == truth(told[-1])


@given(st.data())
def test_fold_events__shows_no_more_after_any_repeats(data: st.DataObject) -> None:
    events = told_by(data.draw(sessions()))
    read = data.draw(st.integers(1, len(events)), label="read")
    repeated = data.draw(st.lists(st.sampled_from(events[:read]), max_size=9), label="repeated")
    live = fold_events(events[:read])

    assert fold_events(repeated, live) is live


@given(st.data())
def test_fold_events__reads_on_from_any_earlier_position(data: st.DataObject) -> None:
    events = told_by(data.draw(sessions()))
    read = data.draw(st.integers(0, len(events)), label="read")
    again_from = data.draw(st.integers(0, read), label="again from")

    live = fold_events(events[:read])

    assert fold_events(events[again_from:], live) == fold_events(events)


@given(st.data())
def test_fold_events__tells_of_every_gap_in_an_attempt(data: st.DataObject) -> None:
    story = data.draw(stories())
    gaps = [event for event in story.events if has_one_after(event, story)]
    missing = data.draw(st.sampled_from(gaps)) if gaps else None
    read = [event for event in story.events if event is not missing]

    assert fold_events(read).lost is (missing is not None)


def has_one_after(event: AgentEvent, story: Story) -> bool:
    """Whether the same attempt tells one more."""
    return (attempt_of(event), event.index + 1) in [(attempt_of(e), e.index) for e in story.events]


def attempt_of(event: AgentEvent) -> tuple[str, StepMethod, int]:
    return event.step_execution_id, event.method, event.attempt


@given(st.data())
def test_fold_events__is_sure_of_the_end_whatever_is_missing(data: st.DataObject) -> None:
    story = data.draw(stories())
    *before, end = story.events
    kept = data.draw(st.lists(st.sampled_from(before), unique=True), label="kept")
    read = [event for event in before if event in kept]

    live = fold_event(fold_events(read), end)

    assert (live.turn_id, live.ended, live.waiting_interrupts) == (story.turn, story.ended, ())


@given(st.data())
def test_fold_events__never_shows_what_only_a_lost_attempt_said(data: st.DataObject) -> None:
    story = data.draw(stories())
    final = {
        (e.step_execution_id, e.method): max(
            other.attempt
            for other in story.events
            if (other.step_execution_id, other.method) == (e.step_execution_id, e.method)
        )
        for e in story.events
    }
    kept = [e for e in story.events if e.attempt == final[e.step_execution_id, e.method]]

    assert seen(fold_events(story.events)) == seen(fold_events(kept))
