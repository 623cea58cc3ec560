"""What a Worker keeps of what it has decoded: what its sessions read again, and never more than it may."""

from __future__ import annotations

from attrs import evolve

from dex_agents_dex.record_cache import RecordCache
from dex_agents_model import AgentMessage, ToolCallId, TurnId
from dex_agents_model.calls import Runnable, Succeeded
from tests.wire.samples import MESSAGE, REQUESTED

FIRST, SECOND = TurnId.of(1), TurnId.of(2)
CALL = ToolCallId("call-1")
DONE = Succeeded(evolve(REQUESTED, tool_call_id=CALL), "found")
ROOM_FOR_THREE_BYTES = 3 * 1600


def large(*sequences: int) -> tuple[AgentMessage, ...]:
    """Messages of which three fit into ``ROOM_FOR_THREE_BYTES``, and no four."""
    text = evolve(MESSAGE, framework_item="x" * 1000, text=None, output=None)
    return tuple(evolve(text, sequence=sequence) for sequence in sequences)


def kept(cache: RecordCache, run_id: str) -> list[int]:
    return list(cache.messages(run_id))


def test_cache__gives_back_what_it_keeps_of_a_run_and_a_turn() -> None:
    cache, (message,) = RecordCache(), large(7)
    cache.keep_messages("run", [message])
    cache.keep_calls("run", FIRST, [DONE])

    assert (cache.messages("run"), cache.final_calls("run", FIRST)) == ({7: message}, {CALL: DONE})
    assert (cache.messages("other"), cache.final_calls("other", FIRST)) == ({}, {})
    assert cache.final_calls("run", SECOND) == {}


def test_cache__keeps_no_call_that_may_still_change() -> None:
    cache = RecordCache()
    cache.keep_calls("run", FIRST, [Runnable(REQUESTED)])

    assert cache.final_calls("run", FIRST) == {}


def test_cache__drops_the_run_that_was_used_longest_ago() -> None:
    cache = RecordCache(ROOM_FOR_THREE_BYTES)
    for run_id in ("a", "b", "c"):
        cache.keep_messages(run_id, large(1))
    assert kept(cache, "a") == [1]

    cache.keep_messages("d", large(1))

    assert [kept(cache, run_id) for run_id in "abcd"] == [[1], [], [1], [1]]


def test_cache__keeps_of_a_run_that_is_too_large_what_it_has() -> None:
    cache = RecordCache(ROOM_FOR_THREE_BYTES)
    cache.keep_messages("other", large(1))

    cache.keep_messages("run", large(1, 2, 3, 4))
    cache.keep_calls("run", FIRST, [Succeeded(DONE.call, "x" * 1000)])

    assert (kept(cache, "other"), kept(cache, "run")) == ([], [1, 2, 3])
    assert cache.final_calls("run", FIRST) == {}


def test_cache__drops_what_no_step_of_the_run_reads_again() -> None:
    cache = RecordCache()
    for run_id in ("mine", "other"):
        cache.keep_messages(run_id, large(1, 2, 3, 4))
        for turn in (FIRST, SECOND):
            cache.keep_calls(run_id, turn, [DONE])

    cache.leave_behind("mine", 3, SECOND)

    assert (kept(cache, "mine"), kept(cache, "other")) == ([4], [1, 2, 3, 4])
    calls = [cache.final_calls(run, turn) for run in ("mine", "other") for turn in (FIRST, SECOND)]
    assert calls == [{}, {CALL: DONE}, {CALL: DONE}, {CALL: DONE}]


def test_cache__has_room_again_for_what_it_dropped() -> None:
    cache = RecordCache(ROOM_FOR_THREE_BYTES)
    for sequence in range(1, 7):
        cache.leave_behind("run", sequence - 1, FIRST)
        cache.keep_messages("run", large(sequence))
    cache.keep_calls("run", FIRST, [DONE])
    cache.leave_behind("run", 6, SECOND)

    for run_id in ("a", "b", "c"):
        cache.keep_messages(run_id, large(1))

    assert [kept(cache, run_id) for run_id in ("run", "a", "b", "c")] == [[], [1], [1], [1]]
