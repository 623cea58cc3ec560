"""`make bench`: milliseconds a turn and turns a second, plain Pydantic AI against a durable session, in one run.

Both keep the whole history and send it with each model call, so both slow down as it grows. They
take turns in alternation, so that a noisy machine disturbs both alike.
"""

from __future__ import annotations

import asyncio
import platform
import statistics
import tempfile
import time
from collections.abc import Awaitable
from datetime import timedelta
from importlib.metadata import version

import click
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage

from benchmarks.workload import PROMPT, build_agent, build_flow
from dex_agents_dex import AgentRuntime, AgentSessionClient
from dex_agents_model import AgentEventType

PATIENCE = timedelta(seconds=60)


class PlainSession:
    """A conversation in memory, as Pydantic AI has it by itself."""

    def __init__(self, agent: Agent[None, str]) -> None:
        self._agent = agent
        self._history: list[ModelMessage] = []

    async def take_turn(self) -> None:
        async with self._agent.run_stream(PROMPT, message_history=self._history) as run:
            await run.get_output()
        self._history = run.all_messages()


class DurableSession:
    """A durable session, watched by a client: a turn ends when its event has been read."""

    def __init__(self, sessions: AgentSessionClient, session_id: str) -> None:
        self._sessions = sessions
        self._session_id = session_id
        self._token = ""

    async def take_turn(self) -> None:
        await self._sessions.send_user_message(self._session_id, PROMPT)
        while True:
            read = await self._sessions.read_agent_event(
                self._session_id, self._token, timeout=PATIENCE
            )
            if read is None:
                raise TimeoutError(f"no event of {self._session_id} within {PATIENCE}")
            self._token = read.resume_token
            if read.event.type is AgentEventType.TURN_COMPLETED:
                return


@click.command()
@click.option("--turns", default=60, show_default=True, help="Turns of the one session.")
@click.option("--sessions", default=20, show_default=True, help="Sessions at the same time.")
@click.option("--turns-each", default=5, show_default=True, help="Turns of each of them.")
def main(turns: int, sessions: int, turns_each: int) -> None:
    """Time the workload."""
    print_settings()
    asyncio.run(measure(turns, sessions, turns_each))


async def measure(turns: int, sessions: int, turns_each: int) -> None:
    agent, flow = build_agent(), build_flow()
    with tempfile.TemporaryDirectory(prefix="bench-") as data_dir:
        async with AgentRuntime(flow, data_dir=data_dir, server_address=None) as runtime:
            client = runtime.sessions(flow)
            await client.start_session("one")
            plain, durable = PlainSession(agent), DurableSession(client, "one")
            plain_ms, durable_ms = [], []
            for _ in range(turns):
                plain_ms.append(await milliseconds(plain.take_turn()))
                durable_ms.append(await milliseconds(durable.take_turn()))
            print_latency(plain_ms, durable_ms)

            plain_rate = await rate([PlainSession(agent) for _ in range(sessions)], turns_each)
            ids = [f"many-{number}" for number in range(sessions)]
            await asyncio.gather(*(client.start_session(session_id) for session_id in ids))
            many = [DurableSession(client, session_id) for session_id in ids]
            durable_rate = await rate(many, turns_each)
            print(f"turns/s, {sessions} sessions at once, {turns_each} turns each")
            print(f"  plain   {plain_rate:8.1f}")
            print(f"  durable {durable_rate:8.1f}   1/{plain_rate / durable_rate:.1f} of plain")


async def milliseconds(turn: Awaitable[None]) -> float:
    started = time.perf_counter()
    await turn
    return (time.perf_counter() - started) * 1000


async def rate(sessions: list[PlainSession] | list[DurableSession], turns_each: int) -> float:
    async def run(session: PlainSession | DurableSession) -> None:
        for _ in range(turns_each):
            await session.take_turn()

    started = time.perf_counter()
    await asyncio.gather(*map(run, sessions))
    return len(sessions) * turns_each / (time.perf_counter() - started)


def print_settings() -> None:
    names = ("dex-python-sdk", "pydantic-ai-slim", "grpcio")
    print(f"Python {platform.python_version()}; " + "; ".join(f"{n} {version(n)}" for n in names))
    print("engine: a process of its own, SQLite WAL, synchronous=FULL (strict durability)")
    print("workload: 2 model calls without latency and 3 parallel no-op tools a turn\n")


def print_latency(plain_ms: list[float], durable_ms: list[float]) -> None:
    print(f"ms a turn, one session, {len(plain_ms)} turns in alternation")
    for name, values in (("plain", plain_ms), ("durable", durable_ms)):
        print(
            f"  {name:8} median {statistics.median(values):7.2f}"
            f"   p95 {statistics.quantiles(values, n=20)[-1]:7.2f}"
            f"   turns 6-15 {statistics.median(values[5:15]):7.2f}"
            f"   last 10 {statistics.median(values[-10:]):7.2f}"
        )
    added = statistics.median(durable_ms) - statistics.median(plain_ms)
    ratio = statistics.median(durable_ms) / statistics.median(plain_ms)
    print(f"  durability adds {added:.2f} ms a turn; {ratio:.1f} times plain\n")


if __name__ == "__main__":
    main()
