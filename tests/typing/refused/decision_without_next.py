"""A decision that does not say where its branch goes."""

from dex_agents_model.decision import Commit, StepDecision

DECISION = StepDecision(commit=Commit())  # refused: call-arg
