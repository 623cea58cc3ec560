"""An RPC with the rule of another RPC."""

from dex_agents_model.requests import SendUserMessage
from dex_agents_model.rules.reading import show_session
from dex_agents_model.spec import rpc
from dex_agents_model.views import QueueView

ENTRY = rpc(SendUserMessage, reads=QueueView, rule=show_session)  # refused: arg-type
