"""A session goes on an engine as it goes in the simulator: its Steps, its records, and what really ran."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from dex_agents_dex.testing import EXECUTE_COMPLETED_EVENT, WAIT_FOR_COMPLETED_EVENT
from dex_agents_model.calls import ToolEffect
from dex_agents_model.records import ApprovalDecision, WaitingForUserMessage
from dex_agents_model.table import SPEC_OF

from .conftest import Played
from .moment import Ended, Stretch, stretches
from .simulated import simulated
from .stories import STORIES
from .story import POLICIES, Story


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_engine__plays_a_story_as_the_simulator_does(played: Played, story: Story) -> None:
    seen, expected = played.seen[story], played.expected[story]

    for seen_moment, expected_moment in zip_longest(seen.moments, expected.moments):
        assert seen_moment == expected_moment
    assert seen.told == expected.told


def test_stories__come_to_every_step_every_end_and_every_decision() -> None:
    moments = [moment for story in STORIES for moment in simulated(story).moments]
    ended = {
        each.step_type
        for moment in moments
        for stretch in moment.history
        for each in (*stretch.between, stretch.then)
        if each is not None
    }
    states = [moment.snapshot.state for moment in moments]
    ends = {
        s.last_turn.outcome for s in states if isinstance(s, WaitingForUserMessage) and s.last_turn
    }
    decisions = {approval.decision for moment in moments for approval in moment.approvals}
    tools = {ran.name for moment in moments for ran in moment.ran} & POLICIES.keys()

    assert ended == {step.__name__ for step in SPEC_OF}
    assert ends == {"completed", "failed", "cancelled"}
    assert decisions == set(ApprovalDecision)
    assert {POLICIES[tool].effect for tool in tools} == set(ToolEffect)


def test_stories__end_at_rest() -> None:
    ends = {story.name: simulated(story).moments[-1].snapshot.state for story in STORIES}

    running = {name for name, end in ends.items() if not isinstance(end, WaitingForUserMessage)}
    assert running == set()


def test_stretches__keep_the_order_of_the_control_branch_alone() -> None:
    def execution(step: str) -> Ended:
        return Ended(EXECUTE_COMPLETED_EVENT, step, 1)

    waiting = Ended(WAIT_FOR_COMPLETED_EVENT, "ResumeTurn", 1)
    model, resume = execution("RunModel"), execution("ResumeTurn")
    tools = execution("CallSingleAttemptTool"), execution("CallTool")

    assert stretches([model, *tools, waiting, resume]) == (
        Stretch((), model),
        Stretch((*tools, waiting), resume),
        Stretch((), None),
    )
    assert stretches([model, waiting, *reversed(tools), resume]) == stretches(
        [model, *tools, waiting, resume]
    )
    assert stretches([resume, model]) != stretches([model, resume])
