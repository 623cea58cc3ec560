"""The scenarios that every release is searched with. Each is the smallest that holds its danger."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from ..calls import ToolEffect
from ..policy import AgentSessionOptions, ToolPolicy
from .scenario import Answers, Says, Scenario
from .scripted import Asks, Breaks, Concludes, Raises, Refuses, ScriptedRunner, ToolUse

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
    about="two questions with a deadline, answered at any time before and after",
    first_message="refund order 7",
    options=AgentSessionOptions(tool_policies=_POLICIES, interrupt_deadline=_DEADLINE),
    runner=ScriptedRunner({"refund order 7": (Asks(_RESERVE, _REFUND), Concludes("Refunded."))}),
    acts=(Answers("b", approved=True), Answers("c", approved=False)),
)
DEADLINE: Final = Scenario(
    name="deadline",
    about="an answer one second before, at, and one second after its deadline, by a skewed Worker",
    first_message="refund order 7",
    options=AgentSessionOptions(tool_policies=_POLICIES, interrupt_deadline=_DEADLINE),
    runner=ScriptedRunner({"refund order 7": (Asks(_REFUND), Concludes("Refunded."))}),
    acts=(
        Answers("c", approved=True, at=_DEADLINE - _SECOND),
        Answers("c", approved=False, at=_DEADLINE),
        Answers("c", approved=True, at=_DEADLINE + _SECOND),
    ),
    clock_skews=(-_SECOND, timedelta(0), _SECOND),
)
MODEL_FAILS: Final = Scenario(
    name="model-fails",
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
    about="two users speak at once, while a turn runs and between turns",
    first_message="hello",
    options=_OPTIONS,
    runner=ScriptedRunner(
        {"one": (Asks(_LOOK_UP), Concludes("One.")), "two": (Asks(_LOOK_UP), Concludes("Two."))}
    ),
    acts=(Says("one"), Says("two")),
)

SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            THREE_TOOLS,
            THREE_EFFECTS,
            TWO_QUESTIONS,
            DEADLINE,
            MODEL_FAILS,
            TWO_MESSAGES,
        )
    }
)
