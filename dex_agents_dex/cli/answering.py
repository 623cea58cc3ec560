"""Commands that change a session: each is one call, and exits with 1 when the session refuses."""

from __future__ import annotations

import click

from dex_agents_model.records import AgentInterrupt

from ..client import AgentSessionClient
from .connecting import Place, ask, at_a_place
from .names import JSON_OBJECT, MESSAGE_ID, QUESTION, SESSION, TURN, this_person
from .options import as_json
from .questions import waiting_question
from .trouble import NotUnderstood, Trouble, run
from .words import MESSAGE_REFUSED, in_one_line, safe, write_json


@click.command()
@click.argument("session", type=SESSION)
@click.argument("text")
@as_json
@at_a_place
def send(session: str, text: str, as_json: bool, place: Place) -> None:
    """Queue a message; it gets a turn of its own.

    \b
    Example:
      dex-agents send order-7 "And what about the invoice?"
    """
    accepted = run(ask(place, session, lambda s: s.send_user_message(session, text)))
    _tell(accepted, "queued", MESSAGE_REFUSED, as_json=as_json)


@click.command()
@click.argument("session", type=SESSION)
@click.argument("text")
@click.option(
    "--keep-questions",
    is_flag=True,
    help="Leave pending approvals open; else the message answers them with no.",
)
@as_json
@at_a_place
def steer(session: str, text: str, keep_questions: bool, as_json: bool, place: Place) -> None:
    """Speak to the turn that runs.

    It hears the message before its next model call; when no turn runs, the message begins one.

    \b
    Example:
      dex-agents steer order-7 "Wait: the customer keeps the book."
    """
    accepted = run(
        ask(
            place,
            session,
            lambda s: s.steer_user_message(
                session, text, rejects_pending_approvals=not keep_questions
            ),
        )
    )
    _tell(accepted, "taken", MESSAGE_REFUSED, as_json=as_json)


@click.command()
@click.argument("session", type=SESSION)
@click.option("--turn", type=TURN, help="Only this turn, as in turn-3.")
@as_json
@at_a_place
def cancel(session: str, turn: str | None, as_json: bool, place: Place) -> None:
    """Stop the turn that runs. What was done stays done.

    \b
    Example:
      dex-agents cancel order-7
    """
    accepted = run(ask(place, session, lambda s: s.cancel_turn(session, turn)))
    refused = "no turn runs" if turn is None else f"{turn} does not run"
    _tell(accepted, "cancelling", refused, as_json=as_json)


@click.command()
@click.argument("session", type=SESSION)
@click.argument("message_id", type=MESSAGE_ID)
@as_json
@at_a_place
def withdraw(session: str, message_id: str, as_json: bool, place: Place) -> None:
    """Take a queued message back, by the ID that `queue` shows.

    \b
    Example:
      dex-agents withdraw order-7 0c2f...
    """
    accepted = run(ask(place, session, lambda s: s.withdraw_user_message(session, message_id)))
    refused = f"no message {message_id} waits in the queue (any more)"
    _tell(accepted, "withdrawn", refused, as_json=as_json)


@click.command()
@click.argument("session", type=SESSION)
@click.argument("question", type=QUESTION, required=False)
@click.option("--edit", type=JSON_OBJECT, help="Run it with these arguments: a JSON object.")
@click.option("--by", help="Who decides; the user of this machine when left out.")
@click.option("--reason", help="Kept with the decision.")
@as_json
@at_a_place
def approve(
    session: str,
    question: str | None,
    edit: str | None,
    by: str | None,
    reason: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """Let a tool call run, the one that QUESTION is about.

    `show` and `question` print what waits, with its ID.

    \b
    Examples:
      dex-agents approve order-7 turn-1.call-1
      dex-agents approve order-7 turn-1.call-2 --edit '{"order_id": "8"}'
    """

    async def answer(sessions: AgentSessionClient) -> tuple[AgentInterrupt, bool]:
        asked = await waiting_question(sessions, session, question)
        if question is None:  # another than the person has seen may wait by now
            waits = f"{asked.interrupt_id} ({in_one_line(asked.tool_name)})"
            raise NotUnderstood(f"name the question that you approve; {waits} waits")
        return asked, await sessions.resolve_interrupt(
            session,
            asked.interrupt_id,
            approved=True,
            arguments_digest=asked.arguments_digest,
            edited_arguments=edit,
            resolved_by=by or this_person(),
            reason=reason,
        )

    asked, accepted = run(ask(place, session, answer))
    arguments = edit if edit is not None else in_one_line(asked.arguments)
    done = f"approved {in_one_line(asked.tool_name)} {arguments}"
    _tell(accepted, done, _no_longer_waits(asked), as_json=as_json)


@click.command()
@click.argument("session", type=SESSION)
@click.argument("question", type=QUESTION, required=False)
@click.option("--message", help="What the model is told.")
@click.option("--by", help="Who decides; the user of this machine when left out.")
@click.option("--reason", help="Kept with the decision.")
@as_json
@at_a_place
def reject(
    session: str,
    question: str | None,
    message: str | None,
    by: str | None,
    reason: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """Keep a tool call from running. QUESTION may be left out when only one waits.

    \b
    Example:
      dex-agents reject order-7 --message "The customer keeps the book."
    """

    async def answer(sessions: AgentSessionClient) -> tuple[AgentInterrupt, bool]:
        asked = await waiting_question(sessions, session, question)
        return asked, await sessions.resolve_interrupt(
            session,
            asked.interrupt_id,
            approved=False,
            rejection_message=message,
            resolved_by=by or this_person(),
            reason=reason,
        )

    asked, accepted = run(ask(place, session, answer))
    done = f"rejected {in_one_line(asked.tool_name)} {in_one_line(asked.arguments)}"
    _tell(accepted, done, _no_longer_waits(asked), as_json=as_json)


def _no_longer_waits(asked: AgentInterrupt) -> str:
    return f"the answer came too late: {asked.interrupt_id} does not wait any more"


def _tell(accepted: bool, done: str, refused: str, *, as_json: bool) -> None:
    """Say how it went.

    Raises:
        Trouble: the session refused.
    """
    if as_json:
        write_json({"accepted": accepted})
        if not accepted:
            raise SystemExit(Trouble.exit_code)
    elif not accepted:
        raise Trouble(refused)
    else:
        click.echo(safe(done))
