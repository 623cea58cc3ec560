"""What a caller is told of a change when an earlier try of it was cut off: never that nothing was done."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import dex
import grpc
import pytest

from dex_agents_dex import AgentSessionError, SessionBusy, SessionNotFound
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
    tmp_path_factory: pytest.TempPathFactory,
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

    config = dex.BlobCacheConfig(str(tmp_path_factory.mktemp("blobs")), 1 << 20)
    cache = dex.open_blob_cache(config)
    async with dex.AsyncClient(agent_registry(), cache) as client:
        with pytest.raises(then) as raised:
            await retrying(client, SESSION, call, within=timedelta(seconds=1))
    cache.close()

    assert str(raised.value) == told
