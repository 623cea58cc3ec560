"""A write among the publishes."""

from dex_agents_model.decision import ClearTurn, Commit

COMMIT = Commit(publishes=(ClearTurn(),))  # refused: arg-type
