"""What the engine refuses, in words that a transport can put on the wire.

Codes are names, not `grpc.StatusCode`: the core knows no transport.
"""

from __future__ import annotations

from typing import Final, Literal

from attrs import frozen
from dex.dexpb import dex_pb2 as pb

Code = Literal[
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "ABORTED",
    "FAILED_PRECONDITION",
    "DEADLINE_EXCEEDED",
    "UNIMPLEMENTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "INTERNAL",
]

CANCELLED_STATUS: Final = 1
DEADLINE_EXCEEDED_STATUS: Final = 4
INTERNAL_STATUS: Final = 13
UNAVAILABLE_STATUS: Final = 14


@frozen
class Refusal(Exception):
    """A request that the engine answers with an error.

    `worker_error` is what a Worker's own code reported, when it is the cause.
    """

    code: Code
    detail: str
    sub_status: pb.ErrorSubStatus = pb.ERROR_SUB_STATUS_UNCATEGORIZED
    worker_error: pb.WorkerErrorResponse | None = None

    def __str__(self) -> str:
        return self.detail


@frozen
class MalformedResult(Exception):
    """A Worker's result that no rule allows: the attempt fails with this detail."""

    detail: str

    def __str__(self) -> str:
        return self.detail


def stopping() -> Refusal:
    return Refusal("UNAVAILABLE", "the dev engine is stopping")


def invalid(detail: str) -> Refusal:
    return Refusal("INVALID_ARGUMENT", detail)


def no_flow(flow_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"no Flow {flow_id!r}", pb.ERROR_SUB_STATUS_FLOW_NOT_EXISTS)


def not_running(flow_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"Flow {flow_id!r} is closed", pb.ERROR_SUB_STATUS_FLOW_NOT_EXISTS)


def unimplemented(feature: str) -> Refusal:
    return Refusal("UNIMPLEMENTED", f"the dev engine does not implement {feature}")


def worker_failed(error: pb.WorkerErrorResponse) -> Refusal:
    return Refusal(
        "FAILED_PRECONDITION",
        error.detail,
        pb.ERROR_SUB_STATUS_WORKER_API_ERROR,
        worker_error=error,
    )
