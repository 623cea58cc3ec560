"""The faults that the simulator must find: one promise each, dropped or bent, and where it shows."""

from __future__ import annotations

from typing import Final

from . import approvals, cancelling, claims, compaction, ends, model, results, steering, turns
from .planted import PlantedFault

FAULTS: Final[tuple[PlantedFault, ...]] = (
    *results.FAULTS,
    *approvals.FAULTS,
    *claims.FAULTS,
    *turns.FAULTS,
    *ends.FAULTS,
    *steering.FAULTS,
    *cancelling.FAULTS,
    *compaction.FAULTS,
    *model.FAULTS,
)

__all__ = ["FAULTS", "PlantedFault"]
