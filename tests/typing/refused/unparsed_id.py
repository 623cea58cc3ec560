"""A Step of a turn whose ID nobody parsed."""

from dex_agents_model.steps import RunModel

STEP = RunModel("turn-1")  # refused: arg-type
