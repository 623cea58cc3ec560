"""The FlowService's long polls on a run: until it closes, until a Step ends, until a value is there.

A run that is waited for stays in memory. What is answered is durable first.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import invalid, not_running
from dex_agents_dex.devengine.core.matching import matches, require_match
from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.core.values import blob_id_of
from dex_agents_dex.devengine.loading import load_blobs
from dex_agents_dex.devengine.server.calls import Calls, Poll
from dex_agents_dex.devengine.server.refusals import answers_refusals

_DIGITS_OF_INT64: Final = 19


class WaitingCalls(Calls):
    @answers_refusals
    async def WaitForFlow(self, request: pb.WaitForFlowRequest) -> pb.FlowResult:
        run = await self._hub.library.find(request.flow_id, request.run_id)
        still = f"Flow {run.flow_id!r} is still running"
        poll = Poll.of_wait_time(self._hub.waiters, request.wait_time_seconds, still)
        await poll.until(run.key, lambda: not run.is_running)
        await self._hub.store.barrier()
        result = pb.FlowResult(
            flow_status=run.status,
            results=run.outputs if request.needs_results else (),
            error_type=run.error_type,
            error_message=run.error_message,
        )
        return self.sendable(result, f"the outputs of Flow {run.flow_id!r}")

    @answers_refusals
    async def WaitForStepCompletion(
        self, request: pb.WaitForStepCompletionRequest
    ) -> pb.WaitForStepCompletionResponse:
        number = _execution_number(request)
        run = await self._hub.library.find(request.flow_id)
        step_id = f"{request.step_type}-{number}"
        poll = Poll.of_budget(
            self._hub.waiters, request.request_timeout_seconds, f"{step_id} has not completed"
        )

        def has_completed() -> bool:
            return _has_completed(run, request.step_type, number)

        await poll.until(run.key, lambda: has_completed() or not run.is_running)
        if not has_completed():
            raise not_running(run.flow_id)
        await self._hub.store.barrier()
        return pb.WaitForStepCompletionResponse()

    @answers_refusals
    async def WaitForAttribute(
        self, request: pb.WaitForAttributeRequest
    ) -> pb.WaitForAttributeResponse:
        match = request.match
        require_match(match)
        run = await self._hub.library.find(request.flow_id)
        poll = Poll.of_budget(
            self._hub.waiters, request.request_timeout_seconds, f"{match.key!r} does not match"
        )
        was_running = run.is_running
        while was_running:  # what the last commit of a Flow wrote counts, for those who waited
            if not run.attributes.knows(match.key):
                await self._hub.library.bring(run, (match.key,))
                continue
            value = run.attributes.get(match.key)
            content = None if value is None else await self._content(run, value)
            if matches(match, content):
                await self._hub.store.barrier()
                found = pb.WaitForAttributeResponse(matched_value=content)
                return self.sendable(found, f"Attribute {match.key!r} of Flow {run.flow_id!r}")
            if not run.is_running:
                break
            await poll.until(run.key, partial(_differs, run, match.key, value))
        raise not_running(run.flow_id)

    async def _content(self, run: Run, value: pb.Value) -> pb.Value:
        """A value as it was written: the one of a blob, for the id that stands for it."""
        blob_id = blob_id_of(value)
        if not blob_id:
            return value
        ids = [(run.flow_id, blob_id)]
        with run.attributes.being_read():  # so that it stays in memory meanwhile
            found = await self._hub.store.read(lambda db: load_blobs(db, ids))
        if not found:
            raise not_running(run.flow_id)  # it was dropped meanwhile
        return pb.Value.FromString(found[blob_id])

    @answers_refusals
    async def WaitForHistoryEvent(
        self, request: pb.WaitForHistoryEventRequest
    ) -> pb.WaitForHistoryEventResponse:
        run = await self._hub.library.find(request.flow_id, request.run_id)
        poll = Poll.of_wait_time(self._hub.waiters, 0, "no further history event")
        wanted = request.next_internal_event_id
        await poll.until(run.key, lambda: run.next_event > wanted or not run.is_running)
        await self._hub.store.barrier()
        return pb.WaitForHistoryEventResponse(
            event_available=run.next_event > wanted,
            available_internal_event_id=run.next_event - 1,
            flow_status=run.status,
        )


def _differs(run: Run, key: str, seen: pb.Value | None) -> bool:
    """Whether to look again; an entry that left memory may have changed."""
    attributes = run.attributes
    return not attributes.knows(key) or attributes.get(key) is not seen or not run.is_running


def _execution_number(request: pb.WaitForStepCompletionRequest) -> int:
    number = request.step_execution_number
    is_number = number.isascii() and number.isdigit() and len(number) < _DIGITS_OF_INT64
    if not request.step_type or not is_number or int(number) == 0:
        raise invalid("a Step execution is named by its type and a number from 1")
    return int(number)


def _has_completed(run: Run, step_type: str, number: int) -> bool:
    """Started, and neither active nor dropped by the Flow's end."""
    return (
        number <= run.counters.get(step_type, 0)
        and not run.is_step_active(step_type, number)
        and f"{step_type}-{number}" not in run.abandoned
    )
