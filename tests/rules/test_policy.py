"""What each effect means, and what an application may choose."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dex_agents_model.calls import ToolEffect
from dex_agents_model.policy import AgentSessionOptions, ToolPolicy

READ, IDEMPOTENT = ToolEffect.READ, ToolEffect.IDEMPOTENT_WRITE
WRITE, UNCLASSIFIED = ToolEffect.NON_IDEMPOTENT_WRITE, ToolEffect.UNCLASSIFIED


@pytest.mark.parametrize(
    ("effect", "by_default"),
    [(READ, False), (IDEMPOTENT, False), (WRITE, True), (UNCLASSIFIED, True)],
)
def test_tool_policy__asks_a_person_as_its_effect_does_unless_told(
    effect: ToolEffect, by_default: bool
) -> None:
    policies = (ToolPolicy(effect), ToolPolicy(effect, True), ToolPolicy(effect, False))

    assert [p.is_approval_required for p in policies] == [by_default, True, False]


def test_tool_policy__refuses_an_unknown_effect() -> None:
    unknown: Any = "teleport"

    with pytest.raises(ValueError, match="'teleport' is not a valid ToolEffect"):
        ToolPolicy(unknown)


def test_options__refuse_what_is_no_policy() -> None:
    effect: Any = READ

    with pytest.raises(TypeError, match=r"tool_policies\['find'\] is <.*>; give a ToolPolicy"):
        AgentSessionOptions(tool_policies={"find": effect})


@pytest.mark.parametrize(
    ("name", "hint", "policy"),
    [
        ("search", WRITE, ToolPolicy(READ, True)),
        ("other", WRITE, ToolPolicy(WRITE)),
        ("other", None, ToolPolicy(IDEMPOTENT)),
    ],
    ids=["the application's word", "the framework's hint", "the default"],
)
def test_resolve_tool_policy__takes_the_most_explicit_word(
    name: str, hint: ToolEffect | None, policy: ToolPolicy
) -> None:
    options = AgentSessionOptions(
        tool_policies={"search": ToolPolicy(READ, True)}, default_tool_effect=IDEMPOTENT
    )

    assert options.resolve_tool_policy(name, hint) == policy


def test_agent_session_options__take_no_later_change_of_the_policies_they_were_given() -> None:
    given = {"search": ToolPolicy(READ)}
    options = AgentSessionOptions(tool_policies=given)
    given["search"] = ToolPolicy(WRITE)

    assert options.resolve_tool_policy("search") == ToolPolicy(READ)


def test_agent_session_options__have_an_unclassified_tool_asked_for_by_default() -> None:
    assert AgentSessionOptions().resolve_tool_policy("other") == ToolPolicy(UNCLASSIFIED)


def test_agent_session_options__have_the_limits_that_their_readers_know() -> None:
    options = AgentSessionOptions()

    assert options == AgentSessionOptions(
        interrupt_deadline=None,
        max_model_calls_per_turn=50,
        max_tool_output_bytes=262_144,
        max_tool_content_bytes=1_048_576,
        max_user_message_bytes=262_144,
        max_response_argument_bytes=2_097_152,
        fence_single_attempt_tools=True,
        compaction=None,
        event_stream_capacity_bytes=10_485_760,
    )


@pytest.mark.parametrize("deadline", [timedelta(0), timedelta(seconds=-1)])
def test_agent_session_options__refuse_a_deadline_that_is_not_ahead(deadline: timedelta) -> None:
    with pytest.raises(ValueError, match="interrupt_deadline must be positive"):
        AgentSessionOptions(interrupt_deadline=deadline)


@pytest.mark.parametrize(
    "name",
    [
        "max_model_calls_per_turn",
        "max_tool_output_bytes",
        "max_tool_content_bytes",
        "max_user_message_bytes",
        "max_response_argument_bytes",
        "event_stream_capacity_bytes",
    ],
)
def test_agent_session_options__refuse_a_limit_of_nothing(name: str) -> None:
    nothing: dict[str, Any] = {name: 0}

    with pytest.raises(ValueError, match=f"'{name}' must be >= 1"):
        AgentSessionOptions(**nothing)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("hey", None),
        (" ", "the message is blank"),
        ("\u00e9\u00e9!", "the message has 5 bytes; max_user_message_bytes is 4"),
    ],
)
def test_user_message_refusal__says_why(text: str, refusal: str | None) -> None:
    assert AgentSessionOptions(max_user_message_bytes=4).user_message_refusal(text) == refusal


@pytest.mark.parametrize("name", [" ", "x" * 257])
def test_agent_session_options__refuse_a_policy_for_what_is_no_tool_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"^tool name {name[:40]!r} must have"):
        AgentSessionOptions(tool_policies={name: ToolPolicy(READ)})


@pytest.mark.parametrize("seconds", [0, -1, 0.5, 901, 1.001])
def test_tool_policy__refuses_a_timeout_that_no_attempt_can_have(seconds: float) -> None:
    with pytest.raises(ValueError, match="must be whole seconds, from 1 to 900, not "):
        ToolPolicy(READ, timeout=timedelta(seconds=seconds))
