"""What a user said, in the form that a runner gives it. A text that it cannot build is kept, and stalls nothing."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from .errors import ContractBroken
from .ids import TurnId
from .notes import UNREADABLE_CONTENT, is_turn_failure_note
from .records import AgentMessage, AgentUserMessage, FrameworkMessage, MessageRole
from .runner import AgentFrameworkRunner, TakesUserContent
from .text import error_text, is_storable


def user_message(
    runner: AgentFrameworkRunner, *, sequence: int, turn: TurnId, message: AgentUserMessage
) -> AgentMessage:
    """What a user said as a stored message.

    It is kept as it was said where the runner cannot build it: a session must be able to begin a
    turn, and to end one.
    """
    kept = AgentMessage(
        sequence=sequence,
        turn_id=turn,
        role=MessageRole.USER,
        framework_item=message.framework_content or "",
        text=message.text,
        message_id=message.message_id,
    )
    try:
        return _with_item(kept, build_user_message(runner, message))
    except Exception as error:  # noqa: BLE001 - whatever a runner raises
        return evolve(kept, unbuilt=error_text(f"{type(error).__name__}: {error}"))


def built_again(
    messages: tuple[AgentMessage, ...], runner: AgentFrameworkRunner, turn: TurnId
) -> Iterator[AgentMessage]:
    """``messages`` for a model call of ``turn``; what the runner could not build, it is asked for again.

    What a user said in an earlier turn is left out if it still cannot be built: that turn failed of it. The
    model may not go on without what was said in this turn, nor without a note of what ran before.

    Raises:
        Exception: what the runner raises about a message that may not be left out.
    """
    for message in messages:
        if message.unbuilt is None:
            yield message
            continue
        text, content = message.text or "", message.framework_item or None
        said = AgentUserMessage(text, message.message_id, content)
        try:
            yield _with_item(message, build_user_message(runner, said))
        except Exception:
            if message.turn_id == turn or is_turn_failure_note(text):
                raise


def build_user_message(runner: AgentFrameworkRunner, message: AgentUserMessage) -> FrameworkMessage:
    """What a user said in the form that ``runner`` gives it.

    Raises:
        ContractBroken: the runner gave it another role, or an item that cannot be stored.
        Exception: what else the runner raises.
    """
    built = _read(runner, message.text, message.framework_content)
    if built.role is not MessageRole.USER:
        raise ContractBroken(
            f"build_user_message returned a message of the role {built.role}, not {MessageRole.USER}"
        )
    if not is_storable(built.framework_item):
        raise ContractBroken("build_user_message returned an item that UTF-8 cannot hold")
    return built


def content_refusal(runner: AgentFrameworkRunner, message: AgentUserMessage) -> str | None:
    """Why ``runner`` cannot read what lies beside the text of ``message``; None when it can."""
    if message.framework_content is None:
        return None
    if not isinstance(runner, TakesUserContent):
        return "the agent takes only text: its runner lacks build_user_message_with_content"
    try:
        runner.build_user_message_with_content(message.text, message.framework_content)
    except ValueError as error:
        return str(error)
    return None


def _read(runner: AgentFrameworkRunner, text: str, content: str | None) -> FrameworkMessage:
    """What was accepted reaches the model, whatever it is: what cannot be read is left out, visibly."""
    if content is None:
        return runner.build_user_message(text)
    if isinstance(runner, TakesUserContent):
        try:
            return runner.build_user_message_with_content(text, content)
        except ValueError:
            pass
    return runner.build_user_message(f"{text}\n{UNREADABLE_CONTENT}".lstrip())


def _with_item(kept: AgentMessage, built: FrameworkMessage) -> AgentMessage:
    return evolve(
        kept,
        framework_item=built.framework_item,
        text=built.text,
        tool_call_id=built.tool_call_id,
        tool_name=built.tool_name,
        estimated_tokens=built.estimated_tokens,
        unbuilt=None,
    )
