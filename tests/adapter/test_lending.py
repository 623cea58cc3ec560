"""Messages of earlier turns are read once, and no Step sees what another one did to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from dex_agents_model import AgentMessage, SessionId, TurnId
from dex_agents_model.text import size_bytes
from dex_agents_pydantic_ai import PydanticAIRunner, lending
from dex_agents_pydantic_ai.history import from_stored, to_stored
from dex_agents_pydantic_ai.lending import LentHistories

from .doubles import Session

ONE, OTHER = SessionId("one"), SessionId("other")
QUESTION = ModelRequest([UserPromptPart(["look", "there"])])
CALL = ModelResponse(
    [ThinkingPart("hm", provider_details={"k": [1]}), ToolCallPart("find", {"x": {"y": 1}}, "a")],
    metadata={"m": {}},
)
RESULT = ModelRequest([ToolReturnPart("find", {"rows": [{"name": "n"}]}, "a")])
ANSWER = ModelResponse([TextPart("done")])
TURN: Sequence[ModelMessage] = (QUESTION, CALL, RESULT, ANSWER)


def stored(*turns: Sequence[ModelMessage], first: int = 1) -> tuple[AgentMessage, ...]:
    """The messages of turns as a session has them; the first one is turn number ``first``."""
    items = [
        (TurnId.of(number), to_stored(message))
        for number, turn in enumerate(turns, start=first)
        for message in turn
    ]
    return tuple(
        AgentMessage(sequence, turn, item.role, item.framework_item, item.text)
        for sequence, (turn, item) in enumerate(items, start=first * 100)
    )


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each message, by its sequence, was read to be lent."""
    counted: Counter[int] = Counter()

    def counting(message: AgentMessage) -> ModelMessage:
        counted[message.sequence] += 1
        return from_stored(message)

    monkeypatch.setattr(lending, "from_stored", counting)
    return counted


def lent(
    histories: LentHistories, messages: tuple[AgentMessage, ...], session: SessionId = ONE
) -> list[ModelMessage]:
    """What a Step is shown that does nothing with it: equal messages, which are its own."""
    with histories.lend(session, messages) as history:
        return [from_stored(to_stored(message)) for message in history]


def test_lend__reads_each_message_once_while_its_session_goes_on(reads: Counter[int]) -> None:
    histories, messages = LentHistories(), stored(TURN, TURN, TURN)

    for known in (4, 4, 8, 8, 12, 12):
        assert lent(histories, messages[:known]) == [*TURN] * (known // 4)

    assert reads == dict.fromkeys((message.sequence for message in messages), 1)


def _part(history: Sequence[ModelMessage], message: int, part: int = 0) -> Any:
    return history[message].parts[part]


def all_of(history: Sequence[ModelMessage]) -> str:
    """Everything in the messages, what equal ones may differ in too."""
    return repr([(vars(message), [vars(part) for part in message.parts]) for message in history])


class Array:
    """An object that refuses to be compared."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth of an array is ambiguous")


CHANGES: dict[str, Callable[[Sequence[Any]], object]] = {
    "a field of a message": lambda history: setattr(history[1], "model_name", "other"),
    "a new field": lambda history: setattr(history[1], "seen", True),
    "the parts": lambda history: history[1].parts.pop(),
    "other parts": lambda history: setattr(history[1], "parts", [TextPart("other")]),
    "a field of a part": lambda history: setattr(_part(history, 3), "content", "other"),
    "a prompt": lambda history: _part(history, 0).content.append("now"),
    "arguments": lambda history: _part(history, 1, 1).args["x"].update(y=2),
    "a result": lambda history: _part(history, 2).content["rows"][0].update(name="hidden"),
    "a field, to what cannot be compared": lambda history: setattr(
        history[1], "model_name", Array()
    ),
    "details": lambda history: _part(history, 1).provider_details["k"].append(2),
    "metadata": lambda history: history[1].metadata["m"].update(k=1),
    "usage": lambda history: setattr(history[1].usage, "input_tokens", 7),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_lend__shows_no_step_what_another_one_changed(change: Callable[..., object]) -> None:
    histories, messages = LentHistories(), stored(TURN)

    seen = []
    for _ in range(3):  # a session whose history was changed once is served otherwise
        with histories.lend(ONE, messages) as history:
            seen.append(all_of(history))
            change(history)
            assert all_of(history) != seen[0]

    assert seen == [seen[0]] * 3


KEPT: dict[str, Callable[[Sequence[Any]], object]] = {
    "a message": lambda history: history[1],
    "its fields": lambda history: history[1].__dict__,
    "its parts": lambda history: history[1].parts,
    "a part": lambda history: _part(history, 1),
    "the fields of a part": lambda history: _part(history, 1).__dict__,
    "something in a part": lambda history: _part(history, 2).content["rows"][0],
    "its usage": lambda history: history[1].usage,
}


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_lend__lends_nothing_that_somebody_has_kept(keep: Callable[..., object]) -> None:
    histories, messages = LentHistories(), stored(TURN)
    with histories.lend(ONE, messages) as history:
        kept = keep(history)

    with histories.lend(ONE, messages) as history:
        assert keep(history) is not kept
        assert list(history) == [*TURN]


def test_lend__lends_again_what_was_kept_for_a_while(reads: Counter[int]) -> None:
    histories, messages = LentHistories(), stored(TURN, TURN)
    with histories.lend(ONE, messages[:4]) as history:
        kept = [history[0]]

    assert lent(histories, messages) == [*TURN, *TURN]
    kept.clear()
    assert lent(histories, messages) == [*TURN, *TURN]

    assert reads == dict.fromkeys((message.sequence for message in messages), 1)


def test_lend__shows_no_step_what_was_changed_by_who_kept_it() -> None:
    histories, messages = LentHistories(), stored(TURN)
    with histories.lend(ONE, messages) as history:
        kept: list[Any] = [history[0]]
    lent(histories, messages)

    kept.pop().parts.clear()

    assert lent(histories, messages) == [*TURN]


def test_lend__lends_nothing_of_whose_changes_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def with_a_set(message: AgentMessage) -> ModelMessage:
        return replace(from_stored(message), metadata={"seen": set()})

    monkeypatch.setattr(lending, "from_stored", with_a_set)
    histories, messages = LentHistories(), stored(TURN)

    for _ in range(2):  # they are copied, by what reads messages as they are
        assert lent(histories, messages) == [*TURN]


def test_lend__gives_two_steps_at_a_time_nothing_in_common() -> None:
    histories, messages = LentHistories(), stored(TURN)
    lent(histories, messages)

    with histories.lend(ONE, messages) as given_up, histories.lend(ONE, messages) as again:
        given_up[0].parts = []
        assert list(again) == [*TURN]

    assert lent(histories, messages) == [*TURN]


def test_lend__reads_all_again_after_a_step_that_failed(reads: Counter[int]) -> None:
    histories, messages = LentHistories(), stored(TURN)

    def fail() -> None:
        with histories.lend(ONE, messages) as history:
            history[0].parts = []
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert lent(histories, messages) == [*TURN]
    assert set(reads.values()) == {2}


def test_lend__follows_a_session_whose_earlier_turns_went_into_a_summary() -> None:
    histories, messages = LentHistories(), stored(TURN, [QUESTION, ANSWER], TURN)

    assert lent(histories, messages[:6]) == [*TURN, QUESTION, ANSWER]
    assert lent(histories, messages[4:]) == [QUESTION, ANSWER, *TURN]


def test_lend__reads_a_turn_anew_that_was_longer_than_it_seemed() -> None:
    """Its second message may be the request that its first one stands for."""
    histories = LentHistories()
    opening = ModelRequest([*QUESTION.parts, *RESULT.parts])
    first, second = stored([QUESTION, opening])
    second = AgentMessage(second.sequence, second.turn_id, first.role, second.framework_item, None)

    assert lent(histories, (first,)) == [QUESTION]
    assert lent(histories, (first, second)) == [opening]


def test_lend__forgets_the_session_served_longest_ago_when_it_has_no_room(
    reads: Counter[int],
) -> None:
    one, other = stored(TURN), stored(TURN, first=2)
    room = 2 * 2560 + sum(size_bytes(each.framework_item) + 2560 for each in (*one, *other))
    roomy, narrow = LentHistories(room), LentHistories(room - 1)

    for histories in (roomy, narrow):
        for session, messages in ((ONE, one), (OTHER, other), (OTHER, other), (ONE, one)):
            assert lent(histories, messages, session) == [*TURN]

    assert reads == {
        **dict.fromkeys((message.sequence for message in one), 3),
        **dict.fromkeys((message.sequence for message in other), 2),
    }


async def test_lend__lends_to_a_model_step_whose_hooks_only_read(reads: Counter[int]) -> None:
    """Pydantic AI itself changes nothing in the history of a run, and keeps none of it."""
    shown = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        shown.append(sum(len(message.parts) for message in messages))
        yield "done"

    async def look(messages: list[ModelMessage]) -> list[ModelMessage]:
        return messages

    agent = Agent(
        FunctionModel(stream_function=stream),
        system_prompt="SYS",
        capabilities=[ProcessHistory(look)],  # async: a thread may hold its arguments longer
    )
    played = Session(PydanticAIRunner(agent))
    for text in "abcd":
        await played.ask(text)

    assert shown == [2, 4, 6, 8]
    # The first turn has three messages: its request with the system prompt is one of them.
    assert reads == dict.fromkeys(range(1, 8), 1)
