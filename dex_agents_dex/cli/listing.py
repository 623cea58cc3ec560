"""Commands that list: sessions, and the messages, events and queue of one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import click
import dex
from attrs import frozen
from rich.table import Table

from dex_agents_model import wire
from dex_agents_model.events import AgentEvent, ReasoningDelta, TextDelta, UsageRecorded
from dex_agents_model.records import AgentMessage, AgentStatus, AgentUserMessage
from dex_agents_model.requests import AgentSnapshot
from dex_agents_model.status import shown_status

from ..client import AgentSessionClient, EventsLost, FollowedEvent
from ..errors import WorkerFailed
from ..schema import AGENT_STATUS
from .connecting import (
    FoundSession,
    Place,
    ask,
    at_a_place,
    existing_server_at,
    session_at,
)
from .desk import client_at, desk_at
from .names import SESSION, TEXT
from .options import as_json
from .probing import while_it_answers
from .trouble import run
from .words import (
    QUIET,
    counted,
    in_one_line,
    safe,
    screen,
    told_message,
    told_queued,
    told_status,
    told_time,
    told_usage,
    write_json,
)

_PAGE: Final = 100
_NAMED_FLOWS: Final = 5
_CLOSED: Final = "closed"
_STATUSES: Final = (*(status.value for status in AgentStatus), _CLOSED)


@frozen
class _Listed:
    found: dex.SearchFlowEntry
    snapshot: AgentSnapshot

    @property
    def status(self) -> str | None:
        """What the session is searched by; None until its first Step has committed."""
        if self.found.closed_at is not None:
            return _CLOSED
        state = self.snapshot.state
        if state is None:
            return None
        return shown_status(state, self.snapshot.pending_interrupts).value


@click.command()
@click.option("--status", type=click.Choice(_STATUSES), help="Only sessions of this status.")
@click.option("--agent", type=TEXT, metavar="FLOW_TYPE", help="Only sessions of this Flow type.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1))
@as_json
@at_a_place
def sessions(
    status: str | None, agent: str | None, limit: int, as_json: bool, place: Place
) -> None:
    """List sessions, the newest first.

    \b
    Examples:
      dex-agents sessions
      dex-agents sessions --status waiting_for_approval --json
    """
    listed, left_out = run(_sessions(place, status, agent, limit))
    if left_out:
        told = ", ".join(sorted(map(in_one_line, left_out))[:_NAMED_FLOWS])
        flows = counted(len(left_out), "Flow")
        click.echo(f"{flows} left out, no session or one that cannot be read: {told}", err=True)
    if as_json:
        write_json([_session_data(each) for each in listed])
        return
    if not listed:
        click.echo("no sessions" if status is None else f"no sessions of status {status}")
        return
    table = Table(box=None, pad_edge=False, header_style=QUIET)
    for heading in ("session", "agent", "status", "turns", "queued", "started"):
        table.add_column(heading, overflow="fold")
    for each in listed:
        state = each.snapshot.state
        table.add_row(
            in_one_line(each.found.flow_id),
            each.found.flow_type,
            _CLOSED if each.found.closed_at is not None else told_status(each.snapshot),
            str(state.turn_count if state is not None else 0),
            str(each.snapshot.queued_message_count or ""),
            told_time(each.found.started_at),
        )
    screen().print(table)


def _session_data(each: _Listed) -> dict[str, object]:
    state = each.snapshot.state
    closed_at = each.found.closed_at
    return {
        "session_id": each.found.flow_id,
        "flow_type": each.found.flow_type,
        "status": each.status,
        "turn_count": state.turn_count if state is not None else 0,
        "queued_message_count": each.snapshot.queued_message_count,
        "pending_interrupts": [i.interrupt_id for i in each.snapshot.pending_interrupts],
        "started_at": each.found.started_at.isoformat(),
        "closed_at": closed_at.isoformat() if closed_at is not None else None,
    }


async def _sessions(
    place: Place, status: str | None, agent: str | None, limit: int
) -> tuple[list[_Listed], set[str]]:
    """The sessions, and the IDs of Flows that did not answer as one."""
    listed: list[_Listed] = []
    left_out: set[str] = set()
    async with (
        existing_server_at(place) as server,
        client_at(server) as client,
        aclosing(_pages(client, _query(status, agent))) as pages,
    ):
        async for page in pages:
            async with desk_at(server, {found.flow_type: found.flow_id for found in page}) as desk:
                for found in page:
                    reader = desk.sessions(found.flow_type)
                    try:
                        each = _Listed(found, await reader.get_agent_snapshot(found.flow_id))
                    except WorkerFailed:
                        left_out.add(found.flow_id)
                        continue
                    if status in (None, each.status):
                        listed.append(each)
                    if len(listed) == limit:
                        return listed, left_out
    return listed, left_out


def _query(status: str | None, agent: str | None) -> str:
    """What a server is to find by its indexes. None of them knows the closed ones of all kinds."""
    wanted: dict[str, str] = {}
    if agent is not None:
        wanted["FlowType"] = agent
    if status not in (None, _CLOSED):
        wanted |= {"ExecutionStatus": "Running", AGENT_STATUS.name: status}
    return " AND ".join(f"{name} = {_quoted(value)}" for name, value in wanted.items())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


async def _pages(
    client: dex.AsyncClient, query: str
) -> AsyncGenerator[list[dex.SearchFlowEntry], None]:
    token = ""
    while True:
        page = await client.search_flows(query, _PAGE, token)
        if page.flows:
            yield list(page.flows)
        token = page.next_page_token
        if not token:
            return


@click.command()
@click.argument("session", type=SESSION)
@click.option("--after", default=0, type=click.IntRange(min=0), help="Behind this sequence.")
@as_json
@at_a_place
def messages(session: str, after: int, as_json: bool, place: Place) -> None:
    """Print every stored message of a session, oldest first. With --json, one a line.

    \b
    Example:
      dex-agents messages order-7
    """

    async def read(sessions: AgentSessionClient) -> list[AgentMessage]:
        found: list[AgentMessage] = []
        while True:
            behind = found[-1].sequence if found else after
            page = await sessions.list_agent_messages(session, after_sequence=behind)
            found.extend(page.messages)
            if not page.has_more:
                return found

    out = screen()
    for message in run(ask(place, session, read)):
        if as_json:
            write_json(wire.dump(message, AgentMessage))
        else:
            out.print(told_message(message))


@click.command()
@click.argument("session", type=SESSION)
@as_json
@at_a_place
def queue(session: str, as_json: bool, place: Place) -> None:
    """List the messages that wait for their turn.

    The oldest comes first, each with the ID that `withdraw` takes.

    \b
    Example:
      dex-agents queue order-7
    """
    page = run(ask(place, session, lambda sessions: sessions.list_queued_messages(session)))
    if as_json:
        write_json([wire.dump(message, AgentUserMessage) for message in page.messages])
        return
    for message in page.messages:
        click.echo(f"{safe(message.message_id)}  {told_queued(message)}")
    if page.has_more:
        click.echo("and more", err=True)
    if not page.messages:
        click.echo("nothing is queued", err=True)


@click.command()
@click.argument("session", type=SESSION)
@click.option("--new", "only_new", is_flag=True, help="Begin now, not with the oldest one kept.")
@click.option("--no-follow", is_flag=True, help="End with the newest event there is.")
@as_json
@at_a_place
def events(session: str, only_new: bool, no_follow: bool, as_json: bool, place: Place) -> None:
    """Print what a session tells while it runs, until Ctrl-C. With --json, one event a line.

    Events are best effort: a server keeps only so many. The state is what `show` shows.

    \b
    Examples:
      dex-agents events order-7
      dex-agents events order-7 --no-follow --json
    """

    def tell(event: FollowedEvent) -> None:
        if isinstance(event, EventsLost):
            click.echo("events are missing here", err=True)
        elif as_json:
            write_json(wire.dump(event.event, AgentEvent))
        else:
            click.echo(_told_event(event.event))

    async def follow(found: FoundSession) -> None:
        newest = (await found.sessions.get_agent_snapshot(session)).event_token
        if no_follow and (only_new or not newest):
            return
        start, through = newest if only_new else "", newest if no_follow else None
        async with aclosing(found.sessions.follow(session, start, through=through)) as followed:
            async for event in followed:
                tell(event)

    async def follow_while_it_answers() -> None:
        async with session_at(place, session) as found:
            await while_it_answers(found.server, follow(found))

    try:
        run(follow_while_it_answers())
    except KeyboardInterrupt:
        return


def _told_event(event: AgentEvent) -> str:
    attempt = f" attempt {event.attempt}" if event.attempt > 1 else ""
    match event.payload:
        case TextDelta(text) | ReasoningDelta(text):
            said = repr(text)
        case UsageRecorded(recorded):
            said = told_usage(recorded)
        case _:
            data = wire.dump(event, AgentEvent)["data"]
            assert isinstance(data, dict)
            said = " ".join(f"{name}={in_one_line(str(value))}" for name, value in data.items())
    return f"{event.turn_id} {event.step_execution_id}{attempt} {event.type} {said}".rstrip()
