"""What a model call is called in tracing: the well-known provider names, and the fields that its calls share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from attrs import frozen
from pydantic_ai.messages import ModelResponse

from dex_agents_model import ModelCallMetadata

# Pydantic AI's provider names that OpenTelemetry's `gen_ai.provider.name` spells differently.
_WELL_KNOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "azure": "azure.ai.openai",
        "bedrock": "aws.bedrock",
        "bedrock-mantle": "aws.bedrock",
        "google": "gcp.gemini",
        "google-cloud": "gcp.vertex_ai",
        "moonshotai": "moonshot_ai",
        "xai": "x_ai",
    }
)
# One client of these reaches several endpoints; `canonical_system` names the one that answered.
_DECIDED_BY_ENDPOINT: Final = frozenset({"google", "google-cloud", "openai"})


@frozen
class ModelCall:
    """One request to a model within a Step, and what it answered."""

    request_model: str
    response: ModelResponse


def describe_model_calls(calls: Sequence[ModelCall]) -> ModelCallMetadata:
    """The metadata of a Step. After a retry inside the Step, only what every call of it shares."""
    responses = [call.response for call in calls]
    only = responses[0] if len(responses) == 1 else None
    return ModelCallMetadata(
        request_model=_shared([call.request_model for call in calls]),
        response_model=_shared([response.model_name for response in responses]),
        provider=_shared([provider_name(response) for response in responses]),
        response_id=None if only is None else only.provider_response_id,
        finish_reason=None if only is None else only.finish_reason,
    )


def provider_name(response: ModelResponse) -> str | None:
    """The `gen_ai.provider.name` of the endpoint that answered."""
    name = response.provider_name
    if name is None:
        return None
    if name in _DECIDED_BY_ENDPOINT and response.canonical_system:
        name = response.canonical_system
    return _WELL_KNOWN.get(name, name)


def _shared(values: Sequence[str | None]) -> str | None:
    return values[0] if len(set(values)) == 1 else None
