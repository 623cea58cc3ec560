"""What a request must fulfil before it may change anything. Pure checks; no state lives here."""

from __future__ import annotations

import math
from typing import Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import invalid, unimplemented
from dex_agents_dex.devengine.core.retries import MINIMUM_HEARTBEAT_TIMEOUT

_RESERVED: Final = "/$:"
_LONGEST_NAME_BYTES: Final = 1024  # so that a page of a search fits a frame


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
    problem = _retry_problem(options.timeout_handler_options.retry_policy)
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
    minimum_seconds = int(MINIMUM_HEARTBEAT_TIMEOUT.total_seconds())
    if 0 < options.heartbeat_timeout_seconds < minimum_seconds:
        return (
            f"heartbeat_timeout of {options.heartbeat_timeout_seconds} s "
            f"is below the minimum of {minimum_seconds} s"
        )
    if (
        min(
            options.heartbeat_timeout_seconds,
            options.wait_for_timeout_seconds,
            options.execute_timeout_seconds,
        )
        < 0
    ):
        return "a timeout must not be negative"
    return _retry_problem(options.wait_for_retry_policy) or _retry_problem(
        options.execute_retry_policy
    )


def movement_problem(movement: pb.StepMovement) -> str | None:
    """Why a movement cannot start a Step; None when it can."""
    if not movement.step_type:
        return "a movement names no Step type"
    if not _is_plain(movement.step_type):
        return f"Step type {movement.step_type!r} holds a reserved character"
    if _is_long(movement.step_type):
        return f"a movement's Step type is longer than {_LONGEST_NAME_BYTES} bytes"
    problem = step_options_problem(movement.step_options)
    return None if problem is None else f"options of Step {movement.step_type!r}: {problem}"


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
        raise invalid(f"{what} {name!r} must not contain any of {' '.join(_RESERVED)}")


def _is_long(name: str) -> bool:
    return len(name) > _LONGEST_NAME_BYTES or len(name.encode()) > _LONGEST_NAME_BYTES


def _is_plain(name: str) -> bool:
    return not any(character in _RESERVED for character in name)
