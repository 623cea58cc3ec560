"""A Step with the rule of another Step."""

from dex_agents_model.effects import Entered, ExecuteTool
from dex_agents_model.rules.tools import run_tool
from dex_agents_model.spec import on, spec
from dex_agents_model.steps import RunModel
from dex_agents_model.table import MODEL
from dex_agents_model.views import CallView

ENTRY = spec(  # refused: misc
    RunModel,
    reads=CallView,
    limits=MODEL,
    rows=(on(Entered, run_tool, ExecuteTool),),
)
