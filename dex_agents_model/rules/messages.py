"""How a framework's messages take their places in the stored history."""

from __future__ import annotations

from attrs import evolve

from ..errors import ContractBroken
from ..ids import TurnId
from ..records import AgentMessage, FrameworkMessage
from ..text import clean_text, is_storable, parse_json


def place(
    messages: tuple[FrameworkMessage, ...], first: int, turn: TurnId
) -> tuple[AgentMessage, ...]:
    """``messages`` with sequences from ``first`` on.

    Raises:
        ContractBroken: one cannot be stored as it is.
    """
    return tuple(_placed(message, first + n, turn) for n, message in enumerate(messages))


def with_output(messages: tuple[AgentMessage, ...], output: str) -> tuple[AgentMessage, ...]:
    """``messages`` of a completed turn, its answer as data kept with the last one.

    Raises:
        ContractBroken: ``output`` is no JSON text, or there is no message to keep it with.
    """
    if not messages:
        raise ContractBroken("the runner completed the turn with an output and without a message")
    try:
        parse_json(output)
    except ValueError as error:
        raise ContractBroken(f"the turn's output is no JSON: {error}: {output!r:.200}") from error
    if not is_storable(output):
        raise ContractBroken("the turn's output holds text that UTF-8 cannot hold")
    return (*messages[:-1], evolve(messages[-1], output=output))


def _placed(message: FrameworkMessage, sequence: int, turn: TurnId) -> AgentMessage:
    if not is_storable(message.framework_item):
        raise ContractBroken(
            f"a message of the role {message.role} holds text that UTF-8 cannot hold"
        )
    return AgentMessage(
        sequence=sequence,
        turn_id=turn,
        role=message.role,
        framework_item=message.framework_item,
        text=_clean(message.text),
        tool_call_id=_clean(message.tool_call_id),
        tool_name=_clean(message.tool_name),
        estimated_tokens=message.estimated_tokens,
    )


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)
