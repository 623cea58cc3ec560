"""How a user's message gets into the queue, past it, and out of it again."""

from __future__ import annotations

from typing import Final

import pytest

from dex_agents_model.decision import (
    InterruptResolved,
    RpcDecision,
    SetInterrupts,
    SetTakenRequestIds,
    SteeringQueued,
    UserMessageQueued,
    WithdrawQueued,
)
from dex_agents_model.ids import InterruptId, ToolCallId
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentUserMessage,
    SteeringMessage,
)
from dex_agents_model.requests import (
    MAX_QUEUED_BYTES,
    MAX_STEERING_BYTES,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
)
from dex_agents_model.views import (
    PendingSteering,
    PendingUserMessage,
    QueueingView,
    SteeringView,
)

from .cases import Answers, Case, claim_of
from .samples import CALLING, IDLE, NOW, TURN, USING_TOOLS, view

REFUSED: Final[RpcDecision[bool]] = RpcDecision(reply=False)
ACCEPTED_BEFORE: Final[RpcDecision[bool]] = RpcDecision(reply=True)
SMALL: Final = AgentSessionOptions(max_user_message_bytes=4)
FULL: Final = tuple(f"id-{number}" for number in range(64))


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
        view(QueueingView, options=SMALL, taken_request_ids=taken),
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
        ("cleans_a_message", "\ud800", "", (), queued("\ufffd")),
        ("measures_a_message_as_it_is_stored", "\x00\ud800", "", (), REFUSED),
    )
)

SUPERSEDED: Final = "The tool call was not run: it was superseded by a new user message."
QUESTIONS: Final = tuple(
    AgentInterrupt(InterruptId(f"turn-2.{name}"), TURN, ToolCallId(name), "tool", "{}", "sha256:0")
    for name in ("a", "b")
)


def steered(
    text: str,
    message_id: str = "",
    *taken: str,
    rejects: bool = True,
    answered: tuple[AgentInterrupt, ...] = (),
) -> RpcDecision[bool]:
    """``taken`` is the new list of request IDs, when it is written."""
    return RpcDecision(
        writes=(
            *((SetInterrupts(()),) if answered else ()),
            *((SetTakenRequestIds(taken),) if taken else ()),
        ),
        publishes=(
            SteeringQueued(SteeringMessage(AgentUserMessage(text, message_id), rejects)),
            *(
                InterruptResolved(
                    AgentInterruptResolution(
                        question.interrupt_id, False, NOW, SUPERSEDED, superseded=True
                    )
                )
                for question in answered
            ),
        ),
        reply=True,
    )


STEERS = tuple(
    Answers(
        f"steer_user_message__{claim}",
        SteerUserMessage(SteeringMessage(AgentUserMessage(text, message_id), rejects)),
        view(SteeringView, options=SMALL, state=state, interrupts=asked, taken_request_ids=("m-1",)),
        then,
    )
    for claim, state, asked, text, message_id, rejects, then in (
        ("is_taken_while_tools_run", USING_TOOLS, (), "hey", "", True, steered("hey")),
        ("is_taken_while_the_model_runs", CALLING, (), "hey", "", True, steered("hey")),
        ("is_taken_between_turns", IDLE, (), "hey", "", True, steered("hey")),
        ("marks_its_id", IDLE, (), "hey", "m-2", True, steered("hey", "m-2", "m-1", "m-2")),
        ("answers_what_waits_for_a_person", USING_TOOLS, QUESTIONS, "hey", "m-2", True,
         steered("hey", "m-2", "m-1", "m-2", answered=QUESTIONS)),
        ("leaves_the_questions_when_told_to", USING_TOOLS, QUESTIONS, "hey", "", False, steered("hey", rejects=False)),
        ("takes_a_repeated_message_once", USING_TOOLS, QUESTIONS, "hey", "m-1", True, ACCEPTED_BEFORE),
        ("refuses_a_blank_message_and_answers_nothing", USING_TOOLS, QUESTIONS, " \n", "m-2", True, REFUSED),
        ("takes_a_message_of_just_the_limit", IDLE, (), "1234", "", True, steered("1234")),
        ("refuses_a_longer_message_and_answers_nothing", USING_TOOLS, QUESTIONS, "12345", "m-2", True, REFUSED),
        ("cleans_a_message", IDLE, (), "\ud800", "", True, steered("\ufffd")),
    )
)  # fmt: skip

ONE_BYTE: Final[dict[type[object], PendingUserMessage | PendingSteering]] = {
    QueueingView: PendingUserMessage("d", AgentUserMessage("z")),
    SteeringView: PendingSteering("d", SteeringMessage(AgentUserMessage("z"))),
}
QUEUED: Final = tuple(
    PendingUserMessage(f"channel-{number}", AgentUserMessage("hey", message_id))
    for number, message_id in enumerate(("", "m-1", "m-2"))
)
WITHDRAWALS = tuple(
    Answers(
        f"withdraw_user_message__{claim}",
        WithdrawUserMessage(message_id, request_id),
        view(QueueingView, queued=queued, taken_request_ids=("w-1",)),
        then,
    )
    for claim, message_id, request_id, queued, then in (
        ("takes_a_waiting_message_out", "m-2", "", QUEUED,
         RpcDecision(writes=(WithdrawQueued("channel-2"),), reply=True)),
        ("marks_its_id", "m-2", "w-2", QUEUED,
         RpcDecision(writes=(WithdrawQueued("channel-2"), SetTakenRequestIds(("w-1", "w-2"))), reply=True)),
        ("tells_a_repeat_that_it_was_done", "m-2", "w-1", QUEUED[:2], ACCEPTED_BEFORE),
        ("refuses_one_that_is_not_there_any_more", "m-2", "w-2", QUEUED[:2], REFUSED),
        ("refuses_to_take_out_what_has_no_name", "", "", QUEUED, REFUSED),
    )
)  # fmt: skip

HALF_KIB: Final = AgentUserMessage("x" * 256, framework_content="y" * 256)
ROOM: Final = tuple(
    Answers(f"{rule}__{claim}", request, view(kind, **{waiting: (*full, *more)}), then)
    for rule, request, kind, waiting, full, then_taken in (
        (
            "queue_user_message",
            SendUserMessage(HALF_KIB),
            QueueingView,
            "queued",
            (PendingUserMessage("c", AgentUserMessage("x" * (MAX_QUEUED_BYTES - 512))),),
            RpcDecision(publishes=(UserMessageQueued(HALF_KIB),), reply=True),
        ),
        (
            "steer_user_message",
            SteerUserMessage(SteeringMessage(HALF_KIB)),
            SteeringView,
            "pending_steering",
            (
                PendingSteering(
                    "c", SteeringMessage(AgentUserMessage("x" * (MAX_STEERING_BYTES - 512)))
                ),
            ),
            RpcDecision(publishes=(SteeringQueued(SteeringMessage(HALF_KIB)),), reply=True),
        ),
    )
    for claim, more, then in (
        ("takes_what_there_is_just_room_for", (), then_taken),
        ("refuses_what_there_is_no_room_for", (ONE_BYTE[kind],), REFUSED),
    )
)

CASES: tuple[Case, ...] = (*SENDS, *STEERS, *WITHDRAWALS, *ROOM)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_queue(case: Case) -> None:
    assert case.result() == case.then
