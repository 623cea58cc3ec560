"""What watchers are told while a model answers: each piece of text and reasoning, as it comes. Nothing is stored here.

A run that streams passes each piece through a dozen generators and a lock. So the run of a model Step
does not stream, and the model that it asks streams inside the one request: a third of the time for each
piece. A run that streams for a capability of the agent is listened to instead.
"""

from __future__ import annotations

from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RunUsage

from dex_agents_model import AgentEventWriter
from dex_agents_model.text import clean_text

from . import private


class TellingModel(WrapperModel):
    """A model that streams whatever it is asked, and tells watchers. ``used`` gets what a cut stream had used."""

    def __init__(self, wrapped: Model, events: AgentEventWriter, used: RunUsage) -> None:
        super().__init__(wrapped)
        self._events = events
        self._used = used

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        opened = private.open_stream(
            self.wrapped, messages, model_settings, model_request_parameters
        )
        async with opened as stream:
            has_begun = False
            try:
                async for event in stream:
                    has_begun = True
                    tell(event, self._events)
            except Exception:
                # The run counts the usage of whole answers alone.
                self._used.incr(stream.usage)
                self._used.requests += has_begun
                raise
        # A FallbackModel notes in a suspended answer who goes on with it when the stream is closed.
        return stream.get()


def tell(event: AgentStreamEvent, events: AgentEventWriter) -> None:
    """Tell watchers of the text in ``event``, if there is any."""
    match event:
        case (
            PartStartEvent(part=TextPart(content=str(text)))
            | PartDeltaEvent(delta=TextPartDelta(content_delta=str(text)))
        ) if text:
            events.write_text_delta(clean_text(text))
        case (
            PartStartEvent(part=ThinkingPart(content=str(text)))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text)))
        ) if text:
            events.write_reasoning_delta(clean_text(text))
        case _:
            pass
