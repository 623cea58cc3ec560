"""`question`: one question with the whole arguments that it is about; and how commands find the one that is meant."""

from __future__ import annotations

import click

from dex_agents_model import wire
from dex_agents_model.records import AgentInterrupt

from ..client import AgentSessionClient
from .connecting import Place, ask, at_a_place
from .names import QUESTION, SESSION
from .options import as_json
from .trouble import NotThere, run
from .words import screen, told_whole_question, write_json


@click.command()
@click.argument("session", type=SESSION)
@click.argument("question", type=QUESTION, required=False)
@as_json
@at_a_place
def question(session: str, question: str | None, as_json: bool, place: Place) -> None:
    """Print a question that waits, its arguments whole.

    Other commands print them shortened. QUESTION may be left out when only one waits.

    \b
    Example:
      dex-agents question order-7
    """

    async def read(sessions: AgentSessionClient) -> tuple[AgentInterrupt, str]:
        asked = await waiting_question(sessions, session, question)
        arguments = await sessions.get_interrupt_arguments(session, asked.interrupt_id)
        if arguments is None:
            raise _waits_no_more(session, asked.interrupt_id)
        return asked, arguments

    asked, arguments = run(ask(place, session, read))
    if as_json:
        write_json({**wire.dump(asked, AgentInterrupt), "arguments": arguments})
    else:
        screen().print(told_whole_question(asked, arguments), soft_wrap=True)


async def waiting_question(
    sessions: AgentSessionClient, session: str, question: str | None
) -> AgentInterrupt:
    """The question that is named, else the only one.

    Raises:
        NotThere: it does not wait, or there is not exactly one.
    """
    waiting = (await sessions.get_agent_snapshot(session)).pending_interrupts
    if question is not None:
        waiting = tuple(asked for asked in waiting if asked.interrupt_id == question)
    if len(waiting) == 1:
        return waiting[0]
    if question is not None:
        raise _waits_no_more(session, question)
    if not waiting:
        raise NotThere(f"no question waits in session {session!r}")
    names = ", ".join(f"{asked.interrupt_id} ({asked.tool_name})" for asked in waiting)
    raise NotThere(f"{len(waiting)} questions wait in session {session!r}; name one: {names}")


def _waits_no_more(session: str, question: str) -> NotThere:
    return NotThere(f"the question {question} does not wait in session {session!r} (any more)")
