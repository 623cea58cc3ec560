"""``python -m tests.binding.held_worker``: a Worker that holds each session in the method of a Step that its ID names.

Told to end, it gives nothing that runs any time.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Final

import dex

from dex_agents_dex.steps import STEP_CLASSES
from dex_agents_dex.testing import run_agent_worker

from .flows import STATE_DIR_VARIABLE, build_flows
from .scripted_runner import gate_of

_METHODS: Final = ("wait_for", "execute")
_SLOTS: Final = 64

Method = Callable[[Any, dex.AsyncContext, Any], Awaitable[Any]]


def _holding(method: Method, point: str, state_dir: Path) -> Method:
    """``method``, which the sessions that are named after ``point`` do not get into."""

    @wraps(method)
    async def held(self: Any, context: dex.AsyncContext, step: Any) -> Any:
        if context.flow_id.startswith(f"{point}-"):
            gate = gate_of(state_dir, context.flow_id, point)
            gate.mark_reached()
            await gate.wait_for_release()
        return await method(self, context, step)

    return held


def _hold_all(state_dir: Path) -> None:
    for step, step_class in STEP_CLASSES.items():
        for name in _METHODS:
            method = vars(step_class).get(name)
            if method is not None:
                point = f"{step.__name__}.{name}"
                setattr(step_class, name, _holding(method, point, state_dir))


if __name__ == "__main__":
    directory = Path(os.environ[STATE_DIR_VARIABLE])
    _hold_all(directory)
    run_agent_worker(build_flows(directory), worker_slots=_SLOTS, drain_timeout=timedelta(0))
