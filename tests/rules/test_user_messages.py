"""What a user said is stored in the runner's form, or as it was said; either way a session goes on."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define

from dex_agents_model.effects import CallModel, Effect, HistorySummarized, Summarize, TurnCompleted
from dex_agents_model.errors import ContractBroken
from dex_agents_model.ids import TurnId
from dex_agents_model.notes import build_turn_failure_note
from dex_agents_model.performing import perform
from dex_agents_model.records import AgentMessage, AgentUserMessage, FrameworkMessage, MessageRole
from dex_agents_model.runner import AgentTurnContext, RunnerFailed, SummaryRequest
from dex_agents_model.user_messages import user_message

from .samples import TURN
from .test_runner import ENDED, HELLO, KEPT, SummarisingRunner, where

EARLIER = TurnId("turn-1")
USER = MessageRole.USER
NOTE = build_turn_failure_note((ENDED,))


@define
class Builder(SummarisingRunner):
    """A runner that builds what it is told, or raises it; ``told`` is what it gives the model."""

    built: FrameworkMessage | Exception | None = None

    def build_user_message(self, text: str) -> FrameworkMessage:
        if isinstance(self.built, Exception):
            raise self.built
        return self.built or FrameworkMessage(USER, f"<{text}>", text)

    @property
    def told(self) -> tuple[AgentMessage, ...]:
        (given,) = self.log
        assert isinstance(given, AgentTurnContext | SummaryRequest)
        return given.messages


def unbuilt(
    text: str | None, *, sequence: int = 1, of_this_turn: bool = False, content: str = ""
) -> AgentMessage:
    turn = TURN if of_this_turn else EARLIER
    return AgentMessage(sequence, turn, USER, content, text, unbuilt="ValueError: too odd")


def test_user_message__places_what_the_runner_built() -> None:
    built = user_message(Builder(), sequence=4, turn=TURN, message=HELLO)

    assert built == AgentMessage(4, TURN, USER, "<hello>", "hello", message_id="message-1")


@pytest.mark.parametrize(
    ("built", "why"),
    [
        (ValueError("too odd\0"), "ValueError: too odd\ufffd"),
        (
            FrameworkMessage(MessageRole.ASSISTANT, "<hello>"),
            "ContractBroken: build_user_message returned a message of the role assistant, not user",
        ),
        (
            FrameworkMessage(USER, "\ud800"),
            "ContractBroken: build_user_message returned an item that UTF-8 cannot hold",
        ),
    ],
    ids=["an exception", "another role", "no text"],
)
def test_user_message__is_kept_as_it_was_said_when_it_cannot_be_built(
    built: FrameworkMessage | Exception, why: str
) -> None:
    runner = Builder(built=built)
    seen = AgentUserMessage("look", "message-1", "<image>")

    plain = user_message(runner, sequence=4, turn=TURN, message=HELLO)
    with_content = user_message(runner, sequence=4, turn=TURN, message=seen)

    assert plain == AgentMessage(4, TURN, USER, "", "hello", message_id="message-1", unbuilt=why)
    assert (with_content.framework_item, with_content.text) == ("<image>", "look")


@pytest.mark.parametrize("effect", [CallModel, Summarize])
async def test_messages__that_can_be_built_by_now_are_told(effect: Any) -> None:
    runner = Builder(TurnCompleted((KEPT,)) if effect is CallModel else HistorySummarized("short"))
    later = (unbuilt("hello"), unbuilt(NOTE, sequence=2))

    await perform(_asking(effect, later), runner, where(runner))

    assert runner.told == (
        AgentMessage(1, EARLIER, USER, "<hello>", "hello"),
        AgentMessage(2, EARLIER, USER, f"<{NOTE}>", NOTE),
    )


async def test_messages__of_an_earlier_turn_are_left_out_while_they_cannot_be_built() -> None:
    runner = Builder(TurnCompleted((KEPT,)), built=ValueError("too odd"))
    said = AgentMessage(2, TURN, USER, "<hi>", "hi")

    await perform(_asking(CallModel, (unbuilt("hello"), said)), runner, where(runner))

    assert runner.told == (said,)


@pytest.mark.parametrize(
    "message", [unbuilt("hello", of_this_turn=True), unbuilt(NOTE)], ids=["this turn's", "a note"]
)
async def test_model_call__fails_without_what_the_model_must_know(message: AgentMessage) -> None:
    runner = Builder(TurnCompleted((KEPT,)), built=ValueError("too odd"))

    with pytest.raises(RunnerFailed, match=r"^ValueError: too odd$"):
        await perform(_asking(CallModel, (message,)), runner, where(runner))
    assert runner.log == []


async def test_model_call__fails_when_what_steers_it_cannot_be_built() -> None:
    runner = Builder(built=FrameworkMessage(MessageRole.TOOL, "<hello>"))
    effect = CallModel(TURN, (), "state", (ENDED,), steering_messages=(HELLO,))

    with pytest.raises(ContractBroken, match="a message of the role tool, not user"):
        await perform(effect, runner, where(runner))


def _asking(kind: type[CallModel | Summarize], messages: tuple[AgentMessage, ...]) -> Effect:
    if kind is CallModel:
        return CallModel(TURN, messages, None, ())
    return Summarize(TURN, messages, None, 9)
