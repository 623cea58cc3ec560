"""The main job, with everything going wrong: `make demo`.

A customer asks for a refund. The Worker is killed (SIGKILL) while the refund waits for a person, and
again after the money has moved but before the tool could say so. Each time a new Worker goes on. At
the end the program counts what really happened, and fails if a promise broke.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import click
import orders_agent
from rich.console import Console

from dex_agents_dex import AgentSessionClient
from dex_agents_dex.testing import AgentTestStack, ChildProgram, wait_for_agent_snapshot
from dex_agents_model import AgentEvent, AgentInterrupt, AgentSnapshot
from dex_agents_model.events import (
    InterruptRaised,
    InterruptResolved,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompletedEvent,
    TurnFailedEvent,
)

SESSION = "order-session-7"
REQUEST = "Please refund order 7 and tell the customer."


class Screen:
    """Whole lines, and between them the agent's text as it comes."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._is_in_text = False

    def line(self, text: str) -> None:
        if self._is_in_text:
            self._console.print()
        self._is_in_text = False
        self._console.print(text)

    def text(self, text: str) -> None:
        if not self._is_in_text:
            self._console.print("[bold]agent:[/] ", end="")
        self._is_in_text = True
        self._console.print(text, end="", markup=False)


screen = Screen()


@click.command()
@click.option(
    "--model", help="A model of Pydantic AI, like openai:gpt-5.2, in place of the script."
)
def main(model: str | None) -> None:
    """Run one durable agent session, and kill its Worker twice."""
    if model and model.startswith("openai:") and not os.environ.get("OPENAI_API_KEY"):
        raise click.UsageError(f"--model {model} needs OPENAI_API_KEY in the environment")
    with tempfile.TemporaryDirectory(prefix="orders-demo-") as directory:
        state_dir = Path(directory)
        os.environ[orders_agent.STATE_DIR_VARIABLE] = directory
        os.environ[orders_agent.MODEL_VARIABLE] = model or ""
        asyncio.run(run_session(state_dir))
        sys.exit(report(orders_agent.Shop(state_dir)))


async def run_session(state_dir: Path) -> None:
    """The session from the request to the answer, over three Workers."""
    flow = orders_agent.build_flow()
    folder = Path(__file__).parent
    async with AgentTestStack(state_dir, [flow], "orders_agent", worker_cwd=folder) as stack:
        sessions = stack.sessions(flow)
        worker = await start_worker(stack)
        screen.line(f"[bold]customer:[/] {REQUEST}")
        await sessions.start_session(SESSION, REQUEST)
        transcript = asyncio.create_task(print_transcript(sessions))

        refund = await next_question(sessions, "refund_order")
        kill(worker, "the refund waits for a person")
        worker = await start_worker(stack)
        await approve(sessions, refund)

        gate = orders_agent.Shop(state_dir).gate
        await gate.wait_until_reached()
        kill(worker, "the money has moved, and nobody knows yet")
        gate.release()
        await start_worker(stack)

        await approve(sessions, await next_question(sessions, "email_customer"))
        await transcript


async def start_worker(stack: AgentTestStack) -> ChildProgram:
    worker = await stack.start_worker()
    screen.line(f"[green]  a Worker serves (process {worker.pid})[/]")
    return worker


def kill(worker: ChildProgram, moment: str) -> None:
    screen.line(f"[red]  SIGKILL to the Worker (process {worker.pid}) while {moment}[/]")
    worker.kill()


async def next_question(sessions: AgentSessionClient, tool_name: str) -> AgentInterrupt:
    def question(snapshot: AgentSnapshot) -> AgentInterrupt | None:
        return next((i for i in snapshot.pending_interrupts if i.tool_name == tool_name), None)

    return await wait_for_agent_snapshot(
        sessions, SESSION, question, description=f"a question about {tool_name}"
    )


async def approve(sessions: AgentSessionClient, question: AgentInterrupt) -> None:
    accepted = await sessions.resolve_interrupt(
        SESSION, question.interrupt_id, approved=True, arguments_digest=question.arguments_digest
    )
    if not accepted:
        raise RuntimeError(f"the answer to {question.interrupt_id} was refused")


async def print_transcript(sessions: AgentSessionClient) -> None:
    """Everything that the session tells, as it happens, until its turn ends."""
    token = ""
    while True:
        read = await sessions.read_agent_event(SESSION, token, timeout=timedelta(seconds=30))
        if read is None:
            continue
        token = read.resume_token
        if isinstance(read.event.payload, TextDelta):
            screen.text(read.event.payload.text)
        elif (line := describe(read.event)) is not None:
            screen.line(f"  {line}")
        if isinstance(read.event.payload, TurnCompletedEvent | TurnFailedEvent):
            return


def describe(event: AgentEvent) -> str | None:
    match event.payload:
        case ToolCallStarted(tool_name=name):
            return f"{name} starts, attempt {event.attempt}"
        case ToolCallFinished(tool_name=name, status=status):
            return f"{name} {status}"
        case InterruptRaised(tool_name=name):
            return f"[yellow]{name} waits for approval[/]"
        case InterruptResolved(approved=approved):
            return f"[yellow]{'approved' if approved else 'not approved'}[/]"
        case TurnCompletedEvent():
            return "turn completed"
        case TurnFailedEvent(error):
            return f"[red]turn failed: {error}[/]"
        case _:
            return None


def report(shop: orders_agent.Shop) -> int:
    """Count what really happened; 0 when every promise held."""
    runs = Counter(call.name for call in shop.calls.read())
    keys = {call.key for call in shop.calls.read(name="refund_order")}
    screen.line("\n[bold]what really ran[/]")
    for name in ("find_order", "refund_order", "email_customer"):
        screen.line(f"  {name:15} {runs[name]} time(s)")
    screen.line(f"  payments made   {shop.refunds()}")
    promises = {
        "the read, which may run again, ran": runs["find_order"] >= 1,
        "the cut-off refund ran again, with the same key": runs["refund_order"] == 2
        and len(keys) == 1,
        "the customer was paid exactly once": shop.refunds() == 1,
        "the mail, which must not run twice, ran once": runs["email_customer"] == 1,
    }
    for promise, held in promises.items():
        screen.line(f"  {'[green]kept' if held else '[red]BROKEN'}[/]  {promise}")
    return 0 if all(promises.values()) else 1


if __name__ == "__main__":
    main()
