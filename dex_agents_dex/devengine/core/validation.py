"""What a request must fulfil before it may change anything. Pure checks; no state lives here."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import invalid, unimplemented
from dex_agents_dex.devengine.core.retries import MINIMUM_HEARTBEAT_TIMEOUT

_RESERVED: Final = frozenset("/$:")
_LONGEST_NAME_BYTES: Final = 1024  # so that a page of a search fits a frame
_LONGEST_REMEMBERED_BYTES: Final = 1024  # of options that are known to be valid, or not


def require_startable(request: pb.StartFlowRequest) -> None:
    """Raise `Refusal` for a StartFlow that names no Flow or cannot be honoured."""
    for field in ("request_id", "flow_id", "flow_type"):
        name: str = getattr(request, field)
        if not name:
            raise invalid(f"StartFlow needs a {field}")
        if _is_long(name):
            raise invalid(f"{field} is longer than {_LONGEST_NAME_BYTES} bytes")
    _require_plain_name("flow_id", request.flow_id)
    _require_plain_name("Step type", request.start_step_type)
    if _is_long(request.start_step_type):
        raise invalid(f"the Step type is longer than {_LONGEST_NAME_BYTES} bytes")
    options = request.flow_start_options
    if request.flow_timeout_seconds < 0 or options.flow_start_delay_seconds < 0:
        raise invalid("a duration must not be negative")
    problem = step_options_problem(request.step_options)
    if problem is not None:
        raise invalid(f"options of Step {request.start_step_type!r}: {problem}")
    problem = _handler_problem(options.timeout_handler_options)
    if problem is not None:
        raise invalid(f"options of the timeout handler: {problem}")
    if options.HasField("retry_policy"):
        raise unimplemented("retries of a whole Flow")
    target = options.flow_config_override.worker_target
    if target.address and not target.is_pull_mode:
        raise unimplemented("push Workers; use WorkerTarget(pull=True)")
    for write in options.attributes:
        if not write.key:
            raise invalid("an initial Attribute has no key")


def step_options_problem(options: pb.StepOptions) -> str | None:
    """Step after Step has the same few options; such are looked at once."""
    serialized = options.SerializeToString()
    if len(serialized) > _LONGEST_REMEMBERED_BYTES:
        return _options_problem(options)
    return _remembered_problem(serialized)


@lru_cache(maxsize=256)
def _remembered_problem(serialized: bytes) -> str | None:
    return _options_problem(pb.StepOptions.FromString(serialized))


def _options_problem(options: pb.StepOptions) -> str | None:
    return (
        _timeout_problem(
            options.heartbeat_timeout_seconds,
            options.wait_for_timeout_seconds,
            options.execute_timeout_seconds,
        )
        or _retry_problem(options.wait_for_retry_policy)
        or _retry_problem(options.execute_retry_policy)
        or _route_problem(
            options.execute_failure_policy,
            options.execute_failure_proceed_step_type,
            options.execute_failure_proceed_step_options,
        )
    )


def movement_problem(movement: pb.StepMovement) -> str | None:
    """Why a movement cannot start a Step; None when it can."""
    return _step_problem(movement.step_type, movement.step_options)


def _step_problem(step_type: str, options: pb.StepOptions) -> str | None:
    if not step_type:
        return "a movement names no Step type"
    if not _is_plain(step_type):
        return f"Step type {step_type!r} holds a reserved character"
    if _is_long(step_type):
        return f"a movement's Step type is longer than {_LONGEST_NAME_BYTES} bytes"
    problem = step_options_problem(options)
    return None if problem is None else f"options of Step {step_type!r}: {problem}"


def _handler_problem(options: pb.FlowTimeoutHandlerOptions) -> str | None:
    return (
        _timeout_problem(options.heartbeat_timeout_seconds, options.method_timeout_seconds)
        or _retry_problem(options.retry_policy)
        or _route_problem(
            options.failure_policy,
            options.failure_proceed_step_type,
            options.failure_proceed_step_options,
        )
    )


def _timeout_problem(heartbeat_seconds: int, *method_seconds: int) -> str | None:
    minimum_seconds = int(MINIMUM_HEARTBEAT_TIMEOUT.total_seconds())
    if 0 < heartbeat_seconds < minimum_seconds:
        return (
            f"heartbeat_timeout of {heartbeat_seconds} s "
            f"is below the minimum of {minimum_seconds} s"
        )
    if min(heartbeat_seconds, *method_seconds) < 0:
        return "a timeout must not be negative"
    return None


def _route_problem(
    policy: pb.ExecuteMethodFailurePolicy, step_type: str, options: pb.StepOptions
) -> str | None:
    """Of the Step that takes over when `execute` is spent."""
    if policy != pb.EXECUTE_METHOD_FAILURE_POLICY_PROCEED_TO_CONFIGURED_STEP:
        return None
    return _step_problem(step_type, options)


def _retry_problem(policy: pb.RetryPolicy) -> str | None:
    if not (math.isfinite(policy.backoff_coefficient) and policy.backoff_coefficient >= 0):
        return f"a backoff coefficient of {policy.backoff_coefficient} makes no sense"
    smallest = min(
        policy.initial_interval_seconds,
        policy.maximum_interval_seconds,
        policy.maximum_attempts,
        policy.total_duration_seconds,
    )
    return "a retry policy must not hold negative numbers" if smallest < 0 else None


def _require_plain_name(what: str, name: str) -> None:
    if not _is_plain(name):
        raise invalid(f"{what} {name!r} must not contain any of {' '.join(sorted(_RESERVED))}")


def _is_long(name: str) -> bool:
    return len(name) > _LONGEST_NAME_BYTES or len(name.encode()) > _LONGEST_NAME_BYTES


def _is_plain(name: str) -> bool:
    return _RESERVED.isdisjoint(name)
