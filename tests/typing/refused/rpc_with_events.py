"""An RPC that tells events: Dex gives it no Stream to write."""

from dex_agents_model.decision import RpcDecision
from dex_agents_model.events import TurnEvent


def answer(event: TurnEvent) -> RpcDecision[bool]:
    return RpcDecision(events=(event,), reply=True)  # refused: call-arg
