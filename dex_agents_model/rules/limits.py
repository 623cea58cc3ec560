"""What every rule of the model Step needs: the state that it acts in, and the way out when a limit is broken."""

from __future__ import annotations

from ..decision import Commit, GoTo, StepDecision
from ..errors import StateCorrupt
from ..records import RunningModel
from ..steps import RecordTurnFailure, RunModel
from ..views import TurnView


def running_model(view: TurnView) -> RunningModel:
    if not isinstance(view.state, RunningModel):
        raise StateCorrupt(f"a session that calls its model has the state {view.state}")
    return view.state


def end_over_a_limit(step: RunModel, error: str, commit: Commit | None = None) -> StepDecision:
    return StepDecision(
        commit=commit or Commit(), next=GoTo((RecordTurnFailure(step.turn, error),))
    )
