"""What a checker is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..actions import Change

Invariant: TypeAlias = Callable[[Change], Iterator[str]]
"""Yields a sentence for each thing that is wrong with one change; its name says what must hold."""


def named(invariant: Invariant) -> str:
    """The name of ``invariant`` as words."""
    return getattr(invariant, "__name__", repr(invariant)).replace("_", " ")
