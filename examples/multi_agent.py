"""An agent whose tool runs another agent: an editor that lets a translator work.

The whole run of the translator is one Step of the editor's session. It only reads, so it may run
again after a crash; a translator that wrote something would be an IDEMPOTENT_WRITE or be asked for.
"""

import asyncio
from collections.abc import AsyncIterator

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dex_agents_dex import AgentRuntime, ToolEffect, ToolPolicy
from dex_agents_pydantic_ai import pydantic_ai_session_flow

WORDS = {"good morning": "guten Morgen", "good night": "gute Nacht"}


async def translate_script(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    """A model that knows a few words."""
    yield WORDS[_prompt(messages)]


async def edit_script(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """A model that has both halves translated at once, and joins them."""
    translated = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if translated:
        yield " und ".join(part.model_response_str() for part in translated)
        return
    for index, text in enumerate(_prompt(messages).split(" and ")):
        arguments = f'{{"text": "{text}"}}'
        yield {index: DeltaToolCall("translate", arguments, tool_call_id=f"call-{index}")}


def _prompt(messages: list[ModelMessage]) -> str:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    prompts = [p.content for r in requests for p in r.parts if isinstance(p, UserPromptPart)]
    return str(prompts[-1])


translator = Agent(FunctionModel(stream_function=translate_script), instructions="Translate.")
editor = Agent(FunctionModel(stream_function=edit_script), instructions="Let others translate.")


@editor.tool_plain
async def translate(text: str) -> str:
    """Let the translator put a text into German."""
    async with translator.run_stream(text) as result:
        return await result.get_output()


flow = pydantic_ai_session_flow(
    editor,
    flow_type="Editor",
    tool_policies={"translate": ToolPolicy(ToolEffect.READ)},
)


async def main() -> None:
    async with AgentRuntime(flow) as runtime:
        sessions = runtime.sessions(flow)
        await sessions.start_session("editing-1")
        print((await sessions.run_turn("editing-1", "good morning and good night")).answer)


if __name__ == "__main__":
    asyncio.run(main())
