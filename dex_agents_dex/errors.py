"""What can go wrong for those who use sessions from outside. Each message says what, where and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import dex
import grpc

SHUT: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
"""How a server answers whom it does not let in."""

_MAY_HAVE_COUNTED: Final = (
    "a try before this one was cut off when its server went away, and may have counted: look first"
)
_NOT_OPEN: Final = (dex.FlowNotActiveOrNotFoundError, dex.FlowClosingError)


class AgentSessionError(Exception):
    """The base of this package's errors."""


class SessionNotFound(AgentSessionError):
    """There is no such session, or it is closed and what was asked needs an open one."""


class SessionAlreadyExists(AgentSessionError):
    """The session's ID was used before, with another first message or another Flow type."""


class TurnNotFound(AgentSessionError):
    """The session has not begun such a turn."""


class MessageRefused(AgentSessionError):
    """The session did not take the message: it is blank or too long, or too much waits already."""


class SessionBusy(AgentSessionError):
    """Others kept changing the session. Ask again: nothing was done, unless the message says otherwise."""


class EngineUnavailable(AgentSessionError):
    """No Dex server answers, or none could be started."""


class AccessDenied(AgentSessionError):
    """The Dex server asks for a token that it knows, or there is none to be read in the token file."""


class FlowNotBound(AgentSessionError):
    """A Flow was asked for what needs a client, and was given none."""


class WorkerFailed(AgentSessionError):
    """No Worker answered for the session's Flow type, or its handler raised."""


def _certain() -> bool:
    return False


@contextmanager
def clear_errors(
    session_id: str,
    server: dex.ClientOptions,
    *,
    may_have_counted: Callable[[], bool] = _certain,
) -> Iterator[None]:
    """Turns what the SDK raises about one session on a server into this package's errors.

    ``may_have_counted`` says whether a try before the one that failed was cut off before its answer came.
    """
    try:
        yield
    except dex.FlowAlreadyStartedError as error:
        raise SessionAlreadyExists(
            f"session {session_id!r} exists already, and was started with another message or as"
            " another Flow type; choose another ID, or send it the message"
        ) from error
    except dex.FlowNotFoundError as error:
        raise SessionNotFound(f"there is no session {session_id!r}") from error
    except _NOT_OPEN as error:
        uncertain = f"; {_MAY_HAVE_COUNTED}" if may_have_counted() else ""
        raise SessionNotFound(f"there is no open session {session_id!r}{uncertain}") from error
    except dex.RpcLockConflictError as error:
        done = _MAY_HAVE_COUNTED if may_have_counted() else "nothing was done, try again"
        raise SessionBusy(f"session {session_id!r} was busy; {done}") from error
    except dex.WorkerInvocationError as error:
        said = error.worker_error_detail or error.detail or "no Worker serves its Flow type"
        raise WorkerFailed(f"session {session_id!r} got no answer from a Worker: {said}") from error
    except dex.DexServiceError as error:
        said = error.detail or error.code.name
        if is_unreachable(error):
            raise EngineUnavailable(
                f"no Dex server answers at {server.server_address}: {said}"
            ) from error
        if error.code in SHUT:
            raise denied(server.server_address, server.credential, said) from error
        raise


def denied(address: str, credential: dex.Credential | None, said: str) -> AccessDenied:
    """What a server means that lets a call with this credential not in."""
    if credential is None:
        return AccessDenied(f"the Dex server at {address} asks for a token: {said}")
    return AccessDenied(f"the Dex server at {address} does not take the token: {said}")


def is_unreachable(error: dex.DexServiceError) -> bool:
    """Whether the call may have met no server at all."""
    return error.code is grpc.StatusCode.UNAVAILABLE
