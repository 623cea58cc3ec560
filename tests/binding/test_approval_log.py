"""The log of decisions about tool calls: no session has decided so much that it cannot be read, or decide more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, cast

import pytest
import pytest_asyncio

from dex_agents_dex import Erasure
from dex_agents_dex.operations import EVENTS_LEFT, HISTORY_LEFT
from dex_agents_model import InterruptId, SessionId, ToolCallId, TurnId
from dex_agents_model.layout import approval_key
from dex_agents_model.records import ApprovalDecision, ApprovalRecord, WaitingForUserMessage
from dex_agents_model.wire import dump

from .conftest import Served
from .conversation import Conversation
from .script import Call, Reply
from .seeding import put_session, state_at

DECIDED: Final = 2_000
"""More than a frame holds, and than a page does."""
LOG: Final = tuple(
    ApprovalRecord(
        interrupt_id=InterruptId(f"turn-{number}.c"),
        turn_id=TurnId(f"turn-{number}"),
        tool_call_id=ToolCallId("c"),
        tool_name="pay",
        arguments_digest="sha256:0",
        decision=ApprovalDecision.APPROVED,
        decided_at=datetime(2030, 1, 2, tzinfo=UTC),
        resolved_by="a" * 1_000,
        reason="b" * 1_500,
    )
    for number in range(1, DECIDED + 1)
)


@pytest_asyncio.fixture
async def decided(conversation: Conversation, served: Served) -> Conversation:
    """A session at rest, with ``LOG``."""
    stored: dict[str, object] = {
        f"Approvals/{approval_key(number)}": dump(record, ApprovalRecord)
        for number, record in enumerate(LOG)
    }
    await put_session(
        served.server_address,
        conversation.session_id,
        state=WaitingForUserMessage(turn_count=DECIDED),
        stored={**stored, "ApprovalCount": DECIDED},
    )
    return conversation


async def log_of(conversation: Conversation) -> list[ApprovalRecord]:
    """All of it, page by page."""
    read: list[ApprovalRecord] = []
    while True:
        page = await conversation.sessions.list_approvals(conversation.session_id, after=len(read))
        read += page.approvals
        if not page.has_more:
            return read


async def test_log__that_no_frame_holds_is_read_and_goes_on(decided: Conversation) -> None:
    turn = DECIDED + 1
    calls = (Call(id="yes", tool="ask"), Call(id="no", tool="ask"))
    assert await decided.say(Reply(calls=calls), Reply(text="an answer"))
    yes, no = await decided.questions(2)
    assert await decided.answer(yes, approved=True, resolved_by="ada")
    await decided.questions(1)
    await decided.when("the first decision", lambda seen: seen.approval_count == turn)
    assert await decided.answer(no, approved=False, reason="not now")
    await decided.end_of_turn(turn)
    assert await decided.say(Reply(calls=calls))
    await decided.questions(2)
    assert await decided.sessions.cancel_turn(decided.session_id)
    snapshot = await decided.end_of_turn(turn + 1)

    log = await log_of(decided)

    assert log[:DECIDED] == list(LOG)
    assert [(each.turn_id.number, each.tool_call_id, each.decision) for each in log[DECIDED:]] == [
        (turn, "yes", ApprovalDecision.APPROVED),
        (turn, "no", ApprovalDecision.REJECTED),
        (turn + 1, "yes", ApprovalDecision.CANCELLED),
        (turn + 1, "no", ApprovalDecision.CANCELLED),
    ]
    assert snapshot.approval_count == len(log)


async def test_log__that_no_frame_holds_is_exported(decided: Conversation) -> None:
    exported = cast("dict[str, Any]", await decided.sessions.export_session(decided.session_id))

    assert exported["approvals"] == [dump(record, ApprovalRecord) for record in LOG]
    assert exported["unreadable"] == {}


@pytest.mark.usefixtures("another_server")
async def test_log__that_no_frame_holds_is_erased(decided: Conversation, served: Served) -> None:
    session_id = decided.session_id

    erasure = await decided.sessions.erase_session(session_id)

    assert erasure == Erasure(SessionId(session_id), left=(HISTORY_LEFT, EVENTS_LEFT))
    state = await state_at(served.server_address, session_id)
    assert [entry.key for entry in state.attributes] == []
