"""Commands about whole sessions: take one out, end one for good, have one forgotten."""

from __future__ import annotations

import click

from ..operations import Erasure
from .connecting import Place, ask, ask_at_length, at_a_place
from .names import SESSION
from .options import as_json
from .trouble import Trouble, run
from .words import write_json


@click.command()
@click.argument("session", type=SESSION)
@at_a_place
def export(session: str, place: Place) -> None:
    """Print everything that is stored of a session, as JSON. Closed sessions, too.

    \b
    Example:
      dex-agents export order-7 > order-7.json
    """
    exported = run(ask_at_length(place, session, lambda s: s.export_session(session)))
    write_json(exported)
    unreadable = exported["unreadable"]
    if unreadable:
        raise Trouble(f"parts of session {session!r} cannot be read: {unreadable}")


@click.command()
@click.argument("session", type=SESSION)
@click.option("--reason", default="", help="Kept by the server, if it keeps such things.")
@as_json
@at_a_place
def close(session: str, reason: str, as_json: bool, place: Place) -> None:
    """End a session for good. What runs is stopped; what is stored can still be read.

    \b
    Example:
      dex-agents close order-7
    """
    run(ask(place, session, lambda s: s.close_session(session, reason=reason)))
    if as_json:
        write_json({"closed": True})
    else:
        click.echo("closed")


@click.command()
@click.argument("session", type=SESSION)
@click.option("--yes", is_flag=True, help="Do not ask whether you mean it.")
@as_json
@at_a_place
def erase(session: str, yes: bool, as_json: bool, place: Place) -> None:
    """Have a session forgotten, as far as its server can.

    The dev engine forgets it to the last byte. A Dex server has no call that deletes a Flow: there an
    open session is emptied and closed, and what the server keeps is printed. It exits with 1 then.

    \b
    Example:
      dex-agents erase order-7
    """
    if not yes:
        click.confirm(f"erase session {session!r} for good?", abort=True, err=True)
    erasure = run(ask_at_length(place, session, lambda s: s.erase_session(session)))
    _tell(erasure, as_json=as_json)


def _tell(erasure: Erasure, *, as_json: bool) -> None:
    """Say what became of it.

    Raises:
        Trouble: the server still has some of it.
    """
    if as_json:
        write_json({"erased": erasure.is_complete, "left": list(erasure.left)})
        if not erasure.is_complete:
            raise SystemExit(Trouble.exit_code)
    elif erasure.is_complete:
        click.echo("erased")
    else:
        left = "".join(f"\n  - {each}" for each in erasure.left)
        raise Trouble(f"erased as far as it can be; the server still has:{left}")
