"""What the runs of all Steps are given alike: their capability's place, and models by name. No run is changed here.

A model that is given by its name, by the agent or by one of its capabilities, would be built anew for each
run, with a client and connections of its own: that takes longer than all else in a Step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.models import Model, ModelResolutionContext, infer_model
from pydantic_ai.tools import AgentDepsT

# Around every other capability, so that tools which capabilities add are deferred too. Both parts
# are needed: Pydantic AI puts some capabilities of its own outermost.
_AROUND_EVERYTHING = CapabilityOrdering(position="outermost", wraps=(AbstractCapability,))


class NamedModels:
    """The models of a Worker that are known by name, each built once."""

    def __init__(self) -> None:
        self._built: dict[str, Model] = {}

    def build(self, name: str) -> Model:
        """The model of that name.

        Raises:
            Exception: as `infer_model`, of a name that it does not know.
        """
        if name not in self._built:
            self._built[name] = infer_model(name)
        return self._built[name]


@dataclass
class StepCapability(AbstractCapability[AgentDepsT]):
    """Given to a single run. ``named_models`` are None where the agent resolves names itself, in each run."""

    named_models: NamedModels | None = field(default=None, kw_only=True)

    def get_ordering(self) -> CapabilityOrdering:
        return _AROUND_EVERYTHING

    @property
    def has_resolve_model_id(self) -> bool:
        return self.named_models is not None

    async def resolve_model_id(
        self, ctx: ModelResolutionContext[AgentDepsT], *, model_id: str
    ) -> Model | None:
        return None if self.named_models is None else self.named_models.build(model_id)
