"""From MODULE:FLOW on the command line to the Flow. What an application's own code raises is shown as it is."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click
from attrs import frozen

from ..flow import AgentSessionFlow
from .trouble import NotUnderstood


@frozen
class NamedFlow:
    """A Flow and what it was called on the command line."""

    name: str
    flow: AgentSessionFlow


class FlowParameter(click.ParamType[NamedFlow]):
    """MODULE:FLOW, where FLOW is an AgentSessionFlow of the module or builds one without arguments."""

    name = "module:flow"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> NamedFlow:
        try:
            return NamedFlow(value, load_flow(value))
        except FlowNotLoaded as error:
            raise NotUnderstood(str(error)) from error


class FlowNotLoaded(Exception):
    """MODULE:FLOW names no Flow; the message says why."""


def load_flow(name: str) -> AgentSessionFlow:
    """The Flow that ``name`` stands for; modules of the current directory come first.

    Raises:
        FlowNotLoaded: there is no such module or attribute, or it is no Flow.
        Exception: whatever the module itself raises.
    """
    module_name, _, path = name.partition(":")
    if not module_name or not path or module_name.startswith("."):
        raise FlowNotLoaded(f"{name!r} is not of the form MODULE:FLOW, as in my_agent:flow")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if not _exists(module_name):
        raise FlowNotLoaded(f"there is no module {module_name!r} here or among those installed")
    found: object = importlib.import_module(module_name)
    for attribute in path.split("."):
        if not hasattr(found, attribute):
            raise FlowNotLoaded(f"the module {module_name!r} has no {path!r}")
        found = getattr(found, attribute)
    if callable(found) and not isinstance(found, AgentSessionFlow):
        found = found()
    if not isinstance(found, AgentSessionFlow):
        raise FlowNotLoaded(
            f"{name} is {type(found).__name__!r}, not an AgentSessionFlow nor what builds one"
        )
    return found


def _exists(module_name: str) -> bool:
    try:
        return find_spec(module_name) is not None
    except (ModuleNotFoundError, ValueError):
        return False  # a package on the way is missing, or the name is no name


FLOW: Final = FlowParameter()
