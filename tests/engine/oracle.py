"""What one running Flow should do, told a second time: Attributes, Channels, Waits and locks.

Written from the rules, with nothing of the engine's code: plain dictionaries and lists, whole
seconds, integers for values. It has no failures, retries or restarts; other tests have. No rule is
asserted here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from attrs import Factory, define, frozen


@frozen
class Need:
    """A Channel condition; a missing bound is None."""

    channel: str
    at_least: int | None
    at_most: int | None

    @property
    def fewest(self) -> int:
        if self.at_least is not None:
            return self.at_least
        return 0 if self.at_most is not None else 1

    @property
    def most(self) -> int | None:
        return 1 if self.at_least is None and self.at_most is None else self.at_most


@frozen
class Condition:
    is_any: bool
    timers: tuple[int, ...]  # durations
    needs: tuple[Need, ...]


@frozen
class StepPlan:
    """How a movement asks for a Step."""

    step_type: str
    has_wait_for: bool
    wait_for_locks: frozenset[str]
    execute_locks: frozenset[str]


@frozen
class Seen:
    """What a method is given: Attributes, sizes of Channels, and what its Wait took."""

    attributes: dict[str, int]
    sizes: dict[str, int]
    taken: tuple[tuple[int, ...], ...] = ()


@frozen
class Effects:
    writes: dict[str, int | None] = Factory(dict)  # None deletes
    published: tuple[tuple[str, int], ...] = ()
    movements: tuple[StepPlan, ...] = ()


@define
class ModelStep:
    plan: StepPlan
    phase: str  # wait_for, waiting, execute
    state: str = ""  # of a method: in line, or offered
    condition: Condition | None = None
    dues: list[int] = Factory(list)
    taken: tuple[tuple[int, ...], ...] = ()
    seen: Seen | None = None

    @property
    def locks(self) -> frozenset[str]:
        return self.plan.wait_for_locks if self.phase == "wait_for" else self.plan.execute_locks


@define
class Oracle:
    now: int = 0
    attributes: dict[str, int] = Factory(dict)
    channels: dict[str, list[int]] = Factory(dict)
    steps: dict[str, ModelStep] = Factory(dict)  # in execution order
    held: dict[str, str] = Factory(dict)  # who holds a key: a Step's id, or an RPC's name
    line: list[str] = Factory(list)
    _beginning: list[str] = Factory(list)  # methods, in this command
    _started: dict[str, int] = Factory(dict)

    def picture(self) -> dict[str, object]:
        return {
            "attributes": self.attributes,
            "channels": {name: values for name, values in self.channels.items() if values},
            "steps": {
                name: (step.phase, step.state if step.phase != "waiting" else "")
                for name, step in self.steps.items()
            },
        }

    # --- commands -----------------------------------------------------------------------------

    def open_rpc(self, name: str, locks: frozenset[str]) -> Seen | None:
        """What its handler is given; None for a conflict."""
        if any(key in self.held for key in locks):
            return None
        self.held.update(dict.fromkeys(locks, name))
        return self._look()

    def finish_rpc(self, name: str, effects: Effects) -> None:
        self._apply(effects)
        self._let_go(name)
        self._settle()

    def finish_execute(self, name: str, effects: Effects) -> None:
        del self.steps[name]
        self._apply(effects)
        self._let_go(name)
        self._settle()

    def finish_wait_for(self, name: str, condition: Condition | None, effects: Effects) -> None:
        step = self.steps[name]
        self._apply(effects)
        self._let_go(name)
        if condition is None:
            step.phase = "execute"
            self._beginning.append(name)
        else:
            step.phase, step.condition = "waiting", condition
            step.dues = [self.now + seconds for seconds in condition.timers]
        self._settle()

    def skip_timer(self, name: str, index: int) -> None:
        self.steps[name].dues[index] = self.now
        self._settle()

    def pass_time(self, seconds: int) -> None:
        """Second by second, as timers fire one after the other."""
        for _ in range(seconds):
            self.now += 1
            self._settle()

    # --- rules --------------------------------------------------------------------------------

    def _apply(self, effects: Effects) -> None:
        for key, value in effects.writes.items():
            if value is None:
                self.attributes.pop(key, None)
            else:
                self.attributes[key] = value
        for channel, value in effects.published:
            self.channels.setdefault(channel, []).append(value)
        for plan in effects.movements:
            number = self._started[plan.step_type] = self._started.get(plan.step_type, 0) + 1
            phase = "wait_for" if plan.has_wait_for else "execute"
            name = f"{plan.step_type}-{number}"
            self.steps[name] = ModelStep(plan, phase)
            self._beginning.append(name)

    def _let_go(self, owner: str) -> None:
        self.held = {key: holder for key, holder in self.held.items() if holder != owner}

    def _settle(self) -> None:
        for name, step in self.steps.items():
            if step.phase == "waiting" and self._is_over(step):
                step.phase = "execute"
                self._beginning.append(name)
        offered = []
        for name in self._beginning:
            step = self.steps[name]
            if step.locks:
                step.state = "in line"
                self.line.append(name)
            else:
                offered.append(name)
        self._beginning.clear()
        for name in (*offered, *self._granted()):
            step = self.steps[name]
            step.state, step.seen = "offered", self._look(step.taken)

    def _granted(self) -> list[str]:
        """Those in line whose keys are free, and wanted by nobody before them."""
        granted, wanted = [], set[str]()
        for name in self.line:
            locks = self.steps[name].locks
            if not any(key in self.held or key in wanted for key in locks):
                self.held.update(dict.fromkeys(locks, name))
                granted.append(name)
            wanted |= locks
        self.line = [name for name in self.line if name not in granted]
        return granted

    def _is_over(self, step: ModelStep) -> bool:
        """Whether a Wait is over; if so, its messages are taken."""
        condition = step.condition
        assert condition is not None
        for timers, needs in _candidates(condition):
            counts = self._counts([condition.needs[index] for index in needs])
            if counts is None or any(step.dues[index] > self.now for index in timers):
                continue
            taken: list[tuple[int, ...]] = [()] * len(condition.needs)
            for index, count in zip(needs, counts, strict=True):
                queue = self.channels.get(condition.needs[index].channel, [])
                taken[index] = tuple(queue[:count])
                del queue[:count]
            step.taken = tuple(taken)
            return True
        return False

    def _counts(self, needs: list[Need]) -> list[int] | None:
        """How many messages each takes: all minimums first, then each as much as it may."""
        left = {name: len(values) for name, values in self.channels.items()}
        for need in needs:
            left[need.channel] = left.get(need.channel, 0) - need.fewest
            if left[need.channel] < 0:
                return None
        counts = []
        for need in needs:
            room = left[need.channel] if need.most is None else need.most - need.fewest
            extra = min(room, left[need.channel])
            left[need.channel] -= extra
            counts.append(need.fewest + extra)
        return counts

    def _look(self, taken: tuple[tuple[int, ...], ...] = ()) -> Seen:
        sizes = {name: len(values) for name, values in self.channels.items() if values}
        return Seen(dict(self.attributes), sizes, taken)


def _candidates(condition: Condition) -> Iterator[tuple[list[int], list[int]]]:
    timers, needs = range(len(condition.timers)), range(len(condition.needs))
    if condition.is_any:
        yield from chain((([i], []) for i in timers), (([], [i]) for i in needs))
    else:
        yield list(timers), list(needs)
