"""A web service around an agent: it serves the sessions, and lets a person answer what waits for approval.

    uvicorn approvals_api:app
    curl -X PUT  localhost:8000/sessions/s-7 --json '{"text": "Refund order 7."}'
    curl         localhost:8000/sessions/s-7
    curl -X POST localhost:8000/sessions/s-7/approvals/turn-1.call-1 --json '{"approved": true, "by": "ada"}'

It needs `pip install fastapi uvicorn` beside the extra `pydantic-ai`. The service keeps nothing: stop it
while a refund waits, start it again, and approve then. Its model is a script, so it needs no key.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dex_agents_dex import (
    AgentRuntime,
    AgentSessionClient,
    SessionNotFound,
    ToolEffect,
    ToolPolicy,
)
from dex_agents_model import MessageRole
from dex_agents_pydantic_ai import deferred_tool_idempotency_key, pydantic_ai_session_flow


async def script(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """What a good model would say: refund, then tell what came of it."""
    told = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if told:
        yield told[0].model_response_str()
    else:
        yield {0: DeltaToolCall("refund_order", '{"order_id": "7"}', tool_call_id="call-1")}


agent = Agent(FunctionModel(stream_function=script))


@agent.tool
def refund_order(ctx: RunContext[object], order_id: str) -> str:
    """Pay an order back. The payment provider takes the key, so that a repeat pays once."""
    return f"Refunded order {order_id} under {deferred_tool_idempotency_key(ctx)}."


flow = pydantic_ai_session_flow(
    agent,
    flow_type="RefundDesk",
    tool_policies={"refund_order": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE, requires_approval=True)},
)


class NewSession(BaseModel):
    """What starts a session."""

    text: str


class Approval(BaseModel):
    """A person's answer to one question."""

    approved: bool
    by: str
    reason: str | None = None


@asynccontextmanager
async def serve_sessions(app: FastAPI) -> AsyncIterator[None]:
    """The Worker and the client live as long as the service."""
    async with AgentRuntime(flow) as runtime:
        app.state.sessions = runtime.sessions(flow)
        yield


def sessions_of(request: Request) -> AgentSessionClient:
    sessions: AgentSessionClient = request.app.state.sessions
    return sessions


Sessions = Annotated[AgentSessionClient, Depends(sessions_of)]
app = FastAPI(lifespan=serve_sessions)


@app.put("/sessions/{session}", status_code=201)
async def start(session: str, wanted: NewSession, sessions: Sessions) -> dict[str, bool]:
    """Start a session; the same start again changes nothing."""
    await sessions.start_session(session, wanted.text)
    return {"started": True}


@app.get("/sessions/{session}")
async def show(session: str, sessions: Sessions) -> dict[str, list[object]]:
    """What was said, and what waits for a person."""
    snapshot = await sessions.get_agent_snapshot(session)
    questions = [
        {"id": question.interrupt_id, "tool": question.tool_name, "arguments": question.arguments}
        for question in snapshot.pending_interrupts
    ]
    said = [
        message.text
        for message in snapshot.messages
        if message.text and message.role is not MessageRole.TOOL
    ]
    return {"said": [*said], "questions": [*questions]}


@app.post("/sessions/{session}/approvals/{question}")
async def resolve(
    session: str, question: str, answer: Approval, sessions: Sessions, response: Response
) -> dict[str, bool]:
    """Answer a question; 409 when it does not wait, or no longer does."""
    counts = await sessions.resolve_interrupt(
        session, question, approved=answer.approved, resolved_by=answer.by, reason=answer.reason
    )
    response.status_code = 200 if counts else 409
    return {"counts": counts}


@app.exception_handler(SessionNotFound)
async def not_found(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, status_code=404)


@app.exception_handler(ValueError)
async def refused(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, status_code=422)
