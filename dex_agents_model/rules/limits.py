"""What every rule of the model Step needs: the state that it acts in, and the ways out when a turn cannot go on."""

from __future__ import annotations

from ..decision import Commit, GoTo, SetUsage, StepDecision
from ..errors import StateCorrupt
from ..events import TurnEvent, UsageRecorded
from ..records import AgentUsage, RunningModel
from ..steps import RecordTurnFailure, RunModel
from ..views import TurnView


def running_model(view: TurnView) -> RunningModel:
    if not isinstance(view.state, RunningModel):
        raise StateCorrupt(f"a session that calls its model has the state {view.state}")
    return view.state


def end_after_a_call(step: RunModel, view: TurnView, used: AgentUsage, error: str) -> StepDecision:
    """End the turn for what the model answered: the call was made, so it counts."""
    usage = view.usage + used
    told = TurnEvent(step.turn, UsageRecorded(used, usage))
    return end_over_a_limit(step, error, Commit(writes=(SetUsage(usage),), events=(told,)))


def end_over_a_limit(step: RunModel, error: str, commit: Commit | None = None) -> StepDecision:
    return StepDecision(
        commit=commit or Commit(), next=GoTo((RecordTurnFailure(step.turn, error),))
    )
