"""A Step that loads less than its rule reads."""

from dex_agents_model.effects import Entered, ExecuteTool
from dex_agents_model.rules.tools import run_tool
from dex_agents_model.spec import on, spec
from dex_agents_model.steps import CallTool
from dex_agents_model.table import RETRIED_TOOL
from dex_agents_model.views import SessionView

ENTRY = spec(  # refused: misc
    CallTool,
    reads=SessionView,
    limits=RETRIED_TOOL,
    rows=(on(Entered, run_tool, ExecuteTool),),
)
