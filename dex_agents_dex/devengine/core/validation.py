"""What a request must fulfil before it may change anything. Pure checks; no state lives here."""

from __future__ import annotations

from typing import Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import invalid, unimplemented
from dex_agents_dex.devengine.core.retries import MINIMUM_HEARTBEAT_TIMEOUT

_RESERVED: Final = "/$:"


def require_startable(request: pb.StartFlowRequest) -> None:
    """Raise `Refusal` for a StartFlow that names no Flow or cannot be honoured."""
    for field in ("request_id", "flow_id", "flow_type"):
        if not getattr(request, field):
            raise invalid(f"StartFlow needs a {field}")
    _require_plain_name("flow_id", request.flow_id)
    _require_plain_name("Step type", request.start_step_type)
    if request.flow_timeout_seconds < 0 or request.flow_start_options.flow_start_delay_seconds < 0:
        raise invalid("a duration must not be negative")
    problem = step_options_problem(request.step_options)
    if problem is not None:
        raise invalid(f"options of Step {request.start_step_type!r}: {problem}")
    options = request.flow_start_options
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
    return None


def _require_plain_name(what: str, name: str) -> None:
    if any(character in _RESERVED for character in name):
        raise invalid(f"{what} {name!r} must not contain any of {' '.join(_RESERVED)}")
