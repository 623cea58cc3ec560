"""A Dex Step class from each line of the model's table. Nothing about a Step is stated here."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Final

import dex

from dex_agents_model.decision import EndBranch, GoTo, StepDecision
from dex_agents_model.events import StepMethod
from dex_agents_model.interpreter import plan_wait, run_step
from dex_agents_model.runner import RunnerFailed
from dex_agents_model.spec import Limits, Lock, Spec
from dex_agents_model.steps import Step
from dex_agents_model.table import SPEC_OF, SPECS
from dex_agents_model.text import is_storable

from .loads import Loading, call_of, loads_of
from .port import DexStepPort, SessionBinding, dex_wait
from .schema import LOCKS

_LOG: Final = logging.getLogger(__name__)


class SessionStep(dex.Step[Any]):
    """One Step of the table, bound to one Flow type's runner and options."""

    spec: ClassVar[Spec[Any, Any]]

    def __init__(self, binding: SessionBinding) -> None:
        self._binding = binding

    def get_step_type(self) -> str:
        return self.spec.step.__name__

    def get_step_options(self) -> dex.StepOptions:
        return _routed(self.spec.step, lambda _: ())

    async def run_wait_for(self, context: dex.AsyncContext, step: Step) -> dex.Wait:
        """wait_for of every Step that waits."""
        port = DexStepPort(self._binding, context, StepMethod.WAIT_FOR)
        with (
            _sendable_errors(),
            closing(port),
            self._binding.watch(context, step, port) as watched,
        ):
            return dex_wait(plan_wait(step, watched).wait)

    async def run_execute(self, context: dex.AsyncContext, step: Step) -> dex.StepDecision:
        """execute of every Step."""
        port = DexStepPort(self._binding, context, StepMethod.EXECUTE)
        with (
            _sendable_errors(),
            closing(port),
            self._binding.watch(context, step, port) as watched,
        ):
            decision = await run_step(step, watched)
        loading = Loading(context.run_id, port.known, self._binding.cache)
        return _dex_decision(decision, loading)


@contextmanager
def _sendable_errors() -> Iterator[None]:
    """Lets an error go in a form that the SDK can send: with its whole chain, as text in UTF-8.

    Where it cannot, the SDK loses the Worker's stream instead, and the attempt hangs.
    """
    try:
        yield
    except Exception as error:
        if is_storable("".join(traceback.format_exception(error))):
            raise
        _LOG.warning("an error is sent without its causes: UTF-8 cannot hold them", exc_info=True)
        raise RunnerFailed(str(error)) from None


def _options(entry: Spec[Any, Any]) -> dex.StepOptions:
    limits = entry.limits
    waiting, loads = loads_of(entry.wait_reads), loads_of(entry.reads)
    return dex.StepOptions(
        wait_for_method_timeout=limits.attempt_timeout,
        execute_method_timeout=limits.attempt_timeout,
        heartbeat_timeout=limits.heartbeat_timeout,
        wait_for_retry=_retry(limits),
        execute_retry=_retry(limits),
        wait_for_durability=dex.StepDurability.SYNC,
        execute_durability=dex.StepDurability.SYNC,
        wait_for_lock_attributes=_locks(entry.wait_locks),
        execute_lock_attributes=_locks(entry.execute_locks),
        wait_for_load_attribute_maps=waiting.maps if entry.wait else (),
        wait_for_load_channels=waiting.channels if entry.wait else (),
        wait_for_load_channel_maps=waiting.channel_maps if entry.wait else (),
        execute_load_attribute_maps=loads.maps,
        execute_load_channels=loads.channels,
        execute_load_channel_maps=loads.channel_maps,
    )


def _retry(limits: Limits) -> dex.RetryPolicy:
    return dex.RetryPolicy(
        initial_interval=limits.first_interval,
        backoff_coefficient=2.0,
        maximum_interval=limits.longest_interval,
        maximum_attempts=limits.attempts or 0,
        total_duration=limits.within,
    )


def _locks(locks: tuple[Lock, ...]) -> tuple[dex.AttributeLock, ...]:
    return tuple(LOCKS[lock] for lock in locks)


def _annotated(run: Callable[..., Any], step_type: type[Step], returns: type[Any]) -> Any:
    """A handler with the input type that Dex's Registry reads from its hints."""

    async def handler(self: SessionStep, context: dex.AsyncContext, step: Step) -> Any:
        return await run(self, context, step)

    handler.__annotations__ = {"context": dex.AsyncContext, "step": step_type, "return": returns}
    return handler


def _step_class(entry: Spec[Any, Any]) -> type[SessionStep]:
    body: dict[str, object] = {
        "__doc__": entry.step.__doc__,
        "__module__": __name__,
        "spec": entry,
        "execute": _annotated(SessionStep.run_execute, entry.step, dex.StepDecision),
    }
    if entry.wait is not None:  # Dex skips wait_for only where a Step does not have its own
        body["wait_for"] = _annotated(SessionStep.run_wait_for, entry.step, dex.Wait)
    return type(entry.step.__name__, (SessionStep,), body)


STEP_CLASSES: Final[Mapping[type[Step], type[SessionStep]]] = MappingProxyType(
    {entry.step: _step_class(entry) for entry in SPECS}
)


_UNROUTED: Final = MappingProxyType({entry.step: _options(entry) for entry in SPECS})


def _routed(
    step: type[Step], loads: Callable[[type[Step]], tuple[dex.AttributeMapLoad, ...]]
) -> dex.StepOptions:
    """The options of a Step and of its failure route, each with the entries that it is to load.

    Dex does not merge: options of a movement replace those of its Step, and a route has its own.
    """
    route = SPEC_OF[step].limits.on_exhausted
    options = _loading(step, loads(step))
    if route is None:
        return options
    return options.on_execute_failure_proceed_to(STEP_CLASSES[route], _loading(route, loads(route)))


def _loading(step: type[Step], loads: tuple[dex.AttributeMapLoad, ...]) -> dex.StepOptions:
    if not loads:
        return _UNROUTED[step]
    spec = SPEC_OF[step]
    waits_on_them = spec.wait is not None and spec.wait_reads is spec.reads
    return replace(
        _UNROUTED[step],
        wait_for_load_attribute_map_instances=loads if waits_on_them else (),
        execute_load_attribute_map_instances=loads,
    )


def movement(step: Step, loading: Loading) -> dex.StepMovement[Any]:
    """A movement to ``step``, which loads no more of the session than it needs."""
    call = call_of(step)
    options = _routed(type(step), lambda each: loading.entries_for(each, call))
    timeout = loading.timeout_of(step)
    if timeout is not None:
        options = replace(options, execute_method_timeout=timeout)
    return dex.StepMovement.of(STEP_CLASSES[type(step)], step, options=options)


def _dex_decision(decision: StepDecision, loading: Loading) -> dex.StepDecision:
    match decision.next:
        case EndBranch():
            return dex.dead_end()
        case GoTo(steps):
            return dex.go_to_many(*(movement(step, loading) for step in steps))
