"""What may go wrong around a session, and how often. A fault is a choice of the schedule, never of a rule."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from attrs import field, frozen, validators


class Fault(StrEnum):
    """One thing that goes wrong. Locks, snapshot and input outlive every one of them."""

    CRASH_BEFORE_EFFECT = "its Worker is lost before anything ran: the attempt is spent"
    CRASH_BEFORE_COMMIT = "its Worker is lost before the commit: the attempt is spent"
    REDELIVERY = "its Worker is lost before any frame left it: delivered again, same attempt"
    LOST_ANSWER = "its answer is lost after the commit: the client sends it again"


@frozen
class Faults:
    """At most ``at_most`` faults in one run, of these ``kinds``."""

    at_most: int = field(default=1, validator=validators.ge(0))
    kinds: frozenset[Fault] = frozenset(Fault)


NO_FAULTS: Final = Faults(0)
"""Nothing goes wrong."""
ONE_FAULT: Final = Faults(1)
"""One thing goes wrong, anywhere."""
