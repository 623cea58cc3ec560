"""How the ledger follows the world. It sees commits and starts, and judges nothing."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from ..calls import AwaitingApproval, Runnable
from ..decision import (
    ClearTurn,
    InterruptResolved,
    Publish,
    PutToolCall,
    SetCancelledTurn,
    SetInterrupts,
    SteeringQueued,
    TakeSteering,
    UserMessageQueued,
    WithdrawQueued,
    Write,
)
from ..effects import Occurrence, ToolCallsRequested, UserSpoke, UserSteered
from ..ids import InterruptId
from ..policy import EFFECT_RULES
from ..records import AgentUserMessage
from ..requests import Reply, Request
from .channels import user_message_of
from .evaluation import Decided
from .world import Ledger, Started


def name_of_message(message: AgentUserMessage) -> str:
    """What tells one sending from another."""
    return message.message_id or message.text


def after_start(ledger: Ledger, record: Runnable) -> Ledger:
    """``record``'s tool was started once more. Of one that may start again it is enough to know that it was."""
    turn, call = record.turn_id, record.tool_call_id
    others = tuple(each for each in ledger.started if each[:2] != (turn, call))
    is_single = EFFECT_RULES[record.effect].is_single_attempt
    times = ledger.starts_of(turn, call) + 1 if is_single else 1
    started = Started(turn, call, times, is_single)
    return evolve(ledger, started=tuple(sorted((*others, started))))


def after_commit(ledger: Ledger, on: Occurrence | None, decided: Decided) -> Ledger:
    """``decided`` was committed; ``on`` is what a Step decided on, None for an RPC or a wait."""
    match on:
        case UserSpoke(message):
            ledger = evolve(ledger, queued=_less(ledger.queued, name_of_message(message)))
        case UserSteered(steering):
            name = name_of_message(steering.message)
            ledger = evolve(ledger, steering=_less(ledger.steering, name))
        case ToolCallsRequested():
            ledger = evolve(ledger, unheard=())
        case _:
            pass
    for publish in decided.publishes:
        ledger = _after_publish(ledger, publish)
    for write in decided.writes:
        ledger = _after_write(ledger, write)
    return ledger


def after_reply(ledger: Ledger, request: Request, reply: Reply | None) -> Ledger:
    """``request`` was answered; one that is repeated from now on is known by its ID."""
    request_id: str = getattr(request, "request_id", "")
    if not request_id or reply is not True or request_id in ledger.accepted:
        return ledger
    return evolve(ledger, accepted=ledger.accepted | {request_id})


def _after_publish(ledger: Ledger, publish: Publish) -> Ledger:
    match publish:
        case UserMessageQueued(message):
            name = name_of_message(message)
            accepted = ledger.accepted | {name}
            return evolve(ledger, accepted=accepted, queued=(*ledger.queued, name))
        case SteeringQueued(steering):
            name = name_of_message(steering.message)
            accepted = ledger.accepted | {name}
            return evolve(ledger, accepted=accepted, steering=(*ledger.steering, name))
        case InterruptResolved(answer):
            answered = (*ledger.answered, (answer.interrupt_id, answer.approved))
            return evolve(ledger, answered=tuple(sorted(answered)))
        case _:
            return ledger


def _after_write(ledger: Ledger, write: Write) -> Ledger:
    match write:
        case SetInterrupts(interrupts):
            raised = ledger.raised.union(each.interrupt_id for each in interrupts)
            return evolve(ledger, raised=raised)
        case PutToolCall(record) if not isinstance(record, AwaitingApproval):
            asked = InterruptId.of(record.turn_id, record.tool_call_id)
            answered = tuple(each for each in ledger.answered if each[0] != asked)
            return ledger if answered == ledger.answered else evolve(ledger, answered=answered)
        case TakeSteering(taken=taken):
            left, names = ledger.steering, [name_of_message(each.message) for each in taken]
            for name in names:
                left = _less(left, name)
            return evolve(
                ledger,
                steering=left,
                heard=(*ledger.heard, *(each.message.text for each in taken)),
                unheard=(*ledger.unheard, *sorted(names, key=_place_in(ledger.steering))),
            )
        case WithdrawQueued(text):
            name = name_of_message(user_message_of(text))
            return evolve(ledger, queued=_less(ledger.queued, name))
        case SetCancelledTurn(turn):
            of_turn = f"{turn}."
            answered = tuple(each for each in ledger.answered if not each[0].startswith(of_turn))
            return evolve(ledger, answered=answered)
        case ClearTurn():
            single = tuple(each for each in ledger.started if each.is_single)
            return evolve(ledger, started=single, heard=(), unheard=())
        case _:
            return ledger


def _place_in(names: tuple[str, ...]) -> Callable[[str], int]:
    """A key that sorts as ``names`` are; what is not among them goes last."""
    return lambda name: names.index(name) if name in names else len(names)


def _less(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """``names`` without its first ``name``."""
    if name not in names:
        return names
    at = names.index(name)
    return (*names[:at], *names[at + 1 :])
