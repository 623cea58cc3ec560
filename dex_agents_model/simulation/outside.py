"""All that the simulation takes from outside the model: seeded chance, and a watch to time a search with."""

from random import Random  # noqa: TID251 - always seeded, so that each run can be replayed
from time import perf_counter  # noqa: TID251 - says how long a search took, and decides nothing

__all__ = ["Random", "perf_counter"]
