"""One agent as a Flow type: its Steps, its RPCs and what it stores. One execution of it is one session."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, cast

import dex

from dex_agents_model.ids import SessionId, refuse_unusable_name
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.requests import (
    AgentSnapshot,
    CancelTurn,
    ClaimToolCall,
    GetAgentSnapshot,
    ListQueuedMessages,
    QueuedMessagesPage,
    Reply,
    Request,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
)
from dex_agents_model.runner import AgentFrameworkRunner, SummarizesHistory
from dex_agents_model.steps import StartAgentSession
from dex_agents_model.table import RPC_OF, SPECS, answer

from .calling import PATIENT, read_entries, retrying
from .codec import codec_registry
from .engine_clock import EngineClock
from .entry_texts import ReadEntries, StoredTexts
from .errors import FlowNotBound
from .event_message import EventMessage
from .known import Known
from .loads import Loading, loads_of, options_of
from .port import SessionBinding
from .reading import SessionReader
from .schema import DEFINITIONS, LOCKS, RUN_STATE_PART_COUNT
from .steps import STEP_CLASSES, movement
from .store_rpcs import StoreRpcs
from .turn_trace import StepTracing, unwatched
from .writing import SessionWriter

H = TypeVar("H", bound=Callable[..., Any])


def _answers(request: type[Request]) -> Callable[[H], H]:
    """Marks the handler of one RPC of the table, with the locks and loads that the table names."""
    entry = RPC_OF[request]
    loads = loads_of(entry.reads)
    return dex.rpc(
        lock_attributes=tuple(LOCKS[lock] for lock in entry.locks if lock in LOCKS),
        is_transactional=entry.transactional,
        load_attribute_maps=loads.maps,
        load_channels=loads.channels,
        load_channel_maps=loads.channel_maps,
    )


class AgentSessionFlow(StoreRpcs, dex.Flow[StartAgentSession]):
    """The durable session of one agent.

    Register one per agent, each with a ``flow_type`` of its own; sessions are found again by it,
    so it must not change while any is open. A Worker that serves it without an AgentRuntime must
    `bind` it to a client, or no single-attempt tool can run and no long session be read.
    ``tracing`` is a `tracing.Tracing`; without one nothing is traced.

    Raises:
        ValueError: ``flow_type`` is blank, too long, or holds one of ``/ $ :`` or what cannot be
            seen; or the options ask for compaction and the runner cannot summarise.
    """

    def __init__(
        self,
        runner: AgentFrameworkRunner,
        *,
        flow_type: str,
        options: AgentSessionOptions | None = None,
        tracing: StepTracing | None = None,
    ) -> None:
        refuse_unusable_name("flow type", flow_type)
        self.options: Final = options or AgentSessionOptions()
        self.runner: Final = runner
        if self.options.compaction is not None and not isinstance(runner, SummarizesHistory):
            raise ValueError(
                f"the runner of {flow_type} cannot summarise: give it summarize_history and"
                " estimate_overhead_tokens, or the options no compaction policy"
            )
        self.agent_events: Final = dex.Stream(
            "AgentEvents", EventMessage, self.options.event_stream_capacity_bytes
        )
        self._flow_type = flow_type
        self._client: dex.AsyncClient | None = None
        self._binding = SessionBinding(
            runner=runner,
            options=self.options,
            events=self.agent_events,
            clock=EngineClock(),
            own_session=self,
            watch=unwatched if tracing is None else partial(tracing.watch, flow_type),
        )

    def bind(self, client: dex.AsyncClient) -> None:
        """Let the Steps of this Flow ask their own sessions through ``client``, the last that is given."""
        self._client = client

    async def claim(self, session: SessionId, run_id: str, request: ClaimToolCall) -> bool:
        """Ask one run of ``session`` for the right to run a single-attempt call; a Step does so before it runs it.

        Raises:
            FlowNotBound: there is no client to ask through.
            AgentSessionError: the session could not be asked.
        """
        client = self._bound("fence its single-attempt tools")
        options = options_of(request)
        return await retrying(
            client,
            session,
            lambda: client.invoke_rpc(
                self.claim_tool_call, session, request, run_id=run_id, options=options
            ),
            within=PATIENT,
        )

    async def read_entries(
        self,
        session: SessionId,
        run_id: str,
        entries: dex.AttributeMap[Any],
        request: ReadEntries,
    ) -> StoredTexts:
        """Ask one run of ``session`` for stored entries that Dex did not load for a Step.

        Raises:
            FlowNotBound: there is no client to ask through.
            AgentSessionError: the session could not be asked.
        """
        client = self._bound("read a long session")
        rpc = self.stored_entries
        return await read_entries(client, rpc, session, entries, request, run_id=run_id)

    def _bound(self, purpose: str) -> dex.AsyncClient:
        if self._client is None:
            raise FlowNotBound(
                f"the Flow {self._flow_type} cannot {purpose}: call flow.bind(client) before its"
                " Worker starts, or serve it with AgentRuntime"
            )
        return self._client

    def get_flow_type(self) -> str:
        """The name by which its sessions are found again."""
        return self._flow_type

    def get_steps(self) -> dex.StepList[StartAgentSession]:
        """For Dex: a Step for each line of the model's table."""
        first, *others = (STEP_CLASSES[entry.step](self._binding) for entry in SPECS)
        return cast(
            "dex.StepList[StartAgentSession]",
            dex.StepList.start_step(first).other_steps(*others),
        )

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        """For Dex: everything that a session stores."""
        return dex.PersistenceSchema.of(*DEFINITIONS, self.agent_events)

    # One handler an RPC: Dex's Registry reads its types and its name.

    @_answers(SendUserMessage)
    def send_user_message(
        self, context: dex.Context, request: SendUserMessage
    ) -> dex.RPCResult[bool]:
        return cast("dex.RPCResult[bool]", self._answer(context, request))

    @_answers(SteerUserMessage)
    def steer_user_message(
        self, context: dex.Context, request: SteerUserMessage
    ) -> dex.RPCResult[bool]:
        return cast("dex.RPCResult[bool]", self._answer(context, request))

    @_answers(WithdrawUserMessage)
    def withdraw_user_message(
        self, context: dex.Context, request: WithdrawUserMessage
    ) -> dex.RPCResult[bool]:
        return cast("dex.RPCResult[bool]", self._answer(context, request))

    @_answers(ListQueuedMessages)
    def list_queued_messages(
        self, context: dex.Context, request: ListQueuedMessages
    ) -> dex.RPCResult[QueuedMessagesPage]:
        return cast("dex.RPCResult[QueuedMessagesPage]", self._answer(context, request))

    @_answers(ResolveInterrupt)
    def resolve_interrupt(
        self, context: dex.Context, request: ResolveInterrupt
    ) -> dex.RPCResult[bool]:
        return cast("dex.RPCResult[bool]", self._answer(context, request))

    @_answers(CancelTurn)
    def cancel_turn(self, context: dex.Context, request: CancelTurn) -> dex.RPCResult[bool]:
        return cast("dex.RPCResult[bool]", self._answer(context, request))

    @_answers(ClaimToolCall)
    def claim_tool_call(self, context: dex.Context, request: ClaimToolCall) -> dex.RPCResult[bool]:
        return cast("dex.RPCResult[bool]", self._answer(context, request))

    @_answers(GetAgentSnapshot)
    def get_agent_snapshot(
        self, context: dex.Context, request: GetAgentSnapshot
    ) -> dex.RPCResult[AgentSnapshot]:
        return cast("dex.RPCResult[AgentSnapshot]", self._answer(context, request))

    def _answer(self, context: dex.Context, request: Request) -> dex.RPCResult[Reply]:
        reader = SessionReader(context, self.options)
        view = reader.rpc_view(RPC_OF[type(request)].reads, request)
        decision = answer(request, view, self._binding.clock.now())
        known = Known(
            state=view.state,
            next_state=view.state,
            run_state_part_count=RUN_STATE_PART_COUNT.get(context),
        )
        writer = SessionWriter(context, self._binding.runner, known)
        for write in decision.writes:
            writer.write(write)
        for publish in decision.publishes:
            writer.publish(publish)
        steps = decision.next.steps if decision.next else ()
        loading = Loading(context.run_id, known, self._binding.cache)
        return dex.RPCResult(
            decision.reply,
            next_steps=tuple(movement(step, loading) for step in steps),
            canceling_steps=tuple(STEP_CLASSES[step] for step in decision.cancel),
        )


def agent_registry(*flows: dex.Flow[Any]) -> dex.Registry:
    """A Registry that can encode what sessions store; it may hold other Flows beside them.

    Raises:
        dex.FlowDefinitionError: a Flow is not well defined, or two have one type.
    """
    return dex.Registry(flows, codec_registry(), allow_async_handlers=True)
