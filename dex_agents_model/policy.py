"""What each effect means, and what an application may choose. The effect table stands here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from attrs import field, frozen, validators

from .calls import ToolEffect
from .ids import usable_tool_name
from .text import is_storable, size_bytes

LONGEST_TOOL_ATTEMPT: Final = timedelta(minutes=15)
_SECOND: Final = timedelta(seconds=1)
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB


@frozen(kw_only=True)
class EffectRule:
    """One line of the effect table ([core: effects and policies])."""

    attempts: int
    """How often a call may start; 1 means that it never starts twice."""
    requires_approval: bool
    """Whether a person is asked unless the policy says otherwise."""
    may_have_happened: bool
    """Whether a call that was given up may have changed the world."""

    @property
    def is_single_attempt(self) -> bool:
        """Whether a call never starts twice: a delivery claims it before it runs."""
        return self.attempts == 1


EFFECT_RULES: Final[Mapping[ToolEffect, EffectRule]] = MappingProxyType(
    {
        ToolEffect.READ: EffectRule(
            attempts=3, requires_approval=False, may_have_happened=False
        ),
        ToolEffect.IDEMPOTENT_WRITE: EffectRule(
            attempts=3, requires_approval=False, may_have_happened=True
        ),
        ToolEffect.NON_IDEMPOTENT_WRITE: EffectRule(
            attempts=1, requires_approval=True, may_have_happened=True
        ),
        ToolEffect.UNCLASSIFIED: EffectRule(
            attempts=1, requires_approval=True, may_have_happened=True
        ),
    }
)  # fmt: skip


def _at_most_an_attempt(owner: object, attribute: object, value: timedelta | None) -> None:
    if value is None:
        return
    if value % _SECOND or not _SECOND <= value <= LONGEST_TOOL_ATTEMPT:
        raise ValueError(
            f"the timeout of a tool must be whole seconds, from 1 to"
            f" {LONGEST_TOOL_ATTEMPT // _SECOND}, not {value}"
        )


@frozen
class ToolPolicy:
    """An application's word on one tool. ``requires_approval=None`` leaves it to the effect.

    ``timeout`` bounds each attempt, in whole seconds up to 15 minutes, which is what None means. An
    attempt that takes longer is cut off, and counts as one whose Worker was lost.

    Raises:
        ValueError: there is no such effect, or the timeout is out of bounds.
    """

    effect: ToolEffect = field(converter=ToolEffect)
    requires_approval: bool | None = None
    timeout: timedelta | None = field(default=None, validator=_at_most_an_attempt)

    @property
    def is_approval_required(self) -> bool:
        """Whether a person must agree before a call of this tool runs."""
        if self.requires_approval is None:
            return EFFECT_RULES[self.effect].requires_approval
        return self.requires_approval


def _read_only(policies: Mapping[str, ToolPolicy]) -> Mapping[str, ToolPolicy]:
    for name, policy in policies.items():
        if not isinstance(policy, ToolPolicy):
            raise TypeError(f"tool_policies[{name!r}] is {policy!r:.80}; give a ToolPolicy")
    return MappingProxyType(dict(policies))


def _by_usable_names(owner: object, attribute: object, policies: Mapping[str, ToolPolicy]) -> None:
    for name in policies:
        usable_tool_name(name)


def _positive(owner: object, attribute: object, value: timedelta | None) -> None:
    if value is not None and value <= timedelta(0):
        raise ValueError(
            f"interrupt_deadline must be positive, not {value}; None means no deadline"
        )


@frozen(kw_only=True)
class CompactionPolicy:
    """When earlier turns are summarised, so that a session goes on for ever in a finite context window.

    Tokens are estimated as three bytes each. ``trigger_ratio`` of the window starts a compaction;
    the newest earlier turns of at most ``keep_recent_tokens`` stay as they are.
    """

    context_window_tokens: int = field(validator=validators.ge(1))
    trigger_ratio: float = field(default=0.85, validator=[validators.gt(0), validators.le(1)])
    keep_recent_tokens: int = field(validator=validators.ge(0))
    """A fifth of the window when left out."""
    reserved_input_tokens: int = field(default=0, validator=validators.ge(0))
    """Of the window, for what nobody can estimate, such as dynamic instructions."""
    summary_token_limit: int = field(validator=[validators.ge(1), validators.le(100_000)])
    """A longer summary is cut; a summary of summaries stays within it, too. When left out: a tenth
    of the window, at most 4,096."""
    kept_summarised_messages: int | None = field(
        default=None, validator=validators.optional(validators.ge(0))
    )
    """How many messages stay stored behind the summary; None keeps them all."""

    @keep_recent_tokens.default
    def _a_fifth(self) -> int:
        return self.context_window_tokens // 5

    @summary_token_limit.default
    def _a_tenth(self) -> int:
        return min(max(self.context_window_tokens // 10, 1), 4096)

    @property
    def trigger_tokens(self) -> int:
        """An input that is estimated to be larger starts a compaction."""
        return round(self.context_window_tokens * self.trigger_ratio)


@frozen(kw_only=True)
class AgentSessionOptions:
    """How one Flow type treats its sessions. Read anew by each Step, never stored.

    Raises:
        ValueError: a limit is out of its range, or the deadline is not positive.
        TypeError: a policy is no ToolPolicy.
    """

    tool_policies: Mapping[str, ToolPolicy] = field(
        factory=dict, converter=_read_only, validator=_by_usable_names
    )
    """By the tool name that the model calls: 1 to 256 characters, not blank."""
    default_tool_effect: ToolEffect = field(default=ToolEffect.UNCLASSIFIED, converter=ToolEffect)
    """For a tool with neither a policy nor a hint of its framework."""
    interrupt_deadline: timedelta | None = field(default=None, validator=_positive)
    """How long an approval may wait; None means for ever."""
    max_model_calls_per_turn: int = field(default=50, validator=validators.ge(1))
    """A turn that asks for one more fails, with a clear error."""
    max_tool_output_bytes: int = field(default=256 * _KIB, validator=validators.ge(1))
    """A longer tool result is cut, with a visible marker."""
    max_tool_content_bytes: int = field(default=_MIB, validator=validators.ge(1))
    """A tool's larger content beside its text is left out, with a visible marker."""
    max_user_message_bytes: int = field(default=256 * _KIB, validator=validators.ge(1))
    """A longer user message is refused; what lies beside its text counts as it is sent."""
    max_response_argument_bytes: int = field(default=2 * _MIB, validator=validators.ge(1))
    """A model response whose tool calls have more arguments fails the turn, with a clear error."""
    fence_single_attempt_tools: bool = True
    """Whether a single-attempt call must be claimed before it runs, so that it never starts twice.

    It is stored with the call when the model asks for it, and counts so for all Workers.
    """
    compaction: CompactionPolicy | None = None
    """None lets the model's input grow with the session."""
    event_stream_capacity_bytes: int = field(default=10 * _MIB, validator=validators.ge(1))
    """Shared by all sessions of the Flow type."""

    def resolve_tool_policy(
        self, tool_name: str, framework_effect: ToolEffect | None = None
    ) -> ToolPolicy:
        """The policy of a tool: the application's, else the framework's hint, else the default."""
        explicit = self.tool_policies.get(tool_name)
        if explicit is not None:
            return explicit
        return ToolPolicy(framework_effect or self.default_tool_effect)

    def user_message_refusal(self, text: str, content: str | None = None) -> str | None:
        """Why a session would not take a text, and what lies beside it, from its user; None when it would."""
        if content is None and not text.strip():
            return "the message is blank"
        if content is not None and not is_storable(content):
            return "what lies beside the message's text is no text that UTF-8 can hold"
        size = size_bytes(text) + size_bytes(content or "")
        if size > self.max_user_message_bytes:
            return (
                f"the message has {size} bytes;"
                f" max_user_message_bytes is {self.max_user_message_bytes}"
            )
        return None
