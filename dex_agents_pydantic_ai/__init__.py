"""The Pydantic AI adapter: runs an agent of that framework as a durable session.

What an application uses is named here; nothing else may live here.
"""

from importlib.util import find_spec

if find_spec("pydantic_ai") is None:
    raise ModuleNotFoundError(
        "dex_agents_pydantic_ai needs Pydantic AI:"
        " install dex-agent-sessions with its extra 'pydantic-ai'",
        name="pydantic_ai",
    )

# isort: split
from .flow import pydantic_ai_session_flow
from .runner import AgentModel, DepsFactory, PydanticAIRunner
from .tool_step import IDEMPOTENCY_KEY_METADATA_KEY, deferred_tool_idempotency_key
from .user_message import user_content

__all__ = [
    "IDEMPOTENCY_KEY_METADATA_KEY",
    "AgentModel",
    "DepsFactory",
    "PydanticAIRunner",
    "deferred_tool_idempotency_key",
    "pydantic_ai_session_flow",
    "user_content",
]
