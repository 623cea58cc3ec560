"""What a user sends beside text: it goes with the text, counts with it, and reaches the runner."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dex_agents_model.decision import (
    AppendUserMessage,
    Commit,
    GoTo,
    RpcDecision,
    SetInterrupts,
    SetState,
    SetUsage,
    SteeringQueued,
    StepDecision,
    UserMessageQueued,
)
from dex_agents_model.effects import CallModel, Entered, UserSpoke, UserSteered
from dex_agents_model.events import TurnEvent, TurnStarted
from dex_agents_model.ids import TurnId
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentMessage,
    AgentUsage,
    AgentUserMessage,
    FrameworkMessage,
    MessageRole,
    RunningModel,
    SteeringMessage,
    TakenSteering,
    WaitingForUserMessage,
)
from dex_agents_model.requests import (
    MAX_READ_BYTES,
    ListQueuedMessages,
    QueuedMessagesPage,
    SendUserMessage,
    SteerUserMessage,
)
from dex_agents_model.steps import AwaitUserMessage, RunModel, StartAgentSession, Step
from dex_agents_model.user_messages import content_refusal, user_message
from dex_agents_model.views import (
    PendingUserMessage,
    QueueingView,
    QueueView,
    SessionView,
    SteeringView,
    TurnView,
)

from .cases import Answers, Case, Reacts, claim_of
from .samples import IDLE, MESSAGES, TURN, view
from .test_runner import ScriptedRunner

EIGHT: Final = AgentSessionOptions(max_user_message_bytes=8)
PHOTO: Final = AgentUserMessage("look", "m-1", "<fo>")
BARE: Final = AgentUserMessage("", "m-1", "<photo>")
LONG: Final = AgentUserMessage("look", "m-1", "<\u00e9\u00e9>")
UNSTORABLE: Final = AgentUserMessage("look", "m-1", "\ud800")
UNCLEAN: Final = AgentUserMessage("a\x00", "", "\x00")
CLEAN: Final = AgentUserMessage("a\ufffd", "", "\x00")

SENT: Final[tuple[tuple[str, AgentUserMessage, AgentUserMessage | None], ...]] = (
    ("takes_what_lies_beside_the_text", PHOTO, PHOTO),
    ("takes_a_blank_text_with_something_beside_it", BARE, BARE),
    ("refuses_what_is_too_long_together", LONG, None),
    ("refuses_what_utf_8_cannot_hold_beside_the_text", UNSTORABLE, None),
    ("cleans_the_text_alone", UNCLEAN, CLEAN),
)


def named(message: AgentUserMessage) -> AgentUserMessage:
    """Without an ID, so that no ID is marked."""
    return AgentUserMessage(message.text, "", message.framework_content)


SENDS = tuple(
    Answers(
        f"queue_user_message__{claim}",
        SendUserMessage(named(sent)),
        view(QueueingView, options=EIGHT, taken_request_ids=()),
        RpcDecision(reply=False)
        if taken is None
        else RpcDecision(publishes=(UserMessageQueued(named(taken)),), reply=True),
    )
    for claim, sent, taken in SENT
)
STEERS = tuple(
    Answers(
        f"steer_user_message__{claim}",
        SteerUserMessage(SteeringMessage(named(sent))),
        view(SteeringView, options=EIGHT, state=IDLE, interrupts=(), taken_request_ids=()),
        RpcDecision(reply=False)
        if taken is None
        else RpcDecision(publishes=(SteeringQueued(SteeringMessage(named(taken))),), reply=True),
    )
    for claim, sent, taken in SENT
)


def begun(
    message: AgentUserMessage, turns: int, sequence: int, *writes: SetUsage | SetInterrupts
) -> StepDecision:
    """The turn after ``turns`` ones, with ``message`` at ``sequence``."""
    state = RunningModel(turn_count=turns + 1, message_count=sequence, model_calls=0)
    turn = TurnId.of(turns + 1)
    appended = AppendUserMessage(sequence, turn, message)
    return StepDecision(
        commit=Commit(
            writes=(SetState(state), *writes, appended),
            events=(TurnEvent(turn, TurnStarted(sequence, message.message_id)),),
        ),
        next=GoTo((RunModel(turn),)),
    )


EMPTY: Final = StepDecision(
    commit=Commit(writes=(SetState(WaitingForUserMessage()), SetUsage(AgentUsage()), SetInterrupts(()))),
    next=GoTo((AwaitUserMessage(),)),
)  # fmt: skip
STARTS = tuple(
    Reacts(
        f"start_session__{claim}",
        StartAgentSession(sent),
        view(SessionView, state=None, options=EIGHT),
        Entered(),
        EMPTY if taken is None else begun(taken, 0, 1, SetUsage(AgentUsage()), SetInterrupts(())),
    )
    for claim, sent, taken in SENT
)
BEGINNINGS: tuple[Case, ...] = (
    Reacts(
        "begin_turn__keeps_what_lies_beside_the_text",
        AwaitUserMessage(),
        view(SessionView, state=IDLE),
        UserSpoke(PHOTO),
        begun(PHOTO, 2, 4),
    ),
    Reacts(
        "begin_turn_with_steering__keeps_what_lies_beside_the_text",
        AwaitUserMessage(),
        view(SessionView, state=IDLE),
        UserSteered(SteeringMessage(PHOTO)),
        begun(PHOTO, 2, 4),
    ),
)
STEP: Final[Step] = RunModel(TURN)
CALLS: tuple[Case, ...] = (
    Reacts(
        "call_the_model__gives_what_lies_beside_the_text_of_steering",
        STEP,
        view(
            TurnView,
            state=RunningModel(2, 3, 1, 1),
            run_state="state",
            steering=(TakenSteering(1, PHOTO),),
        ),
        Entered(),
        CallModel(TURN, MESSAGES, "state", (), (PHOTO,)),
    ),
)

HALF: Final = AgentUserMessage("x", "m-1", "x" * (MAX_READ_BYTES // 2 - 1))
MORE: Final = AgentUserMessage("x", "m-1", "x" * (MAX_READ_BYTES // 2))


def listed(claim: str, queued: tuple[AgentUserMessage, ...], count: int) -> Answers:
    return Answers(
        f"list_queued_messages__{claim}",
        ListQueuedMessages(),
        view(QueueView, queued=tuple(PendingUserMessage("channel", m) for m in queued)),
        RpcDecision(
            reply=QueuedMessagesPage(messages=queued[:count], has_more=count < len(queued))
        ),
    )


QUEUES: tuple[Case, ...] = (
    listed("counts_what_lies_beside_the_text", (HALF, HALF, HALF), 2),
    listed("lists_not_one_byte_more_beside_the_text", (HALF, MORE), 1),
)

CASES: tuple[Case, ...] = (*SENDS, *STEERS, *STARTS, *BEGINNINGS, *CALLS, *QUEUES)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_user_content(case: Case) -> None:
    assert case.result() == case.then


# --- what the runner makes of it -------------------------------------------------------------


class SeeingRunner(ScriptedRunner):
    """A runner that reads what lies beside a text, unless it is nonsense."""

    def build_user_message_with_content(self, text: str, framework_content: str) -> Any:
        if framework_content == "nonsense":
            raise ValueError("it is nonsense")
        return FrameworkMessage(self.role, f"<{text}+{framework_content}>", text, None, None, 7)


UNREADABLE: Final = "[What the user sent beside this text was left out: the agent cannot read it.]"


@pytest.mark.parametrize(
    ("runner", "message", "item", "text", "tokens"),
    [
        (SeeingRunner(), PHOTO, "<look+<fo>>", "look", 7),
        (SeeingRunner(), AgentUserMessage("look", "m-1"), "<look>", "look", None),
        (
            SeeingRunner(),
            AgentUserMessage("look", "m-1", "nonsense"),
            *(f"<look\n{UNREADABLE}>", f"look\n{UNREADABLE}", None),
        ),
        (ScriptedRunner(), BARE, f"<{UNREADABLE}>", UNREADABLE, None),
    ],
    ids=["read", "text alone", "nonsense", "a runner of text"],
)
def test_user_message__is_built_with_what_the_runner_can_read(
    runner: ScriptedRunner, message: AgentUserMessage, item: str, text: str, tokens: int | None
) -> None:
    assert user_message(runner, sequence=4, turn=TURN, message=message) == AgentMessage(
        4, TURN, MessageRole.USER, item, text, message_id="m-1", estimated_tokens=tokens
    )


@pytest.mark.parametrize(
    ("runner", "content", "refusal"),
    [
        (SeeingRunner(), None, None),
        (SeeingRunner(), "<photo>", None),
        (SeeingRunner(), "nonsense", "it is nonsense"),
        (ScriptedRunner(), None, None),
        (
            *(ScriptedRunner(), "<photo>"),
            "the agent takes only text: its runner lacks build_user_message_with_content",
        ),
    ],
)
def test_content_refusal__says_why_the_runner_cannot_read_it(
    runner: ScriptedRunner, content: str | None, refusal: str | None
) -> None:
    assert content_refusal(runner, AgentUserMessage("look", "", content)) == refusal


@pytest.mark.parametrize(
    ("text", "content", "refusal"),
    [
        ("", "1234", None),
        ("é!", "1", None),
        ("é!", "12", "the message has 5 bytes; max_user_message_bytes is 4"),
        ("hi", "\udfff", "what lies beside the message's text is no text that UTF-8 can hold"),
    ],
)
def test_user_message_refusal__counts_what_lies_beside_the_text(
    text: str, content: str, refusal: str | None
) -> None:
    options = AgentSessionOptions(max_user_message_bytes=4)

    assert options.user_message_refusal(text, content) == refusal
