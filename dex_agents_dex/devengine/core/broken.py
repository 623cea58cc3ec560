"""A command that breaks off half-way: told as such, with the run that it leaves untrusted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.core.state import Run


class BrokenRun(Exception):
    """The run in memory is not to be trusted; the stored one is."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"a command broke off half-way in run {run.run_id} of {run.flow_id!r}")
        self.run = run


@contextmanager
def whole(run: Run) -> Iterator[None]:
    """Raise `BrokenRun` for whatever fails unforeseen; a refusal comes before any change."""
    try:
        yield
    except Refusal:
        raise
    except Exception as error:
        raise BrokenRun(run) from error
