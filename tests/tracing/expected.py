"""The spans of a turn as they should be: what they all say, and what each says besides."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from dex_agents_model import AgentUsage

from .flows import TRACED
from .metered_runner import SUMMARY_USAGE, USAGE
from .seen import Seen

TURN = f"turn {TRACED}"
AGENT = f"invoke_agent {TRACED}"

ANSWERED = {
    "gen_ai.request.model": "model-1",
    "gen_ai.response.model": "model-1-large",
    "gen_ai.provider.name": "acme",
    "gen_ai.response.id": "response-1",
    "gen_ai.response.finish_reasons": ["stop"],
}


@frozen
class Expected:
    """Builds the spans of one turn of one session."""

    session_id: str
    turn: str = "turn-1"

    def begin(self) -> Seen:
        return Seen(TURN, None, "INTERNAL", ("UNSET",), self._about())

    def end(self, outcome: str, *status: str, **more: Any) -> Seen:
        about = {
            **self._about(),
            "gen_ai.operation.name": "invoke_agent",
            "dex.turn.outcome": outcome,
        }
        return Seen(AGENT, TURN, "INTERNAL", status or ("UNSET",), {**about, **more})

    def chat(self, step: str = "RunModel-1", attempt: int = 1) -> Seen:
        """A model call that answered."""
        about = {**self._chat(step, attempt), **_used(USAGE), **ANSWERED}
        return Seen("chat model-1", TURN, "CLIENT", ("UNSET",), about)

    def summary(self, step: str) -> Seen:
        """A model call that made a summary."""
        about = {**self._chat(step, 1), **_used(SUMMARY_USAGE)}
        return Seen("chat", TURN, "CLIENT", ("UNSET",), about)

    def failed_chat(self, error_type: str, used: AgentUsage | None = None) -> Seen:
        """A model call that raised, at its first attempt; ``used`` is what the runner said of it."""
        about = {**self._chat("RunModel-1", 1), "error.type": error_type}
        about |= {} if used is None else _used(used)
        return Seen("chat", TURN, "CLIENT", ("ERROR",), about)

    def tool(self, tool: str, call: str, step: str, **more: Any) -> Seen:
        """An attempt of a tool call; ``more`` may have its status and its error."""
        about = {
            **self._call(step, 1),
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call,
            "gen_ai.tool.type": "function",
        }
        told = {_ATTRIBUTES[name]: value for name, value in more.items()}
        status = "ERROR" if "error" in more else "UNSET"
        return Seen(f"execute_tool {tool}", TURN, "INTERNAL", (status,), {**about, **told})

    def _chat(self, step: str, attempt: int) -> dict[str, Any]:
        return {**self._call(step, attempt), "gen_ai.operation.name": "chat"}

    def _call(self, step: str, attempt: int) -> dict[str, Any]:
        return {
            **self._about(),
            "dex.step.type": step.partition("-")[0],
            "dex.step.execution_id": step,
            "dex.step.attempt": attempt,
        }

    def _about(self) -> dict[str, Any]:
        return {
            "gen_ai.agent.name": TRACED,
            "gen_ai.conversation.id": self.session_id,
            "dex.turn.id": self.turn,
        }


_ATTRIBUTES = {"status": "dex.tool_call.status", "error": "error.type"}


def _used(usage: AgentUsage) -> dict[str, Any]:
    return {
        "dex.usage.requests": usage.requests,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
