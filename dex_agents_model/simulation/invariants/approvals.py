"""Promises about approvals: who is asked, whose answer counts, and that a call runs as it was shown."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from ...calls import AwaitingApproval, Rejected, RequestedToolCall, Runnable
from ...decision import ClearTurn, InterruptResolved, PutToolCall, RecordApproval
from ...effects import DeadlineReached, InterruptAnswered, Occurrence
from ...records import AgentInterruptResolution, ApprovalDecision, ApprovalRecord
from ...requests import ResolveInterrupt
from ...text import digest
from ..actions import Change, Committed
from ..channels import INTERRUPT_RESOLUTIONS, answers_to
from ..scenario import since_epoch_ms
from ..stored import approvals_in, cancelled_turn_in, interrupts_in, tool_calls_in
from ..world import World
from .checker import Invariant


def questions_mirror_the_calls_that_wait(change: Change) -> Iterator[str]:
    """Each call that awaits approval has its question in the list or its answer on the way, never both.

    A cancelled turn asks nothing any more.
    """
    if change.commit() is None:
        return
    world = change.after
    cancelled = cancelled_turn_in(world.records)
    listed = [each.interrupt_id for each in interrupts_in(world.records)]
    waiting = {
        record.interrupt_id
        for record in tool_calls_in(world.records)
        if isinstance(record, AwaitingApproval) and record.turn_id != cancelled
    }
    for interrupt_id in listed:
        if listed.count(interrupt_id) > 1 or interrupt_id not in waiting:
            yield f"the question {interrupt_id} is asked about no call that awaits approval"
    on_the_way = _answers_on_the_way(world)
    for interrupt_id in sorted(waiting):
        if (interrupt_id in listed) == (interrupt_id in on_the_way):
            both = interrupt_id in listed
            yield f"{interrupt_id} has {'both a question and' if both else 'neither a question nor'} an answer"


def approval_comes_before_running(change: Change) -> Iterator[str]:
    """A call that needs approval becomes runnable by an accepted approval alone, as it was shown or edited."""
    cause = change.commit(PutToolCall)
    if cause is None:
        return
    before = {each.tool_call_id: each for each in tool_calls_in(change.before.records)}
    for write in cause.decided.writes:
        if not isinstance(write, PutToolCall) or not isinstance(write.record, Runnable):
            continue
        record = write.record
        known = before.get(record.tool_call_id)
        if known is None and record.call.requires_approval:
            yield f"{record.tool_call_id} needs approval and is runnable from the start"
        elif isinstance(known, AwaitingApproval):
            if (known.interrupt_id, True) not in change.before.ledger.answered:
                yield f"{record.tool_call_id} becomes runnable, and nobody approved it"
            if record.call != _as_answered(known, cause.on):
                yield f"{record.tool_call_id} becomes runnable as another call than the one approved"


def each_decision_is_kept_once(change: Change) -> Iterator[str]:
    """A call that stops waiting for approval leaves one record of who decided what."""
    cause = change.commit(PutToolCall, ClearTurn, RecordApproval)
    if cause is None:
        return
    writes = [write for write in cause.decided.writes if isinstance(write, RecordApproval)]
    kept = [write.record for write in writes]
    known = {each.interrupt_id for each in approvals_in(change.before.records)}
    for number, write in enumerate(writes, len(known)):
        if write.record.interrupt_id in known:
            yield f"{write.record.interrupt_id} is decided twice"
        if write.number != number:
            yield f"decision {number} of the session is kept as number {write.number}"
    after = {each.tool_call_id: each for each in tool_calls_in(change.after.records)}
    for record in tool_calls_in(change.before.records):
        if not isinstance(record, AwaitingApproval):
            continue
        still_waits = isinstance(after.get(record.tool_call_id), AwaitingApproval)
        times = [each.interrupt_id for each in kept].count(record.interrupt_id)
        if times != (not still_waits):
            yield f"{record.interrupt_id} leaves {times} records of how it was decided"


def each_decision_says_how_it_was_made(change: Change) -> Iterator[str]:
    """The record of a decision has the answer that made it, who gave it and why, or says that there was none."""
    cause = change.commit(RecordApproval)
    if cause is None:
        return
    asked = {
        each.interrupt_id: each
        for each in tool_calls_in(change.before.records)
        if isinstance(each, AwaitingApproval)
    }
    for write in cause.decided.writes:
        if not isinstance(write, RecordApproval) or write.record.interrupt_id not in asked:
            continue
        kept, record = write.record, asked[write.record.interrupt_id]
        answer = _answer_to(kept.interrupt_id, cause, change.before)
        decision = _decision(answer, cause)
        if kept.decision is not decision:
            yield f"{kept.interrupt_id} is kept as {kept.decision}, and was {decision}"
        if kept.arguments_digest != digest(record.arguments):
            yield f"the decision about {kept.interrupt_id} names other arguments than were shown"
        if answer is not None and _made(kept) != _given(answer):
            yield f"{kept.interrupt_id} is kept as made by {_made(kept)}, and was by {_given(answer)}"


def accepted_answers_are_applied(change: Change) -> Iterator[str]:
    """An answer that was accepted decides its call, whatever Timer fires; each question has one answer."""
    cause = change.commit(PutToolCall, InterruptResolved)
    if cause is None:
        return
    answered = dict(change.before.ledger.answered)
    for publish in cause.decided.publishes:
        if isinstance(publish, InterruptResolved):
            interrupt_id = publish.resolution.interrupt_id
            asked = [each.interrupt_id for each in interrupts_in(change.before.records)]
            if interrupt_id in answered or interrupt_id not in asked:
                yield f"an answer to {interrupt_id} is accepted, and the question did not wait"
    for write in cause.decided.writes:
        if not isinstance(write, PutToolCall) or isinstance(write.record, AwaitingApproval):
            continue
        record = write.record
        accepted = answered.get(f"{record.turn_id}.{record.tool_call_id}")
        was_expired = isinstance(record, Rejected) and record.expired
        if accepted is not None and (was_expired or accepted is isinstance(record, Rejected)):
            decision = "approved" if accepted else "rejected"
            yield f"{record.tool_call_id} was {decision}, and becomes {record.status}"


def late_answers_are_refused(tolerance_ms: int = 1000) -> Invariant:
    """A checker: no answer is accepted at or after its deadline, but for the skew of a Worker's clock."""

    def late_answers_are_refused(change: Change) -> Iterator[str]:
        cause = change.commit(InterruptResolved)
        if cause is None or not isinstance(cause.by, ResolveInterrupt):
            return
        for asked in interrupts_in(change.before.records):
            if asked.interrupt_id != cause.by.interrupt_id or asked.deadline is None:
                continue
            late_ms = cause.at_ms - since_epoch_ms(asked.deadline)
            if late_ms >= tolerance_ms:
                yield f"an answer is accepted {late_ms} ms after the deadline of {asked.interrupt_id}"

    return late_answers_are_refused


def timely_answers_are_accepted(tolerance_ms: int = 1000) -> Invariant:
    """A checker: a plain answer before the deadline counts while its question waits, but for a Worker's clock."""

    def timely_answers_are_accepted(change: Change) -> Iterator[str]:
        cause = change.commit()
        if cause is None or not isinstance(cause.by, ResolveInterrupt) or cause.decided.reply:
            return
        is_plain = cause.by.arguments_digest is None and cause.by.edited_arguments is None
        for asked in interrupts_in(change.before.records):
            if asked.interrupt_id != cause.by.interrupt_id or not is_plain:
                continue
            if asked.deadline is None:
                yield f"an answer to {asked.interrupt_id} is refused, and it has no deadline"
            elif (early_ms := since_epoch_ms(asked.deadline) - cause.at_ms) > tolerance_ms:
                yield f"an answer is refused {early_ms} ms before the deadline of {asked.interrupt_id}"

    return timely_answers_are_accepted


def _answer_to(
    interrupt_id: str, cause: Committed, before: World
) -> AgentInterruptResolution | None:
    """The answer that a decision is made by: the one that its Step took or, at a cancel, one that nobody took."""
    if isinstance(cause.on, InterruptAnswered):
        return cause.on.resolution
    return next(iter(answers_to(before.channels, interrupt_id)), None)


def _decision(answer: AgentInterruptResolution | None, cause: Committed) -> ApprovalDecision:
    if answer is None:
        expired = isinstance(cause.on, DeadlineReached)
        return ApprovalDecision.EXPIRED if expired else ApprovalDecision.CANCELLED
    if answer.superseded:
        return ApprovalDecision.SUPERSEDED
    return ApprovalDecision.APPROVED if answer.approved else ApprovalDecision.REJECTED


def _made(kept: ApprovalRecord) -> tuple[object, ...]:
    return kept.decided_at, kept.resolved_by, kept.reason, kept.edited_arguments_digest


def _given(answer: AgentInterruptResolution) -> tuple[object, ...]:
    edited = answer.edited_arguments
    edit = None if edited is None else digest(edited)
    return answer.resolved_at, answer.resolved_by, answer.reason, edit


def _answers_on_the_way(world: World) -> list[str]:
    prefix = INTERRUPT_RESOLUTIONS
    sent = [name.removeprefix(prefix) for name, _ in world.channels if name.startswith(prefix)]
    taken = [
        each.on.resolution.interrupt_id
        for each in world.executions
        if isinstance(each.on, InterruptAnswered)
    ]
    return sent + taken


def _as_answered(known: AwaitingApproval, on: Occurrence | None) -> RequestedToolCall:
    edited = on.resolution.edited_arguments if isinstance(on, InterruptAnswered) else None
    if edited is None:
        return known.call
    return evolve(known.call, arguments=edited, arguments_edited=True)
