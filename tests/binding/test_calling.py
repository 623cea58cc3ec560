"""Which calls are tried again, and what is told when an earlier try was cut off: never that nothing was done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import dex
import grpc
import pytest
import pytest_asyncio

from dex_agents_dex import AgentSessionError, SessionBusy, SessionNotFound, WorkerFailed
from dex_agents_dex.calling import retrying
from dex_agents_dex.flow import agent_registry
from dex_agents_model import SessionId

SESSION: Final = SessionId("s")
LOST: Final = "a try before this one was cut off when its server went away, and may have counted"


def refusal(kind: type[dex.DexServiceError], code: grpc.StatusCode) -> dex.DexServiceError:
    return kind(code, dex.ErrorSubStatus.UNCATEGORIZED, "no", "invoke_rpc", SESSION)


CUT_OFF: Final = refusal(dex.DexServiceError, grpc.StatusCode.UNAVAILABLE)
LOCKED: Final = refusal(dex.RpcLockConflictError, grpc.StatusCode.ABORTED)
CLOSED: Final = refusal(dex.FlowNotActiveOrNotFoundError, grpc.StatusCode.NOT_FOUND)


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[dex.AsyncClient]:
    """It calls no server here."""
    cache = dex.open_blob_cache(dex.BlobCacheConfig(str(tmp_path), 1 << 20))
    async with dex.AsyncClient(agent_registry(), cache) as opened:
        yield opened
    cache.close()


@pytest.mark.parametrize(
    ("tries", "then", "told"),
    [
        ((CUT_OFF, LOCKED), SessionBusy, f"session 's' was busy; {LOST}: look first"),
        ((CUT_OFF, CLOSED), SessionNotFound, f"there is no open session 's'; {LOST}: look first"),
        ((LOCKED, LOCKED), SessionBusy, "session 's' was busy; nothing was done, try again"),
        ((LOCKED, CLOSED), SessionNotFound, "there is no open session 's'"),
    ],
)
async def test_retrying__says_whether_an_earlier_try_may_have_counted(
    client: dex.AsyncClient,
    tries: tuple[dex.DexServiceError, dex.DexServiceError],
    then: type[AgentSessionError],
    told: str,
) -> None:
    first, every_other = tries

    def errors() -> Iterator[dex.DexServiceError]:
        yield first
        while True:
            yield every_other

    of_tries = errors()

    async def call() -> None:
        raise next(of_tries)

    with pytest.raises(then) as raised:
        await retrying(client, SESSION, call, within=timedelta(seconds=1))

    assert str(raised.value) == told


@pytest.mark.parametrize(
    ("worker_code", "tries"),
    [(grpc.StatusCode.UNAVAILABLE, 2), (grpc.StatusCode.UNKNOWN, 1)],
    ids=["its Worker was killed", "its handler raised"],
)
async def test_retrying__asks_another_worker_when_one_is_lost(
    client: dex.AsyncClient, worker_code: grpc.StatusCode, tries: int
) -> None:
    failure = dex.WorkerInvocationError(
        code=grpc.StatusCode.FAILED_PRECONDITION,
        sub_status=dex.ErrorSubStatus.WORKER_API_ERROR,
        detail="no",
        operation="invoke_rpc",
        flow_id=SESSION,
        worker_code=worker_code,
        worker_error_type="",
        worker_error_detail="gone",
    )
    tried = 0

    async def call() -> str:
        nonlocal tried
        tried += 1
        if tried < 2:
            raise failure
        return "answered"

    if tries == 2:
        assert await retrying(client, SESSION, call) == "answered"
    else:
        with pytest.raises(WorkerFailed, match="gone"):
            await retrying(client, SESSION, call)
    assert tried == tries
