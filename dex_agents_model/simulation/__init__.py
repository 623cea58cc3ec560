"""Simulate sessions: take one in hand, search every interleaving of a scenario, or live long random lives.

A simulated session runs the model's own table on records that went through the wire, with crashes,
redelivery, stale snapshots and a clock of its own. It touches no engine, no network and no disk::

    refund = ToolUse("c1", "refund", '{"order": 7}')
    runner = ScriptedRunner({"refund order 7": (Asks(refund), Concludes("Refunded."))})

    world = SimulatedWorld(runner, first_message="refund order 7")
    world.run()  # until it waits for people
    (question,) = world.snapshot().pending_interrupts
    world.resolve(question.interrupt_id, approved=True)
    world.run_until_tool_starts("c1")
    world.strike(Fault.CRASH_BEFORE_COMMIT, CallSingleAttemptTool)
    world.run()  # the tool does not start again, and the model is told that its outcome is unknown

`explore` and `simulate` hold every commit against `INVARIANTS`, or against checkers of your own.
"""

from .actions import AttemptFailed, Cause, Change, Committed, Does, Ran
from .evaluation import Attempt, Decided
from .explorer import Exploration, Finding, explore, replay
from .faults import NO_FAULTS, ONE_FAULT, Fault, Faults
from .invariants import INVARIANTS, Invariant
from .lives import Life, Odds, simulate
from .looped import OnItsOwnLoop
from .scenario import EPOCH, Act, Answers, Cancels, Says, Scenario, Steers, Withdraws
from .scripted import (
    Asks,
    Breaks,
    Concludes,
    GivesUp,
    ModelReply,
    Raises,
    Refuses,
    Returns,
    ScriptedFailure,
    ScriptedRunner,
    ThoroughRunner,
    ToolBehaviour,
    ToolUse,
)
from .simulated_world import PromiseBroken, SimulatedWorld
from .world import World

__all__ = [
    "EPOCH",
    "INVARIANTS",
    "NO_FAULTS",
    "ONE_FAULT",
    "Act",
    "Answers",
    "Asks",
    "Attempt",
    "AttemptFailed",
    "Breaks",
    "Cancels",
    "Cause",
    "Change",
    "Committed",
    "Concludes",
    "Decided",
    "Does",
    "Exploration",
    "Fault",
    "Faults",
    "Finding",
    "GivesUp",
    "Invariant",
    "Life",
    "ModelReply",
    "Odds",
    "OnItsOwnLoop",
    "PromiseBroken",
    "Raises",
    "Ran",
    "Refuses",
    "Returns",
    "Says",
    "Scenario",
    "ScriptedFailure",
    "ScriptedRunner",
    "SimulatedWorld",
    "Steers",
    "ThoroughRunner",
    "ToolBehaviour",
    "ToolUse",
    "Withdraws",
    "World",
    "explore",
    "replay",
    "simulate",
]
