"""The scenarios that every release is searched with. Each is the smallest that holds its danger."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from attrs import evolve

from ..calls import ToolEffect
from ..policy import AgentSessionOptions, CompactionPolicy, ToolPolicy
from .scenario import Answers, Cancels, Says, Scenario, Steers, Withdraws
from .scripted import (
    Asks,
    Breaks,
    Concludes,
    Raises,
    Refuses,
    Returns,
    ScriptedRunner,
    ThoroughRunner,
    ToolUse,
)

_SECOND: Final = timedelta(seconds=1)
_DEADLINE: Final = timedelta(seconds=60)

_POLICIES: Final = {
    "look_up": ToolPolicy(ToolEffect.READ),
    "reserve": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE, requires_approval=True),
    "label": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE),
    "refund": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
    "notify": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False),
}
_OPTIONS: Final = AgentSessionOptions(tool_policies=_POLICIES)
_LOOK_UP: Final = ToolUse("a", "look_up", '{"order":7}')
_RESERVE: Final = ToolUse("b", "reserve", '{"item":3}')
_REFUND: Final = ToolUse("c", "refund", '{"order":7}')
_NOTIFY: Final = ToolUse("d", "notify", '{"who":"Ada"}')
_LABEL: Final = ToolUse("e", "label", '{"order":7}')

THREE_TOOLS: Final = Scenario(
    name="three-tools",
    is_timed=False,
    about="three parallel tools of different effects, two of them approved or rejected in any order",
    first_message="refund order 7",
    options=_OPTIONS,
    runner=ScriptedRunner(
        {"refund order 7": (Asks(_LOOK_UP, _RESERVE, _REFUND), Concludes("Refunded."))}
    ),
    acts=(Answers("b"), Answers("c")),
)
THREE_EFFECTS: Final = Scenario(
    name="three-effects",
    is_timed=False,
    about="three parallel tools that need no approval: a read that fails, and two writes",
    first_message="tidy up",
    options=_OPTIONS,
    runner=ScriptedRunner(
        {"tidy up": (Asks(_LOOK_UP, _NOTIFY, _LABEL), Concludes("Tidy."))},
        {"look_up": Refuses("no such order"), "label": Raises(attempts=1)},
    ),
)
TWO_QUESTIONS: Final = Scenario(
    name="two-questions",
    is_timed=False,
    about="two questions with a deadline, answered at any time before and after",
    first_message="refund order 7",
    options=AgentSessionOptions(tool_policies=_POLICIES, interrupt_deadline=_DEADLINE),
    runner=ScriptedRunner({"refund order 7": (Asks(_RESERVE, _REFUND), Concludes("Refunded."))}),
    acts=(Answers("b", approved=True, edited_arguments='{"item":4}'), Answers("c", approved=False)),
)
DEADLINES: Final = tuple(
    Scenario(
        name=f"deadline{seconds:+d}",
        about="an answer around its deadline, by a Worker whose clock is off by up to a second",
        first_message="refund order 7",
        options=AgentSessionOptions(tool_policies=_POLICIES, interrupt_deadline=_DEADLINE),
        runner=ScriptedRunner({"refund order 7": (Asks(_REFUND), Concludes("Refunded."))}),
        acts=(Answers("c", at=_DEADLINE + seconds * _SECOND),),
        clock_skews=(-_SECOND, timedelta(0), _SECOND),
    )
    for seconds in (-1, 0, 1)
)
MODEL_FAILS: Final = Scenario(
    name="model-fails",
    is_timed=False,
    about="the model is down after tools ran; the next turn must know of them",
    first_message="refund order 7",
    options=_OPTIONS,
    runner=ScriptedRunner(
        {"refund order 7": (Asks(_LOOK_UP, _NOTIFY), Breaks()), "again": (Concludes("Again."),)},
        {"notify": Raises()},
    ),
    acts=(Says("again"),),
)
TWO_MESSAGES: Final = Scenario(
    name="two-messages",
    is_timed=False,
    about="two users speak at once, while a turn runs and between turns",
    first_message="hello",
    options=_OPTIONS,
    runner=ScriptedRunner(
        {"one": (Asks(_LOOK_UP), Concludes("One.")), "two": (Asks(_LOOK_UP), Concludes("Two."))}
    ),
    acts=(Says("one"), Says("two")),
)

UNBUILDABLE: Final = Scenario(
    name="unbuildable",
    about="the runner can build no message of what a user says between turns, or to a turn that then fails of it",
    is_timed=False,
    first_message="refund order 7",
    options=_OPTIONS,
    runner=ScriptedRunner(
        {"refund order 7": (Asks(_NOTIFY), Concludes("Told."))},
        unbuildable=frozenset({"odd", "odder"}),
    ),
    acts=(Says("odd"), Steers("odder")),
)
WITHDRAW: Final = Scenario(
    name="withdraw",
    about="a queued message is taken back at every point",
    is_timed=False,
    first_message="hello",
    runner=ScriptedRunner(),
    acts=(Says("one"), Says("two"), Withdraws(0)),
)
STEER: Final = Scenario(
    name="steer",
    about="a user steers at every point of a turn with a question that a person may answer",
    is_timed=False,
    first_message="refund order 7",
    options=_OPTIONS,
    runner=ScriptedRunner(
        {
            "refund order 7": (Asks(_LOOK_UP, _REFUND), Concludes("Refunded.")),
            "stop that": (Concludes("Stopped."),),
        }
    ),
    acts=(Steers("stop that"), Answers("c")),
)
STEER_AND_QUEUE: Final = Scenario(
    name="steer-and-queue",
    about="users steer and queue messages at once, while a turn runs and between turns",
    is_timed=False,
    first_message="hello",
    options=_OPTIONS,
    runner=ScriptedRunner({"hello": (Asks(_LOOK_UP), Concludes("Hello."))}),
    acts=(Steers("be quick"), Steers("be kind"), Says("later")),
)
CANCEL: Final = Scenario(
    name="cancel",
    about="a person cancels at every point of a turn with a question that another may answer",
    is_timed=False,
    first_message="refund order 7",
    options=_OPTIONS,
    runner=ScriptedRunner({"refund order 7": (Asks(_LOOK_UP, _REFUND), Concludes("Refunded."))}),
    acts=(Cancels(), Answers("c", approved=True)),
)
CANCEL_AND_QUEUE: Final = Scenario(
    name="cancel-and-queue",
    about="a turn is cancelled while a message waits whose turn uses the same tool call ID",
    is_timed=False,
    first_message="look",
    options=_OPTIONS,
    runner=ScriptedRunner(
        {text: (Asks(_LOOK_UP), Concludes("Seen.")) for text in ("look", "again")}
    ),
    acts=(Cancels(), Says("again")),
)
CANCEL_KEEPING: Final = Scenario(
    name="cancel-keeping-items",
    is_timed=False,
    about="a turn is cancelled whose finished items the runner can keep, steering included",
    first_message="label order 7",
    options=_OPTIONS,
    runner=ThoroughRunner(
        {"label order 7": (Asks(_LABEL), Asks(_LOOK_UP), Concludes("Labelled."))},
        {"look_up": Raises()},
    ),
    acts=(Cancels(), Steers("and be quick")),
)
CANCEL_FAILING: Final = Scenario(
    name="cancel-failing",
    is_timed=False,
    about="a turn is cancelled while its failure is recorded",
    first_message="refund order 7",
    options=_OPTIONS,
    runner=ScriptedRunner({"refund order 7": (Asks(_NOTIFY), Breaks())}),
    acts=(Cancels(),),
)
ANSWER_AND_QUEUE: Final = Scenario(
    name="answer-and-queue",
    is_timed=False,
    about="a person answers a question while a user speaks; either may have to be sent again",
    first_message="refund order 7",
    options=_OPTIONS,
    runner=ScriptedRunner({"refund order 7": (Asks(_REFUND), Concludes("Refunded."))}),
    acts=(Answers("c", approved=True), Says("hello")),
)
COMPACTION: Final = Scenario(
    name="compaction",
    about="earlier turns are summarised inside a turn, whose tool results no longer fit; it may be cancelled",
    is_timed=False,
    first_message="hello",
    options=AgentSessionOptions(
        tool_policies=_POLICIES,
        compaction=CompactionPolicy(
            context_window_tokens=1000, trigger_ratio=0.5, keep_recent_tokens=0
        ),
    ),
    runner=ThoroughRunner(
        {"next": (Asks(_LOOK_UP), Concludes("Found."))}, {"look_up": Returns("x" * 1500)}
    ),
    acts=(Says("next"), Cancels("turn-2")),
)
STALE_CLAIM: Final = Scenario(
    name="stale-claim",
    is_timed=False,
    about="a single-attempt call is delivered twice, and the stale Worker claims it late",
    first_message="tell Ada",
    options=_OPTIONS,
    runner=ScriptedRunner(
        {"tell Ada": (Asks(_NOTIFY), Concludes("Told.")), "again": (Concludes("Again."),)}
    ),
    acts=(Cancels(), Says("again")),
)
ROLLING_DEPLOY: Final = Scenario(
    name="rolling-deploy",
    is_timed=False,
    about="a single-attempt call is cut off or cancelled while Workers that fence it replace others that do not",
    first_message="tell Ada",
    options=evolve(_OPTIONS, fence_single_attempt_tools=False),
    other_options=(_OPTIONS,),
    runner=ScriptedRunner({"tell Ada": (Asks(_NOTIFY), Concludes("Told."))}),
    acts=(Cancels(),),
)

SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            THREE_TOOLS,
            THREE_EFFECTS,
            TWO_QUESTIONS,
            *DEADLINES,
            MODEL_FAILS,
            TWO_MESSAGES,
            UNBUILDABLE,
            WITHDRAW,
            STEER,
            STEER_AND_QUEUE,
            CANCEL,
            CANCEL_AND_QUEUE,
            CANCEL_KEEPING,
            CANCEL_FAILING,
            ANSWER_AND_QUEUE,
            COMPACTION,
            STALE_CLAIM,
            ROLLING_DEPLOY,
        )
    }
)
