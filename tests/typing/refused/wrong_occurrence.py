"""A row that gives its rule another occurrence than the rule takes."""

from dex_agents_model.effects import Entered
from dex_agents_model.rules.turn import begin_turn
from dex_agents_model.spec import on
from dex_agents_model.steps import RunModel

ROW = on(Entered, begin_turn, RunModel)  # refused: arg-type
