"""How the ledger follows the world. It sees commits and starts, and judges nothing."""

from __future__ import annotations

from attrs import evolve

from ..calls import AwaitingApproval, Runnable
from ..decision import ClearTurn, InterruptResolved, PutToolCall, SetInterrupts, UserMessageQueued
from ..effects import Occurrence, UserSpoke
from ..ids import InterruptId
from ..records import AgentUserMessage
from .evaluation import Decided
from .world import Ledger


def name_of_message(message: AgentUserMessage) -> str:
    """What tells one sending from another."""
    return message.message_id or message.text


def after_start(ledger: Ledger, record: Runnable) -> Ledger:
    """``record``'s tool was started once more."""
    turn, call = record.turn_id, record.tool_call_id
    others = tuple(each for each in ledger.started if each[:2] != (turn, call))
    count = ledger.starts_of(turn, call) + 1
    return evolve(ledger, started=tuple(sorted((*others, (turn, call, count)))))


def after_commit(ledger: Ledger, on: Occurrence | None, decided: Decided) -> Ledger:
    """``decided`` was committed; ``on`` is what a Step decided on, None for an RPC or a wait."""
    said, taken, raised = ledger.said, ledger.taken, ledger.raised
    answered, started = ledger.answered, ledger.started
    if isinstance(on, UserSpoke):
        taken += 1
    for publish in decided.publishes:
        if isinstance(publish, UserMessageQueued):
            said = (*said, name_of_message(publish.message))
        elif isinstance(publish, InterruptResolved):
            answer = publish.resolution
            answered = tuple(sorted((*answered, (answer.interrupt_id, answer.approved))))
    for write in decided.writes:
        if isinstance(write, SetInterrupts):
            raised |= {each.interrupt_id for each in write.interrupts}
        elif isinstance(write, PutToolCall) and not isinstance(write.record, AwaitingApproval):
            asked = InterruptId.of(write.record.turn_id, write.record.tool_call_id)
            answered = tuple(each for each in answered if each[0] != asked)
        elif isinstance(write, ClearTurn):
            started = ()
    if (said, taken, raised, answered, started) == (
        ledger.said,
        ledger.taken,
        ledger.raised,
        ledger.answered,
        ledger.started,
    ):
        return ledger
    return Ledger(said, taken, raised, answered, started)
