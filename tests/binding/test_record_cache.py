"""What a Worker keeps of what it has decoded: what its sessions read again, and never more than it may."""

from __future__ import annotations

from attrs import evolve

from dex_agents_dex.record_cache import CallKey, MessageKey, RecordCache
from dex_agents_model import ToolCallId, TurnId
from dex_agents_model.calls import Runnable, Succeeded
from tests.wire.samples import MESSAGE, REQUESTED

FIRST, SECOND = TurnId.of(1), TurnId.of(2)
CALL = ToolCallId("call-1")
DONE = Succeeded(REQUESTED, "found")


def message_keys(run_id: str, last: int) -> list[MessageKey]:
    return [MessageKey(run_id, sequence) for sequence in range(1, last + 1)]


def test_cache__gives_back_what_it_keeps() -> None:
    cache, message, call = RecordCache(), MessageKey("run", 1), CallKey("run", FIRST, CALL)
    cache.keep(message, MESSAGE)
    cache.keep(call, DONE)

    assert (cache.message(message), cache.final_call(call)) == (MESSAGE, DONE)
    assert (
        cache.message(MessageKey("other", 1)),
        cache.final_call(CallKey("run", SECOND, CALL)),
    ) == (*(None, None),)


def test_cache__keeps_no_call_that_may_still_change() -> None:
    cache, call = RecordCache(), CallKey("run", FIRST, CALL)
    cache.keep(call, Runnable(REQUESTED))

    assert (call in cache, cache.final_call(call)) == (False, None)


def test_cache__drops_what_was_used_longest_ago() -> None:
    large = evolve(MESSAGE, framework_item="x" * 1000, text=None, output=None)
    cache, keys = RecordCache(capacity_bytes=3 * 1600), message_keys("run", 4)
    for key in keys[:3]:
        cache.keep(key, large)
    assert cache.message(keys[0]) == large

    cache.keep(keys[3], large)

    assert [key in cache for key in keys] == [True, False, True, True]


def test_cache__drops_what_no_step_of_the_run_reads_again() -> None:
    cache = RecordCache()
    mine, others = message_keys("run", 4), message_keys("other", 4)
    for key in (*mine, *others):
        cache.keep(key, MESSAGE)
    calls = [CallKey(run, turn, CALL) for run in ("run", "other") for turn in (FIRST, SECOND)]
    for call in calls:
        cache.keep(call, DONE)

    cache.leave_behind("run", 3, SECOND)

    assert [key in cache for key in mine] == [False, False, False, True]
    assert [key in cache for key in others] == [True] * 4
    assert [call in cache for call in calls] == [False, True, True, True]


def test_cache__has_room_again_for_what_it_dropped() -> None:
    cache, keys = RecordCache(capacity_bytes=3 * 1600), message_keys("run", 6)
    large = evolve(MESSAGE, framework_item="x" * 1000, text=None, output=None)
    for sequence, key in enumerate(keys):
        cache.leave_behind("run", sequence, FIRST)
        cache.keep(key, large)

    cache.leave_behind("run", len(keys), FIRST)
    for key in message_keys("other", 3):
        cache.keep(key, large)

    assert [key in cache for key in (*keys, *message_keys("other", 3))] == [False] * 6 + [True] * 3
