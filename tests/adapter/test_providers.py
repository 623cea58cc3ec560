"""What a model call is called in tracing."""

from __future__ import annotations

import pytest
from pydantic_ai.messages import ModelResponse, TextPart

from dex_agents_model import ModelCallMetadata
from dex_agents_pydantic_ai.providers import (
    ModelCall,
    describe_model_calls,
    provider_name,
)


def response(
    provider: str | None,
    *,
    system: str | None = None,
    model: str | None = "m-1",
    response_id: str | None = "r-1",
) -> ModelResponse:
    return ModelResponse(
        [TextPart("x")],
        model_name=model,
        provider_name=provider,
        canonical_system=system,
        provider_response_id=response_id,
        finish_reason="stop",
    )


@pytest.mark.parametrize(
    ("provider", "system", "name"),
    [
        ("openai", "openai", "openai"),
        ("openai", "azure", "azure.ai.openai"),
        ("openai", None, "openai"),
        ("azure", None, "azure.ai.openai"),
        ("anthropic", None, "anthropic"),
        ("google", "google", "gcp.gemini"),
        ("google", "google-cloud", "gcp.vertex_ai"),
        ("google-cloud", "google-cloud", "gcp.vertex_ai"),
        ("google-cloud", "google", "gcp.gemini"),
        ("google", None, "gcp.gemini"),
        ("bedrock", None, "aws.bedrock"),
        ("bedrock-mantle", None, "aws.bedrock"),
        ("xai", None, "x_ai"),
        ("moonshotai", None, "moonshot_ai"),
        ("mistral", None, "mistral"),
        ("cohere", None, "cohere"),
        ("deepseek", None, "deepseek"),
        ("groq", None, "groq"),
        ("anthropic", "bedrock", "anthropic"),
        ("my-gateway", "openai", "my-gateway"),
        (None, "openai", None),
    ],
)
def test_provider_name__is_the_well_known_one_of_the_endpoint(
    provider: str | None, system: str | None, name: str | None
) -> None:
    assert provider_name(response(provider, system=system)) == name


def test_describe_model_calls__of_a_single_call() -> None:
    assert describe_model_calls([ModelCall("asked", response("google"))]) == ModelCallMetadata(
        request_model="asked",
        response_model="m-1",
        provider="gcp.gemini",
        response_id="r-1",
        finish_reason="stop",
    )


def test_describe_model_calls__keeps_only_what_several_calls_share() -> None:
    calls = [
        ModelCall("asked", response("openai")),
        ModelCall("asked", response("openai", model="m-2", response_id="r-2")),
    ]

    assert describe_model_calls(calls) == ModelCallMetadata(
        request_model="asked", provider="openai"
    )


def test_describe_model_calls__says_nothing_where_nothing_is_known() -> None:
    silent = ModelCall("function", ModelResponse([TextPart("x")]))

    assert describe_model_calls([]) == ModelCallMetadata()
    assert describe_model_calls([silent]) == ModelCallMetadata(request_model="function")
