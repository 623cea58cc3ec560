"""A Step that waits as another Step does."""

from dex_agents_model.effects import UserSpoke
from dex_agents_model.rules.turn import begin_turn, wait_for_results
from dex_agents_model.spec import on, spec
from dex_agents_model.steps import AwaitUserMessage, RunModel
from dex_agents_model.table import BOOKKEEPING
from dex_agents_model.views import SessionView

ENTRY = spec(
    AwaitUserMessage,
    reads=SessionView,
    limits=BOOKKEEPING,
    wait=wait_for_results,  # refused: arg-type
    rows=(on(UserSpoke, begin_turn, RunModel),),
)
