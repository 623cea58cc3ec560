"""What a session shows to those outside, in bounds."""

from __future__ import annotations

from typing import Any, Final

import pytest
from attrs import evolve

from dex_agents_model.calls import (
    AgentToolCall,
    AwaitingApproval,
    Cancelled,
    Failed,
    OutcomeUnknown,
    Rejected,
    Runnable,
    Succeeded,
)
from dex_agents_model.decision import RpcDecision
from dex_agents_model.ids import InterruptId, ToolCallId, TurnId
from dex_agents_model.records import (
    AgentInterrupt,
    AgentMessage,
    AgentUsage,
    AgentUserMessage,
    ApprovalDecision,
    ApprovalRecord,
    MessageRole,
)
from dex_agents_model.requests import (
    MAX_READ_BYTES,
    AgentMessagesPage,
    AgentSnapshot,
    ApprovalsPage,
    GetAgentSnapshot,
    ListAgentMessages,
    ListApprovals,
    ListQueuedMessages,
    QueuedMessagesPage,
)
from dex_agents_model.views import (
    ApprovalsView,
    MessagesView,
    PendingUserMessage,
    QueueView,
    SnapshotView,
)

from .cases import Answers, Case, claim_of
from .samples import DECIDED_BEFORE, MESSAGES, NOW, SESSION, TURN, USING_TOOLS, call, view

ASKED: Final = InterruptId("turn-2.a")
QUESTION: Final = AgentInterrupt(ASKED, TURN, ToolCallId("a"), "tool_a", "{}", "sha256:0", NOW)

LONG: Final = "x" * 2049
SHOWN: Final = "x" * 2048 + "... [2049 bytes in full]"


def messages(count: int, item: str = "<>", text: str | None = None) -> tuple[AgentMessage, ...]:
    return tuple(
        AgentMessage(sequence, TurnId("turn-1"), MessageRole.USER, item, text)
        for sequence in range(1, count + 1)
    )


def snapshot(**changes: Any) -> RpcDecision[AgentSnapshot]:
    shown = AgentSnapshot(
        session_id=SESSION,
        observed_at=NOW,
        state=USING_TOOLS,
        messages=MESSAGES,
        has_earlier_messages=False,
        pending_interrupts=(),
        tool_calls=(),
        usage=AgentUsage(requests=3, input_tokens=30, output_tokens=3),
        queued_message_count=0,
        approval_count=DECIDED_BEFORE,
    )
    return RpcDecision(reply=evolve(shown, **changes))


def shows(claim: str, then: RpcDecision[AgentSnapshot], **changes: object) -> Answers:
    given = view(SnapshotView, **{"state": USING_TOOLS, **changes})
    return Answers(f"show_session__{claim}", GetAgentSnapshot(), given, then)


def calls_with(text: str) -> tuple[AgentToolCall, ...]:
    """One record of each status; each of its texts is ``text``."""
    requested = call(arguments=text)
    return (
        AwaitingApproval(requested),
        Runnable(requested),
        Succeeded(requested, text),
        Rejected(requested, text),
        Failed(requested, text),
        OutcomeUnknown(requested, text),
        Cancelled(requested),
    )


MANY: Final = messages(201)
HALVES: Final = messages(3, "x" * (MAX_READ_BYTES // 4), "y" * (MAX_READ_BYTES // 4))
ALL_OF_IT: Final = messages(2, "x" * (MAX_READ_BYTES // 2))
ONE_BYTE_MORE: Final = (ALL_OF_IT[0], evolve(ALL_OF_IT[1], text="y"))
HUGE: Final = messages(2, "x" * (MAX_READ_BYTES + 1))
SNAPSHOTS = (
    shows("shows_the_session", snapshot()),
    shows("has_no_state_before_the_start", snapshot(state=None), state=None),
    shows(
        "shows_questions_and_the_length_of_the_queue",
        snapshot(pending_interrupts=(QUESTION,), queued_message_count=7),
        interrupts=(QUESTION,),
        queued_message_count=7,
    ),
    shows(
        "shortens_the_texts_of_tool_calls",
        snapshot(tool_calls=calls_with(SHOWN)),
        tool_calls=calls_with(LONG),
    ),
    shows(
        "leaves_out_what_a_tool_returned_beside_text",
        snapshot(tool_calls=(Succeeded(call(), "found"),)),
        tool_calls=(Succeeded(call(), "found", framework_content="<image>"),),
    ),
    shows("shows_up_to_200_messages", snapshot(messages=MANY[:200]), messages=MANY[:200]),
    shows(
        "shows_the_newest_of_more",
        snapshot(messages=MANY[1:], has_earlier_messages=True),
        messages=MANY,
    ),
    shows(
        "shows_the_newest_2_mebibytes",
        snapshot(messages=HALVES[1:], has_earlier_messages=True),
        messages=HALVES,
    ),
    shows(
        "shows_one_message_however_large",
        snapshot(messages=HUGE[1:], has_earlier_messages=True),
        messages=HUGE,
    ),
)


def page(*listed: AgentMessage, has_more: bool = False) -> RpcDecision[AgentMessagesPage]:
    return RpcDecision(reply=AgentMessagesPage(messages=listed, has_more=has_more))


LISTS = tuple(
    Answers(
        f"list_messages__{claim}", ListAgentMessages(after, limit), view(MessagesView, messages=stored), then
    )
    for claim, after, limit, stored, then in (
        ("lists_all_of_a_short_session", 0, 200, MESSAGES, page(*MESSAGES)),
        ("lists_what_is_behind_a_sequence", 1, 200, MESSAGES, page(*MESSAGES[1:])),
        ("lists_nothing_behind_the_last", 3, 200, MESSAGES, page()),
        ("lists_the_oldest_first", 0, 2, MESSAGES, page(*MESSAGES[:2], has_more=True)),
        ("lists_one_for_a_limit_of_nothing", 0, 0, MESSAGES, page(MESSAGES[0], has_more=True)),
        ("lists_at_most_200", 0, 1000, MANY, page(*MANY[:200], has_more=True)),
        ("lists_at_most_2_mebibytes", 0, 200, HALVES, page(*HALVES[:2], has_more=True)),
        ("lists_just_2_mebibytes", 0, 200, ALL_OF_IT, page(*ALL_OF_IT)),
        ("lists_not_one_byte_more", 0, 200, ONE_BYTE_MORE, page(ONE_BYTE_MORE[0], has_more=True)),
        ("lists_one_message_however_large", 0, 200, HUGE, page(HUGE[0], has_more=True)),
    )
)  # fmt: skip


def waiting(count: int, text: str = "hello") -> tuple[AgentUserMessage, ...]:
    return tuple(AgentUserMessage(text, f"message-{number}") for number in range(count))


def queue(*listed: AgentUserMessage, has_more: bool = False) -> RpcDecision[QueuedMessagesPage]:
    return RpcDecision(reply=QueuedMessagesPage(messages=listed, has_more=has_more))


MIB: Final = waiting(3, "x" * (MAX_READ_BYTES // 2))
JUST_TOO_MUCH: Final = (*MIB[:1], AgentUserMessage(MIB[1].text + "x", "message-1"))
TOO_LONG: Final = waiting(2, "x" * (MAX_READ_BYTES + 1))
QUEUES = tuple(
    Answers(
        f"list_queued_messages__{claim}",
        ListQueuedMessages(),
        view(QueueView, queued=tuple(PendingUserMessage("channel", m) for m in queued)),
        then,
    )
    for claim, queued, then in (
        ("lists_an_empty_queue", (), queue()),
        ("lists_the_oldest_first", waiting(3), queue(*waiting(3))),
        ("lists_at_most_2_mebibytes", MIB, queue(*MIB[:2], has_more=True)),
        ("lists_not_one_byte_more", JUST_TOO_MUCH, queue(JUST_TOO_MUCH[0], has_more=True)),
        ("lists_one_message_however_large", TOO_LONG, queue(TOO_LONG[0], has_more=True)),
    )
)

DECISIONS: Final = tuple(
    ApprovalRecord(ASKED, TURN, ToolCallId("a"), f"tool_{n}", "sha256:0", ApprovalDecision.APPROVED, NOW)
    for n in range(501)
)  # fmt: skip

WORDY: Final = (
    evolve(DECISIONS[0], reason="w" * 2**20),
    evolve(DECISIONS[1], reason="w" * (2**20 - 2 * len(f"{ASKED}tool_0"))),
    DECISIONS[2],
)
TOO_WORDY: Final = evolve(DECISIONS[0], reason="w" * 2**22)


def decisions(*listed: ApprovalRecord, has_more: bool = False) -> RpcDecision[ApprovalsPage]:
    return RpcDecision(reply=ApprovalsPage(approvals=listed, has_more=has_more))


APPROVALS = tuple(
    Answers(
        f"list_approvals__{claim}",
        ListApprovals(after),
        view(ApprovalsView, approvals=stored, first=first),
        then,
    )
    for claim, after, first, stored, then in (
        ("lists_nothing_where_nothing_was_decided", 0, 0, (), decisions()),
        ("lists_the_oldest_first", 0, 0, DECISIONS[:2], decisions(*DECISIONS[:2])),
        ("lists_what_is_behind_a_number", 1, 0, DECISIONS[:2], decisions(DECISIONS[1])),
        ("lists_what_is_behind_a_number_of_those_that_were_read", 8, 7, DECISIONS[:2], decisions(DECISIONS[1])),
        ("lists_from_the_start_for_a_negative_number", -1, 0, DECISIONS[:2], decisions(*DECISIONS[:2])),
        ("lists_at_most_500", 0, 0, DECISIONS, decisions(*DECISIONS[:500], has_more=True)),
        ("lists_the_rest", 500, 0, DECISIONS, decisions(DECISIONS[500])),
        ("lists_at_most_2_mebibytes", 0, 0, WORDY, decisions(*WORDY[:2], has_more=True)),
        ("lists_one_decision_however_large", 0, 0, (TOO_WORDY, *WORDY), decisions(TOO_WORDY, has_more=True)),
    )
)  # fmt: skip

CASES: tuple[Case, ...] = (*SNAPSHOTS, *LISTS, *QUEUES, *APPROVALS)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_reading(case: Case) -> None:
    assert case.result() == case.then
