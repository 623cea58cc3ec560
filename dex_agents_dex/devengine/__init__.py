"""A Dex server for one machine: for development and tests, never for production.

It speaks Dex's protocol to the unmodified SDK in pull mode and keeps its state in SQLite. It knows
nothing of agents or sessions, and imports of the SDK only the wire types.
"""

from dex_agents_dex.devengine.engine import DevEngine, EngineNotStarted
from dex_agents_dex.devengine.options import EngineOptions
from dex_agents_dex.devengine.store import StoreUnusable

__all__ = ["DevEngine", "EngineNotStarted", "EngineOptions", "StoreUnusable"]
