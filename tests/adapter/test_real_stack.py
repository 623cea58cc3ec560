"""The adapter on real processes: an engine, and a Worker that is killed in the middle of everything.

All of it happens once, at the same time; each test looks at its own part of what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio
from attrs import frozen
from pydantic_ai.messages import BinaryContent

from dex_agents_dex import (
    AgentSessionClient,
    MessageRefused,
    ReadEvent,
    SessionAlreadyExists,
)
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import (
    AgentTestStack,
    FileGate,
    InvocationLog,
    wait_for_agent_snapshot,
)
from dex_agents_model import (
    OUTCOME_UNKNOWN_TOOL_RESULT,
    AgentInterrupt,
    AgentSnapshot,
    ToolEffect,
)
from dex_agents_model.events import TextDelta
from dex_agents_model.records import WaitingForUserMessage
from dex_agents_pydantic_ai import user_content

from . import anthropic_protocol, openai_protocol, stack_agents
from .sse_server import Json, SseServer, held, sse_server
from .stack_agents import CHANGED_TOOLS, EFFECTS, REMOTE, SHOP, THINKING, WAYS, tool_name

SIGNATURE = "ErUB+/=\N{GRINNING FACE}\x01 \\u0000=="
SMALL = BinaryContent(b"small", media_type="image/png")
LARGE = BinaryContent(bytes(range(256)) * 2500, media_type="image/png")
"""As JSON it is larger than what is kept in one entry of a map."""
SMALL_PHOTO, PHOTO = user_content(SMALL), user_content(LARGE)
ROOT = Path(__file__).resolve().parents[2]
UNKNOWN = f"failed: {OUTCOME_UNKNOWN_TOOL_RESULT}"
ENDINGS = [way for way in WAYS if way is not stack_agents.is_held]


@frozen
class Life:
    """What is left of one life of the stack: what models answered, what really ran, what was sent."""

    answers: dict[str, str | None]
    """By session."""
    invocations: InvocationLog
    requests: dict[str, list[Json]]
    """To the providers, by session."""
    refusals: list[object]
    """What came of messages that a session does not take, and of starts of one that was started."""

    def runs(self, tool: str) -> int:
        return len(self.invocations.read(name=tool))


async def answer(sessions: AgentSessionClient, session_id: str, turns: int = 1) -> str | None:
    """What the model says at the end of the newest of so many turns."""

    def last_words(snapshot: AgentSnapshot) -> str | None:
        state = snapshot.state
        is_over = isinstance(state, WaitingForUserMessage) and state.turn_count == turns
        return snapshot.messages[-1].text if is_over else None

    return await wait_for_agent_snapshot(
        sessions, session_id, last_words, description=f"the end of turn {turns}"
    )


async def answers_of(sessions: AgentSessionClient, session_ids: list[str]) -> dict[str, str | None]:
    found = await asyncio.gather(*(answer(sessions, session_id) for session_id in session_ids))
    return dict(zip(session_ids, found, strict=True))


async def question(sessions: AgentSessionClient, session_id: str) -> AgentInterrupt:
    [asked] = await wait_for_agent_snapshot(
        sessions,
        session_id,
        lambda snapshot: snapshot.pending_interrupts,
        description="a question",
    )
    return asked


async def first_words(sessions: AgentSessionClient, session_id: str) -> None:
    """Wait until watchers have seen text that the model streams."""
    async with aclosing(sessions.follow(session_id, "")) as events:
        async for followed in events:
            if isinstance(followed, ReadEvent) and isinstance(followed.event.payload, TextDelta):
                return


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def life(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Life]:
    state_dir = tmp_path_factory.mktemp("stack")
    whole = openai_protocol.text("Hel", "lo, ", "you.")
    thought = anthropic_protocol.message(
        anthropic_protocol.thinking("Hm.", SIGNATURE), anthropic_protocol.text("Hel", "lo.")
    )
    again = anthropic_protocol.message(anthropic_protocol.text("Welcome."))
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv(SERVER_ADDRESS_VARIABLE, raising=False)
        async with (
            sse_server(held(whole, after_frames=2), whole) as openai,
            sse_server(held(thought, after_frames=7), thought, again) as anthropic,
        ):
            yield await lead_a_life(state_dir, openai, anthropic)


async def lead_a_life(state_dir: Path, openai: SseServer, anthropic: SseServer) -> Life:
    async with AgentTestStack(
        state_dir,
        stack_agents.build_flows(state_dir, openai.base_url, anthropic.base_url),
        stack_agents.__name__,
        worker_cwd=ROOT,
        worker_env={
            stack_agents.STATE_DIR: str(state_dir),
            stack_agents.OPENAI_URL: openai.base_url,
            stack_agents.ANTHROPIC_URL: anthropic.base_url,
        },
    ) as stack:
        effects, shop, remote, thinking = map(stack.sessions, (EFFECTS, SHOP, REMOTE, THINKING))
        worker = await stack.start_worker()
        answers = await end_in_every_way(effects)

        held_tools = [tool_name(effect, stack_agents.is_held) for effect in ToolEffect]
        gates = [FileGate(state_dir, tool) for tool in held_tools]
        waiting = [f"{tool}-{word}" for tool in CHANGED_TOOLS for word in ("approved", "rejected")]
        await asyncio.gather(
            effects.start_session("killed", " ".join(held_tools)),
            remote.start_session("streaming", "Say hello.", content=PHOTO),
            thinking.start_session("thinking", "Say hello."),
            *(shop.start_session(session, session.partition("-")[0]) for session in waiting),
        )
        await asyncio.gather(
            first_words(remote, "streaming"),
            first_words(thinking, "thinking"),
            *(gate.wait_until_reached() for gate in gates),
            *(question(shop, session) for session in waiting),
        )

        assert await effects.steer_user_message("killed", "This:", content=SMALL_PHOTO)
        refusals = await be_refused(effects, remote)

        worker.kill()
        for gate in gates:
            gate.release()
        stack_agents.deploy_newer_agent(state_dir)
        await stack.start_worker()

        for session in waiting:
            asked = await question(shop, session)
            approved = session.endswith("approved")
            assert await shop.resolve_interrupt(session, asked.interrupt_id, approved=approved)
        await effects.send_user_message("picture", "Again, please.")
        answers["picture again"] = await answer(effects, "picture", turns=2)
        answers |= await answers_of(effects, ["killed"])
        answers |= await answers_of(remote, ["streaming"])
        answers |= await answers_of(thinking, ["thinking"])
        await thinking.send_user_message("thinking", "Thanks.")
        answers["thinking again"] = await answer(thinking, "thinking", turns=2)
        answers |= await answers_of(shop, waiting)
    requests = {"streaming": openai.requests, "thinking": anthropic.requests}
    return Life(answers, InvocationLog(state_dir / "invocations"), requests, refusals)


async def be_refused(effects: AgentSessionClient, remote: AgentSessionClient) -> list[object]:
    """Send what no session takes, and start anew what was started: the same is no other session."""
    with pytest.raises(ValueError, match="content beside the text is no JSON"):
        await effects.send_user_message("killed", "x", content="nonsense")
    with pytest.raises(ValueError, match="max_user_message_bytes is"):
        await effects.start_session("new", content=PHOTO)
    with pytest.raises(MessageRefused, match="max_user_message_bytes is"):
        await effects.run_turn("killed", "x", content=PHOTO)
    with pytest.raises(SessionAlreadyExists):
        await remote.start_session("streaming", "Say hello.")
    first, second = [
        await remote.start_session("streaming", "Say hello.", content=PHOTO) for _ in range(2)
    ]
    return [
        await effects.send_user_message("killed", "x", content=PHOTO),
        await effects.steer_user_message("killed", "x", content=PHOTO),
        first == second,
    ]


async def end_in_every_way(effects: AgentSessionClient) -> dict[str, str | None]:
    tools = [tool_name(effect, way) for effect in ToolEffect for way in ENDINGS]
    tools.append(stack_agents.picture.__name__)
    await asyncio.gather(*(effects.start_session(tool, tool) for tool in tools))
    return await answers_of(effects, tools)


SAID = {
    "returns": "success: done",
    "retries": "failed: The tool call failed: another word, please",
    "fails": "failed: The tool call failed: no such order",
    "asks": (
        "failed: The tool call failed: The tool {tool} asked for approval while it ran."
        " It needs a ToolPolicy with requires_approval=True."
    ),
}
"""How a tool ends by its own word, whatever its effect: it runs once."""

DEFERRED = "deferred its call to code outside the session, whose result never comes."
"""How a tool leaves its work to others, who may do it: it runs once, and its effect decides what is told."""

BROKE = {
    "raises": "raised OSError: the network is gone",
    "times_out": "was cut off: Timed out after 0.05 seconds.",
}
"""How a tool breaks, its work perhaps done: its effect decides."""


def expected(effect: ToolEffect, way: str) -> tuple[str, int]:
    """What the model is told of the call, and how often the tool runs."""
    tool = f"{effect.value}__{way}"
    if way == "defers":
        told = f"{tool} failed: The tool call failed: The tool {tool} {DEFERRED}"
        return told if effect is ToolEffect.READ else f"{tool} {UNKNOWN}", 1
    if way in SAID:
        return f"{tool} {SAID[way].format(tool=tool)}", 1
    match effect:
        case ToolEffect.READ:
            return (
                f"{tool} failed: The tool call failed: tool {tool} {BROKE[way]}",
                3,
            )
        case ToolEffect.IDEMPOTENT_WRITE:
            return f"{tool} {UNKNOWN}", 3
        case _:
            return f"{tool} {UNKNOWN}", 1


@pytest.mark.parametrize("way", [way.__name__ for way in ENDINGS])
@pytest.mark.parametrize("effect", ToolEffect)
def test_tool__ends_as_its_effect_and_its_way_say(life: Life, effect: ToolEffect, way: str) -> None:
    tool = f"{effect.value}__{way}"

    assert (life.answers[tool], life.runs(tool)) == expected(effect, way)
    assert {call.key for call in life.invocations.read(name=tool)} == {f"{tool}/turn-1/{tool}"}


def test_tool__that_is_killed_ends_as_its_effect_says(life: Life) -> None:
    held_tools = {effect: tool_name(effect, stack_agents.is_held) for effect in ToolEffect}
    told = life.answers["killed"]

    assert told is not None
    *lines, _ = told.splitlines()
    assert dict(line.split(" ", 1) for line in lines) == {
        held_tools[ToolEffect.READ]: "success: done",
        held_tools[ToolEffect.IDEMPOTENT_WRITE]: "success: done",
        held_tools[ToolEffect.NON_IDEMPOTENT_WRITE]: UNKNOWN,
        held_tools[ToolEffect.UNCLASSIFIED]: UNKNOWN,
    }
    assert {effect: life.runs(tool) for effect, tool in held_tools.items()} == {
        ToolEffect.READ: 2,
        ToolEffect.IDEMPOTENT_WRITE: 2,
        ToolEffect.NON_IDEMPOTENT_WRITE: 1,
        ToolEffect.UNCLASSIFIED: 1,
    }
    for tool in held_tools.values():
        keys = {call.key for call in life.invocations.read(name=tool)}
        assert keys == {f"killed/turn-1/{tool}"}


def test_stream__that_is_killed_in_the_middle_is_asked_for_again_and_stored_once(
    life: Life,
) -> None:
    assert life.answers["streaming"] == "Hello, you."
    first, second = life.requests["streaming"]
    assert first == second


def test_stream__of_signed_thinking_that_is_killed_goes_on_with_what_the_second_one_gave(
    life: Life,
) -> None:
    assert (life.answers["thinking"], life.answers["thinking again"]) == ("Hello.", "Welcome.")
    first, second, later = life.requests["thinking"]
    assert first == second
    _, answered, _ = later["messages"]
    assert [block.get("signature") for block in answered["content"]] == [SIGNATURE, None]


def test_users_file__outlives_the_worker_and_reaches_the_provider(life: Life) -> None:
    for request in life.requests["streaming"]:
        [said] = request["messages"]
        text, image = said["content"]
        assert text == {"type": "text", "text": "Say hello."}
        assert image["image_url"]["url"] == f"data:image/png;base64,{LARGE.base64}"


def test_users_file__that_steers_a_turn_outlives_the_worker(life: Life) -> None:
    told = life.answers["killed"]

    assert told is not None
    assert told.splitlines()[-1] == f"user sent: {SMALL.identifier}"


def test_users_file__that_is_too_large_is_refused_and_a_repeated_start_is_one(life: Life) -> None:
    assert life.refusals == [False, False, True]


def test_picture__is_seen_by_the_model_and_by_that_of_a_later_turn_on_another_worker(
    life: Life,
) -> None:
    seen = f"picture success: a chart {stack_agents.PICTURE.identifier}"

    assert (life.answers["picture"], life.answers["picture again"]) == (seen, seen)


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("removed", "Unknown tool name: 'removed'"),
        ("renamed", "Unknown tool name: 'renamed'"),
        ("retyped", "missing"),
    ],
)
def test_newer_agent__takes_every_answer_to_a_question_of_the_older_one(
    life: Life, tool: str, words: str
) -> None:
    rejected, approved = life.answers[f"{tool}-rejected"], life.answers[f"{tool}-approved"]

    assert rejected == f"{tool} denied: The tool call was rejected."
    assert approved is not None
    assert approved.startswith(f"{tool} failed: The tool call failed: ")
    assert words in approved
