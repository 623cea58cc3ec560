"""What a session answers to those outside."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
from attrs import evolve

from dex_agents_model.calls import (
    AgentToolCall,
    AwaitingApproval,
    Failed,
    OutcomeUnknown,
    Rejected,
    Runnable,
    Succeeded,
)
from dex_agents_model.decision import (
    InterruptResolved,
    RpcDecision,
    SetInterrupts,
    SetTakenRequestIds,
    UserMessageQueued,
)
from dex_agents_model.ids import InterruptId, ToolCallId, TurnId
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentUsage,
    AgentUserMessage,
    MessageRole,
)
from dex_agents_model.requests import (
    MAX_READ_BYTES,
    AgentMessagesPage,
    AgentSnapshot,
    GetAgentSnapshot,
    ListAgentMessages,
    ResolveInterrupt,
    SendUserMessage,
)
from dex_agents_model.table import answer
from dex_agents_model.text import digest
from dex_agents_model.views import AnswerView, MessagesView, QueueView, SnapshotView

from .cases import Answers, Case, claim_of
from .samples import MESSAGES, NOW, SESSION, TURN, USING_TOOLS, call, view

REFUSED: Final[RpcDecision[bool]] = RpcDecision(reply=False)
ACCEPTED_BEFORE: Final[RpcDecision[bool]] = RpcDecision(reply=True)
SECOND: Final = timedelta(seconds=1)

# --- the queue -------------------------------------------------------------------------------

SMALL: Final = AgentSessionOptions(max_user_message_bytes=4)
FULL: Final = tuple(f"id-{number}" for number in range(256))


def queued(text: str, message_id: str = "", *taken: str) -> RpcDecision[bool]:
    """``taken`` is the new list of request IDs, when it is written."""
    return RpcDecision(
        writes=(SetTakenRequestIds(taken),) if taken else (),
        publishes=(UserMessageQueued(AgentUserMessage(text, message_id)),),
        reply=True,
    )


SENDS = tuple(
    Answers(
        f"queue_user_message__{claim}",
        SendUserMessage(AgentUserMessage(text, message_id)),
        view(QueueView, options=SMALL, taken_request_ids=taken),
        then,
    )
    for claim, text, message_id, taken, then in (
        ("queues_a_message_without_an_id", "hey", "", ("m-1",), queued("hey")),
        ("marks_the_id_of_a_message", "hey", "m-2", ("m-1",), queued("hey", "m-2", "m-1", "m-2")),
        ("takes_a_repeated_message_once", "hey", "m-1", ("m-1",), ACCEPTED_BEFORE),
        ("accepts_a_repeat_whatever_it_says", "too long", "m-1", ("m-1",), ACCEPTED_BEFORE),
        ("forgets_the_oldest_id", "hey", "m-2", FULL, queued("hey", "m-2", *FULL[1:], "m-2")),
        ("refuses_an_empty_message", "", "m-2", (), REFUSED),
        ("refuses_a_blank_message", " \n\t\u00a0", "m-2", (), REFUSED),
        ("takes_a_message_of_just_the_limit", "\U0001f600", "", (), queued("\U0001f600")),
        ("refuses_a_longer_message", "\u00e9\u00e9!", "m-2", (), REFUSED),
        ("cleans_a_message", "\x00\ud800", "", (), queued("\ufffd\ufffd")),
    )
)

# --- answers ---------------------------------------------------------------------------------

ASKED: Final = InterruptId("turn-2.a")
DIGEST: Final = digest("{}")
OTHER: Final = AgentInterrupt(
    InterruptId("turn-2.b"), TURN, ToolCallId("b"), "tool_b", "{}", DIGEST
)
QUESTION: Final = AgentInterrupt(ASKED, TURN, ToolCallId("a"), "tool_a", "{}", DIGEST)
DUE: Final = evolve(QUESTION, deadline=NOW)
APPROVAL: Final = ResolveInterrupt(ASKED, approved=True)


def resolved(
    *taken: str, approved: bool = True, rejection_message: str | None = None
) -> RpcDecision[bool]:
    """``taken`` is the new list of request IDs, when it is written."""
    return RpcDecision(
        writes=(SetInterrupts((OTHER,)), *((SetTakenRequestIds(taken),) if taken else ())),
        publishes=(
            InterruptResolved(AgentInterruptResolution(ASKED, approved, rejection_message)),
        ),
        reply=True,
    )


RESOLUTIONS = tuple(
    Answers(
        f"resolve_interrupt__{claim}",
        request,
        view(AnswerView, state=USING_TOOLS, interrupts=interrupts, taken_request_ids=taken),
        then,
        NOW + later,
    )
    for claim, request, interrupts, taken, later, then in (
        ("accepts_an_approval", APPROVAL, (QUESTION, OTHER), (), 0 * SECOND, resolved()),
        (
            "accepts_a_rejection",
            ResolveInterrupt(ASKED, False, "too much"),
            (OTHER, QUESTION),
            (),
            0 * SECOND,
            resolved(approved=False, rejection_message="too much"),
        ),
        (
            "drops_the_rejection_message_of_an_approval",
            evolve(APPROVAL, rejection_message="too much"),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            resolved(),
        ),
        ("accepts_before_the_deadline", APPROVAL, (DUE, OTHER), (), -SECOND, resolved()),
        ("refuses_at_the_deadline", APPROVAL, (DUE, OTHER), (), 0 * SECOND, REFUSED),
        ("refuses_after_the_deadline", APPROVAL, (DUE, OTHER), (), SECOND, REFUSED),
        ("refuses_what_nobody_asks", APPROVAL, (OTHER,), (), 0 * SECOND, REFUSED),
        (
            "accepts_the_digest_of_what_was_shown",
            evolve(APPROVAL, arguments_digest=DIGEST),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            resolved(),
        ),
        (
            "refuses_the_digest_of_other_arguments",
            evolve(APPROVAL, arguments_digest=digest("{ }")),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            REFUSED,
        ),
        (
            "refuses_an_empty_digest",
            evolve(APPROVAL, arguments_digest=""),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            REFUSED,
        ),
        (
            "marks_the_id_of_an_answer",
            evolve(APPROVAL, request_id="r-2"),
            (QUESTION, OTHER),
            ("r-1",),
            0 * SECOND,
            resolved("r-1", "r-2"),
        ),
        (
            "accepts_a_repeat_after_its_question_is_gone_and_its_deadline_past",
            evolve(APPROVAL, request_id="r-1"),
            (OTHER,),
            ("r-1",),
            SECOND,
            ACCEPTED_BEFORE,
        ),
    )
)

# --- reading ---------------------------------------------------------------------------------

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
    )


MANY: Final = messages(201)
HALVES: Final = messages(3, "x" * (MAX_READ_BYTES // 4), "y" * (MAX_READ_BYTES // 4))
HUGE: Final = messages(2, "x" * (MAX_READ_BYTES + 1))
SNAPSHOTS = (
    shows("shows_the_session", snapshot()),
    shows("has_no_state_before_the_start", snapshot(state=None), state=None),
    shows(
        "shows_questions_and_the_length_of_the_queue",
        snapshot(pending_interrupts=(DUE, OTHER), queued_message_count=7),
        interrupts=(DUE, OTHER),
        queued_message_count=7,
    ),
    shows(
        "shortens_the_texts_of_tool_calls",
        snapshot(tool_calls=calls_with(SHOWN)),
        tool_calls=calls_with(LONG),
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
        ("lists_one_message_however_large", 0, 200, HUGE, page(HUGE[0], has_more=True)),
    )
)  # fmt: skip

CASES: tuple[Case, ...] = (*SENDS, *RESOLUTIONS, *SNAPSHOTS, *LISTS)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_rpc(case: Case) -> None:
    assert case.result() == case.then


@pytest.mark.xfail(reason="a rejection message reaches its Channel as it came")
def test_resolve_interrupt__cleans_the_rejection_message() -> None:
    given = view(AnswerView, state=USING_TOOLS, interrupts=(QUESTION, OTHER))

    assert answer(ResolveInterrupt(ASKED, False, "\x00\ud800"), given, NOW) == resolved(
        approved=False, rejection_message="\ufffd\ufffd"
    )
