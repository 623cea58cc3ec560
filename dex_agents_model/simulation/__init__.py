"""Simulate sessions: every interleaving of a scenario, or long random lives; see `explore` and `simulate`.

A simulated session runs the model's own table on records that went through the wire, with crashes,
redelivery, stale snapshots and a clock of its own. It touches no engine, no network and no disk.
"""

from .actions import Does
from .explorer import Exploration, Finding, explore, replay
from .faults import NO_FAULTS, ONE_FAULT, Fault, Faults
from .invariants import INVARIANTS, Invariant
from .lives import Life, Odds, simulate
from .looped import OnItsOwnLoop
from .scenario import EPOCH, Answers, Cancels, Says, Scenario, Steers, Withdraws
from .scripted import (
    Asks,
    Breaks,
    Concludes,
    Raises,
    Refuses,
    Returns,
    ScriptedFailure,
    ScriptedRunner,
    ThoroughRunner,
    ToolUse,
)
from .simulated_world import PromiseBroken, SimulatedWorld

__all__ = [
    "EPOCH",
    "INVARIANTS",
    "NO_FAULTS",
    "ONE_FAULT",
    "Answers",
    "Asks",
    "Breaks",
    "Cancels",
    "Concludes",
    "Does",
    "Exploration",
    "Fault",
    "Faults",
    "Finding",
    "Invariant",
    "Life",
    "Odds",
    "OnItsOwnLoop",
    "PromiseBroken",
    "Raises",
    "Refuses",
    "Returns",
    "Says",
    "Scenario",
    "ScriptedFailure",
    "ScriptedRunner",
    "SimulatedWorld",
    "Steers",
    "ThoroughRunner",
    "ToolUse",
    "Withdraws",
    "explore",
    "replay",
    "simulate",
]
