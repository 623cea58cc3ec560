"""Which names of tools an agent has, where that can be known without a run. No tool is listed or called here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, DynamicCapability
from pydantic_ai.toolsets import (
    AbstractToolset,
    CombinedToolset,
    ExternalToolset,
    FunctionToolset,
    PrefixedToolset,
    RenamedToolset,
    WrapperToolset,
)

from dex_agents_model import ToolPolicy
from dex_agents_model.ids import usable_tool_name

from .refusals import all_capabilities

# Pydantic AI adds these itself when tools or capabilities are revealed on demand.
_ADDED_BY_PYDANTIC_AI: Final = frozenset({"search_tools", "load_capability"})
_PYDANTIC_AI: Final = "pydantic_ai."


def refuse_unknown_tools(
    agent: AbstractAgent[Any, Any], tool_policies: Mapping[str, ToolPolicy]
) -> None:
    """Accept the policies, or name those that no tool of the agent can ever meet.

    An agent with toolsets whose names are known only in a run is accepted.

    Raises:
        ValueError: one line with the names and the remedy.
    """
    known = static_tool_names(agent)
    if known is None:
        return
    unknown = sorted(set(tool_policies) - known)
    if unknown:
        raise ValueError(
            f"tool_policies names {_quoted(unknown)}, which the agent does not have; it has"
            f" {_quoted(sorted(known - _ADDED_BY_PYDANTIC_AI)) or 'no tools'}. Correct the name, or"
            " pass allow_missing_tools=True when a tool was removed on purpose"
        )


def refuse_unusable_names(agent: AbstractAgent[Any, Any]) -> None:
    """Accept the names of the agent's tools, as far as they are known without a run.

    Raises:
        ValueError: no session can keep one of them.
    """
    for name in static_tool_names(agent) or ():
        usable_tool_name(name)


def static_tool_names(agent: AbstractAgent[Any, Any]) -> frozenset[str] | None:
    """Every name that the model may call a tool by, or None when only a run can tell."""
    if any(_may_rename(capability) for capability in all_capabilities(agent)):
        return None
    names = _union(_names(toolset) for toolset in agent.toolsets)
    return None if names is None else names | _ADDED_BY_PYDANTIC_AI


def _may_rename(capability: AbstractCapability[Any]) -> bool:
    if isinstance(capability, DynamicCapability):
        return True
    wrapping = type(capability).get_wrapper_toolset
    return not wrapping.__module__.startswith(_PYDANTIC_AI)


def _names(toolset: AbstractToolset[Any]) -> frozenset[str] | None:
    """The names of one toolset. A class of the application's may list what it likes."""
    if isinstance(toolset, FunctionToolset):
        return _function_names(toolset)
    if not type(toolset).__module__.startswith(_PYDANTIC_AI):
        return None
    if isinstance(toolset, ExternalToolset):
        return frozenset(definition.name for definition in toolset.tool_defs)
    if isinstance(toolset, CombinedToolset):
        return _union(_names(each) for each in toolset.toolsets)
    if isinstance(toolset, WrapperToolset):
        inner = _names(toolset.wrapped)
        return None if inner is None else _names_through(toolset, inner)
    return None


def _function_names(toolset: FunctionToolset[Any]) -> frozenset[str] | None:
    """A function that prepares a tool for each step may rename it."""
    lists_itself = type(toolset).get_tools is not FunctionToolset.get_tools
    if lists_itself or any(tool.prepare is not None for tool in toolset.tools.values()):
        return None
    return frozenset(toolset.tools)


def _names_through(wrapper: WrapperToolset[Any], inner: frozenset[str]) -> frozenset[str]:
    """Of Pydantic AI's own wrappers only two rename."""
    if isinstance(wrapper, PrefixedToolset):
        return frozenset(f"{wrapper.prefix}_{name}" for name in inner)
    if isinstance(wrapper, RenamedToolset):
        renamed = {original: new for new, original in wrapper.name_map.items()}
        return frozenset(renamed.get(name, name) for name in inner)
    return inner


def _union(parts: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    names: frozenset[str] = frozenset()
    for part in parts:
        if part is None:
            return None
        names |= part
    return names


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
