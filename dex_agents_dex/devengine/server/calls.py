"""What the parts of the FlowService share: the hub, and how long a poll may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from attrs import define
from dex.dexpb import dex_pb2 as pb
from google.protobuf.message import Message

from dex_agents_dex.devengine.core.errors import Refusal, invalid
from dex_agents_dex.devengine.server.hub import Hub
from dex_agents_dex.devengine.server.waiters import Waiters

Answer = TypeVar("Answer", bound=Message)

_LONGEST_POLL_SECONDS: Final = 60.0


class Calls:
    """A part of the FlowService over the hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def sendable(self, answer: Answer, what: str) -> Answer:
        """The answer itself; raise `Refusal` for one that no client could receive."""
        size_bytes, limit_bytes = answer.ByteSize(), self._hub.settings.frame_limit_bytes
        if size_bytes > limit_bytes:
            raise Refusal(
                "FAILED_PRECONDITION",
                f"{what} would take {size_bytes} bytes, and the limit is {limit_bytes}",
            )
        return answer


@define
class Poll:
    """A wait in real time, whatever the engine's clock says.

    The caller's own budget, when it is the shorter one, ends it as a request timeout; the engine's
    cap ends it as a long poll's, upon which the SDK asks again.
    """

    _waiters: Waiters
    _end: float
    _over: Refusal

    @classmethod
    def of_wait_time(cls, waiters: Waiters, seconds: int, detail: str) -> Poll:
        """For calls that name a wait time; 0 stands for the engine's cap."""
        _require_not_negative(seconds)
        allowed = min(seconds or _LONGEST_POLL_SECONDS, _LONGEST_POLL_SECONDS)
        return cls(waiters, _now() + allowed, _long_poll_over(detail))

    @classmethod
    def of_budget(cls, waiters: Waiters, seconds: int, detail: str) -> Poll:
        """For calls that name their whole budget; 0 stands for none."""
        _require_not_negative(seconds)
        if 0 < seconds <= _LONGEST_POLL_SECONDS:
            over = Refusal("DEADLINE_EXCEEDED", detail, pb.ERROR_SUB_STATUS_REQUEST_TIMEOUT)
            return cls(waiters, _now() + seconds, over)
        return cls(waiters, _now() + _LONGEST_POLL_SECONDS, _long_poll_over(detail))

    async def until(self, subject: Hashable, is_due: Callable[[], bool]) -> None:
        """Return once it is due, asking at each change of the subject.

        Raise `Refusal` when the time is over.
        """
        while not is_due():
            remaining = self._end - _now()
            if remaining <= 0 or not await self._waiters.wait(subject, remaining, is_due):
                raise self._over


def _long_poll_over(detail: str) -> Refusal:
    return Refusal("DEADLINE_EXCEEDED", detail, pb.ERROR_SUB_STATUS_LONG_POLL_TIME_OUT)


def _require_not_negative(seconds: int) -> None:
    if seconds < 0:
        raise invalid("a wait time must not be negative")


def _now() -> float:
    return asyncio.get_running_loop().time()
