"""One turn with one tool call, through `react` alone: run by test_model_alone where nothing else is installed."""

from __future__ import annotations

import sys
from typing import Any, Final

from dex_agents_model import (
    AgentUserMessage,
    DeferredToolCall,
    FrameworkMessage,
    MessageRole,
    ToolCallId,
    ToolCallsRequested,
    ToolEffect,
    ToolPolicy,
    TurnCompleted,
    TurnId,
    react,
)
from dex_agents_model.calls import AgentToolCall
from dex_agents_model.decision import GoTo, PutToolCall, SetState, StepDecision
from dex_agents_model.effects import Entered, Occurrence, ToolResultsArrived, ToolReturned
from dex_agents_model.records import AgentState
from dex_agents_model.steps import CallTool, ResumeTurn, RunModel, StartAgentSession, Step
from dex_agents_model.views import CallView, ResumeView, SessionView, TurnView
from tests.rules.samples import NOW, view

TURN: Final = TurnId("turn-1")
CALL: Final = ToolCallId("call-1")
ANSWER: Final = FrameworkMessage(MessageRole.ASSISTANT, "<answer>", "It is sunny.")
LOOK: Final = DeferredToolCall(CALL, "look", "{}", ToolPolicy(ToolEffect.READ))


class Session:
    """What a port would keep, and a line for each reaction."""

    def __init__(self) -> None:
        self.state: AgentState | None = None
        self.record: AgentToolCall | None = None
        self.told: list[str] = []

    def meets(self, step: Step, kind: type[Any], on: Occurrence, **loaded: object) -> None:
        reaction = react(step, view(kind, state=self.state, **loaded), on, NOW)
        name = type(step).__name__
        if not isinstance(reaction, StepDecision):
            self.told.append(f"{name} asks for {type(reaction).__name__}")
            return
        for write in reaction.commit.writes:
            if isinstance(write, SetState):
                self.state = write.state
            elif isinstance(write, PutToolCall):
                self.record = write.record
        going = reaction.next.steps if isinstance(reaction.next, GoTo) else (reaction.next,)
        self.told.append(f"{name} -> {', '.join(type(each).__name__ for each in going)}")


def main() -> None:
    session = Session()
    run, look = RunModel(TURN), CallTool(TURN, CALL)
    session.meets(StartAgentSession(AgentUserMessage("Weather?")), SessionView, Entered())
    session.meets(run, TurnView, Entered())
    session.meets(run, TurnView, ToolCallsRequested("state", (LOOK,)))
    session.meets(look, CallView, Entered(), record=session.record)
    session.meets(look, CallView, ToolReturned("sunny"), record=session.record)
    records = (session.record,)
    session.meets(ResumeTurn(TURN, 1), ResumeView, ToolResultsArrived(), tool_calls=records)
    session.meets(run, TurnView, TurnCompleted((ANSWER,)), tool_calls=records)
    sys.stdout.write("\n".join(session.told))


if __name__ == "__main__":
    main()
