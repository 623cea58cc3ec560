"""Which events travel in one message: those of one moment, in order. None waits when its attempt has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import dex
import pytest
from attrs import field, frozen

from dex_agents_dex.engine_clock import EngineClock
from dex_agents_dex.event_message import EventMessage
from dex_agents_dex.event_stream import AttemptEvents, RunnerEvents
from dex_agents_dex.port import DexStepPort, SessionBinding
from dex_agents_dex.testing import wait_until
from dex_agents_model import DeferredToolExecution, ToolExecutionResult, TurnId
from dex_agents_model.effects import ExecuteTool
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.events import (
    AgentEvent,
    CustomEvent,
    EventPayload,
    StepMethod,
    TextDelta,
    ToolCallStarted,
    TurnEvent,
)

from .found import OPTIONS
from .laboratory import NotAsked
from .samples import EDITED
from .scripted_runner import ScriptedRunner

if TYPE_CHECKING:
    from asyncio import TimerHandle

TURN = TurnId("turn-1")
AT_ONCE = timedelta(0)
NEVER = timedelta(days=1)
KIB = 1024


@frozen
class Written:
    """Stands for a Stream, and keeps what is written to it."""

    stream_capacity_bytes: int = 10 * KIB * KIB
    messages: list[EventMessage] = field(factory=list)

    def write(self, context: object, message: EventMessage) -> None:
        self.messages.append(message)

    @property
    def payloads(self) -> list[list[EventPayload]]:
        """Those of each message."""
        return [[event.payload for event in message.events()] for message in self.messages]


def attempt(
    written: Written, *, gathered: timedelta = NEVER, apart: timedelta = AT_ONCE
) -> AttemptEvents:
    """The events of the second attempt of a model call."""
    return AttemptEvents(
        cast("dex.Context", SimpleNamespace(step_execution_id="RunModel-1", attempt=2)),
        StepMethod.EXECUTE,
        cast("dex.Stream[EventMessage]", written),
        gathered=gathered,
        apart=apart,
    )


def say(events: AttemptEvents, *texts: str) -> None:
    for text in texts:
        events.tell(TurnEvent(TURN, TextDelta(text)))


def said(*texts: str) -> list[EventPayload]:
    return [TextDelta(text) for text in texts]


async def test_attempt__writes_what_it_is_told_in_one_moment_as_one_message() -> None:
    written = Written()
    events = attempt(written, gathered=AT_ONCE)

    say(events, "It is ", "on its way")
    assert written.messages == []
    await wait_until("the message", lambda: bool(written.messages))

    assert written.messages[0].text == (
        '[{"v":1,"type":"text_delta","turn_id":"turn-1","step_execution_id":"RunModel-1",'
        '"method":"execute","attempt":2,"index":0,"data":{"text":"It is "}},'
        '{"v":1,"type":"text_delta","turn_id":"turn-1","step_execution_id":"RunModel-1",'
        '"method":"execute","attempt":2,"index":1,"data":{"text":"on its way"}}]'
    )
    events.flush()
    assert len(written.messages) == 1


async def test_attempt__that_goes_on_telling_gathers_for_longer() -> None:
    written = Written()
    events = attempt(written, gathered=AT_ONCE, apart=NEVER)

    say(events, "first")
    await wait_until("the first message", lambda: bool(written.messages))
    say(events, "second")
    await asyncio.to_thread(list)  # the loop runs, and with it every timer that is due
    say(events, "third")
    assert len(written.messages) == 1
    events.flush()

    assert written.payloads == [said("first"), said("second", "third")]


async def test_attempt__leaves_no_timer_when_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[TimerHandle] = []
    loop = asyncio.get_running_loop()
    call_at = loop.call_at

    def noted(*args: object) -> TimerHandle:
        timers.append(call_at(*args))  # type: ignore[arg-type]  # passed on as they came
        return timers[-1]

    monkeypatch.setattr(loop, "call_at", noted)
    written = Written()
    events = attempt(written)
    say(events, "first", "second")
    events.flush()
    say(events, "third")
    events.flush()

    assert written.payloads == [said("first", "second"), said("third")]
    assert [timer.cancelled() for timer in timers] == [True, True]


async def test_attempt__writes_before_more_would_wait_than_a_message_should_hold() -> None:
    written = Written()
    events = attempt(written)
    texts = [f"{number} {'ä' * 2_000}" for number in range(30)]

    say(events, *texts)
    events.flush()

    assert [payload for message in written.payloads for payload in message] == said(*texts)
    sizes = [len(message.text.encode()) for message in written.messages]
    assert all(28 * KIB < size < 33 * KIB for size in sizes[:-1])
    assert len(sizes) == 5


async def test_attempt__writes_an_event_that_is_large_by_itself_alone() -> None:
    written = Written()
    events = attempt(written)
    large = CustomEvent("table", "x" * 90 * KIB)

    say(events, "before")
    events.tell(TurnEvent(TURN, large))
    say(events, "behind")
    events.flush()

    assert written.payloads == [said("before"), [large], said("behind")]


async def test_attempt__takes_a_small_part_of_a_small_stream_at_a_time() -> None:
    """A cut takes whole messages, and is seen where it is in the middle of an attempt."""
    written = Written(stream_capacity_bytes=16 * KIB)
    events = attempt(written)

    say(events, *map(str, range(100)))
    events.flush()

    assert max(len(message.text.encode()) for message in written.messages) < 1.1 * KIB
    indices = [event.index for message in written.messages for event in message.events()]
    assert indices == list(range(100))


async def test_attempt__numbers_what_threads_tell_in_the_order_in_which_it_is_written() -> None:
    written = Written()
    events = attempt(written)
    runner = RunnerEvents(events, TURN)
    numbers: Iterator[int] = count()

    def talk() -> None:
        for _ in range(50):
            runner.write_text_delta(str(next(numbers)))

    await asyncio.gather(*(asyncio.to_thread(talk) for _ in range(4)))
    runner.close()
    events.flush()

    told: list[AgentEvent] = [e for message in written.messages for e in message.events()]
    assert [event.index for event in told] == list(range(200))
    assert {e.payload.text for e in told if isinstance(e.payload, TextDelta)} == set(
        map(str, range(200))
    )


@pytest.mark.parametrize("text", ["[]", "{}", '"[]"', '[{"v":1}]', "[[]]"])
def test_message__of_another_form_is_called_corrupt(text: str) -> None:
    with pytest.raises(StateCorrupt):
        EventMessage(text).events()


async def test_start_of_a_tool__is_written_before_the_tool_runs() -> None:
    """As is the heartbeat, from which an engine knows that the call may have begun."""
    written = Written()
    sent: list[object] = []

    async def beat() -> None:
        sent.extend([*written.payloads, "a heartbeat"])

    class Runner(ScriptedRunner):
        async def execute_deferred_tool_call(
            self, call: DeferredToolExecution
        ) -> ToolExecutionResult:
            sent.append("the tool")
            return ToolExecutionResult("done")

    context = SimpleNamespace(
        flow_id="s",
        run_id="r",
        step_execution_id="CallTool-1",
        attempt=2,
        heartbeat=beat,
    )
    binding = SessionBinding(
        runner=Runner(Path()),
        options=OPTIONS,
        events=cast("dex.Stream[EventMessage]", written),
        clock=EngineClock(),
        own_session=NotAsked(),
    )
    port = DexStepPort(binding, cast("dex.AsyncContext", context), StepMethod.EXECUTE)

    await port.perform(ExecuteTool(EDITED))

    started = ToolCallStarted(EDITED.tool_call_id, EDITED.tool_name)
    assert sent == [[started], "a heartbeat", "the tool"]
    port.close()
