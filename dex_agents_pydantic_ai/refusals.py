"""Which agents cannot be run durably, and what to do about it. Nothing runs here: it is said when a runner is built."""

from __future__ import annotations

from typing import Any, Final

from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.capabilities import (
    AbstractCapability,
    CombinedCapability,
    Hooks,
    WrapperCapability,
)

from . import private

_ANSWERING_METHOD: Final = "handle_deferred_tool_calls"
# These only pass the question on to the capabilities inside them.
_PASSING_ON: Final = (AbstractCapability, CombinedCapability, WrapperCapability)


def refuse_unsuitable(agent: AbstractAgent[Any, Any]) -> None:
    """Accept ``agent``, or say why it cannot work.

    Raises:
        ValueError: one line with the reason and the remedy.
    """
    _refuse_durable_wrappers(agent)
    private.innermost(agent)
    for capability in all_capabilities(agent):
        _refuse_capability(capability)
    if private.has_output_validators(agent) and not private.allows_deferred_tools(agent):
        raise ValueError(
            "the agent has output validators, so its output type cannot be widened for a run:"
            " list DeferredToolRequests in its output_type, such as"
            " output_type=[Answer, DeferredToolRequests]"
        )


def all_capabilities(agent: AbstractAgent[Any, Any]) -> list[AbstractCapability[Any]]:
    """Every capability of the agent, those inside others too."""
    return _with_wrapped(agent.root_capability)


def _with_wrapped(root: AbstractCapability[Any]) -> list[AbstractCapability[Any]]:
    """A wrapper shows itself in place of what it wraps, so that is asked for."""
    found: list[AbstractCapability[Any]] = []
    root.apply(found.append)
    wrapped = [each.wrapped for each in found if isinstance(each, WrapperCapability)]
    return found + [inner for each in wrapped for inner in _with_wrapped(each)]


def _refuse_durable_wrappers(agent: AbstractAgent[Any, Any]) -> None:
    layer = agent
    while isinstance(layer, WrapperAgent):
        if private.is_of_durable_execution(type(layer)):
            _refuse_durability(layer)
        layer = layer.wrapped


def _refuse_durability(part: object) -> None:
    raise ValueError(
        f"the agent is made durable by {type(part).__name__}, and a session already makes every"
        " model call and tool call durable: build the session from the agent without it"
    )


def _refuse_capability(capability: AbstractCapability[Any]) -> None:
    name = type(capability).__name__
    if private.is_of_durable_execution(type(capability)):
        _refuse_durability(capability)
    if _answers_deferred_calls(capability):
        raise ValueError(
            f"the agent's capability {name} answers deferred tool calls itself, so tools would run"
            " or be approved outside the session's Steps: remove it and give the tools a ToolPolicy"
        )
    if _wraps_everything(capability):
        raise ValueError(
            f"the agent's capability {name} declares that it wraps every other one"
            " (position='outermost', wraps=(AbstractCapability,)), which only the session's own"
            " capability can: name the capabilities that it has to wrap"
        )


def _answers_deferred_calls(capability: AbstractCapability[Any]) -> bool:
    if isinstance(capability, Hooks) and private.answers_deferred_calls(capability):
        return True
    defined_by = next(base for base in type(capability).__mro__ if _ANSWERING_METHOD in vars(base))
    return defined_by not in (*_PASSING_ON, Hooks)


def _wraps_everything(capability: AbstractCapability[Any]) -> bool:
    ordering = capability.get_ordering()
    return ordering is not None and AbstractCapability in ordering.wraps
