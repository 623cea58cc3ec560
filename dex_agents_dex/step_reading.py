"""The views of Steps: what travels with them, and the entries that they need of what lies in maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import dex
from attrs import frozen

from dex_agents_model.calls import AgentToolCall
from dex_agents_model.ids import ToolCallId, TurnId
from dex_agents_model.layout import (
    Entry,
    is_final,
    message_key,
    read_message,
    read_run_state,
    read_shortened_tool_call,
    read_tool_call,
    run_state_keys,
    steering_key,
)
from dex_agents_model.records import (
    AgentInterruptResolution,
    AgentMessage,
    HistorySummary,
    RunningModel,
    RunningTools,
    TakenSteering,
)
from dex_agents_model.steps import CallStep, Step
from dex_agents_model.views import (
    ApprovalView,
    CallView,
    CompactionView,
    ResumeView,
    SessionView,
    StepView,
    TurnView,
    UnfinishedTurnView,
)

from .entries import Entries
from .known import Known
from .reading import SessionReader
from .record_cache import RecordCache
from .schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    FRAMEWORK_RUN_STATE,
    HISTORY_SUMMARY,
    INTERRUPT_RESOLUTIONS,
    RUN_STATE_PART_COUNT,
    TAKEN_STEERING,
    TOOL_CALL_CLAIMS,
    TOOL_CALL_RESULTS,
)


async def read_messages(entries: Entries, sequences: Iterable[int]) -> tuple[AgentMessage, ...]:
    """The stored messages of these sequences, whole.

    Raises:
        StateCorrupt: one is not stored, or not whole.
    """
    heads = await entries.all(AGENT_MESSAGES, map(message_key, sequences))
    parts = await entries.all(AGENT_MESSAGE_PARTS, _part_keys(heads.values()))
    return tuple(read_message(head, parts) for head in heads.values())


@frozen
class StepReader:
    """Reads the views of one invocation of a Step, and notes in ``known`` what it read."""

    session: SessionReader
    entries: Entries
    cache: RecordCache
    known: Known
    overhead_tokens: Callable[[], int]

    def waiting_view(self, kind: type[StepView], step: Step) -> StepView:
        """What ``step`` loads before it waits: nothing of what lies in many entries."""
        if issubclass(kind, CallView) and isinstance(step, CallStep):
            return self._noted(self._call_view(kind, step.call))
        return self._noted(self.session.fill(SessionView))

    async def view(self, kind: type[StepView], step: Step) -> StepView:
        """What ``step`` loads before it executes. ``kind`` is what its Spec reads."""
        turn: TurnId | None = getattr(step, "turn", None)
        state = self.session.state
        if turn is None or state is None or state.active_turn_id != turn:
            state = None  # of a turn that has ended nothing is left to be read
        if isinstance(state, RunningModel | RunningTools):
            if issubclass(kind, TurnView):
                return self._noted(await self._turn_view(state))
            if issubclass(kind, CompactionView):
                return self._noted(await self._compaction_view(state))
            if issubclass(kind, UnfinishedTurnView):
                return self._noted(await self._unfinished_view(state))
            if issubclass(kind, ResumeView):
                return self._noted(await self._resume_view(state))
        if issubclass(kind, CallView) and isinstance(step, CallStep):
            return self._noted(self._call_view(kind, step.call))
        return self._noted(self.session.fill(SessionView))

    def _noted(self, view: StepView) -> StepView:
        self.known.state = self.known.next_state = view.state
        self.known.run_state_part_count = RUN_STATE_PART_COUNT.get(self.session.context)
        return view

    async def _turn_view(self, state: RunningModel | RunningTools) -> TurnView:
        self.cache.leave_behind(
            self.session.context.run_id, state.history.summarised_through, state.active_turn_id
        )
        return self.session.fill(
            TurnView,
            usage=self.session.usage,
            messages=await self._messages_behind_summary(state),
            run_state=await self._run_state(),
            tool_calls=await self._tool_calls(state),
            steering=await self._taken_steering(state),
            summary=await self._summary(state),
            overhead_tokens=self.overhead_tokens(),
        )

    async def _compaction_view(self, state: RunningModel | RunningTools) -> CompactionView:
        policy = self.session.options.compaction
        if policy is not None and policy.kept_summarised_messages is not None:
            await self._note_summarised(state)
        return self.session.fill(
            CompactionView,
            usage=self.session.usage,
            messages=await self._messages_behind_summary(state),
            summary=await self._summary(state),
        )

    async def _resume_view(self, state: RunningModel | RunningTools) -> ResumeView:
        calls = state.latest_tool_call_ids if isinstance(state, RunningTools) else ()
        heads = await self.entries.all(AGENT_TOOL_CALLS, calls)
        self.known.call_entries |= heads
        return self.session.fill(
            ResumeView,
            tool_calls=tuple(map(read_shortened_tool_call, heads.values())),
            pending_steering=self.session.pending_steering(),
        )

    async def _unfinished_view(self, state: RunningModel | RunningTools) -> UnfinishedTurnView:
        claims = await self.entries.stored(TOOL_CALL_CLAIMS, state.tool_call_ids)
        return self.session.fill(
            UnfinishedTurnView,
            run_state=await self._run_state(),
            tool_calls=await self._tool_calls(state),
            claimed=frozenset(map(ToolCallId, claims)),
            steering=await self._taken_steering(state),
            answers=waiting_answers(self.session.context),
            approval_count=self.session.approval_count,
        )

    def _call_view(self, kind: type[StepView], call: ToolCallId) -> CallView:
        record, claimant = self._own_tool_call(call), self.session.claimant(call)
        if record is not None:
            self.known.records[call] = record
        if issubclass(kind, ApprovalView):
            return self.session.fill(
                ApprovalView,
                record=record,
                claimant=claimant,
                interrupts=self.session.interrupts,
                pending_steering=self.session.pending_steering(),
                approval_count=self.session.approval_count,
            )
        return self.session.fill(CallView, record=record, claimant=claimant)

    # --- what lies in maps ---------------------------------------------------------------------

    async def _messages_behind_summary(
        self, state: RunningModel | RunningTools
    ) -> tuple[AgentMessage, ...]:
        sequences = state.history.behind_summary(state.message_count)
        run_id = self.session.context.run_id
        kept = self.cache.messages(run_id)
        found = {sequence: kept.get(sequence) for sequence in sequences}
        missing = [sequence for sequence, message in found.items() if message is None]
        read = await read_messages(self.entries, missing)
        self.cache.keep_messages(run_id, read)
        found.update((message.sequence, message) for message in read)
        return tuple(message for message in found.values() if message is not None)

    async def _note_summarised(self, state: RunningModel | RunningTools) -> None:
        stored = range(state.history.first_sequence, state.message_count + 1)
        heads = await self.entries.all(AGENT_MESSAGES, map(message_key, stored))
        self.known.summarised_entries = dict(zip(stored, heads.values(), strict=True))

    async def _run_state(self) -> str | None:
        keys = run_state_keys(RUN_STATE_PART_COUNT.get(self.session.context))
        run_state = read_run_state(await self.entries.all(FRAMEWORK_RUN_STATE, keys))
        self.known.run_state = run_state
        return run_state

    async def _tool_calls(self, state: RunningModel | RunningTools) -> tuple[AgentToolCall, ...]:
        run_id, turn = self.session.context.run_id, state.active_turn_id
        kept = self.cache.final_calls(run_id, turn)
        found: dict[ToolCallId, AgentToolCall | None] = {
            call: kept.get(call) for call in state.tool_call_ids
        }
        heads = await self.entries.all(AGENT_TOOL_CALLS, [c for c, r in found.items() if r is None])
        parts = await self.entries.all(AGENT_TOOL_CALL_PARTS, _part_keys(heads.values()))
        read = [read_tool_call(head, parts) for head in heads.values()]
        self.cache.keep_calls(run_id, turn, read)
        self.known.call_entries |= heads
        found.update((record.tool_call_id, record) for record in read)
        whole = {call: record for call, record in found.items() if record is not None}
        self.known.records |= whole
        return tuple(whole.values())

    async def _taken_steering(
        self, state: RunningModel | RunningTools
    ) -> tuple[TakenSteering, ...]:
        keys = map(steering_key, range(state.steering_count))
        return tuple((await self.entries.all(TAKEN_STEERING, keys)).values())

    async def _summary(self, state: RunningModel | RunningTools) -> HistorySummary | None:
        through = state.history.summarised_through
        keys = (message_key(through),) if through else ()
        found = await self.entries.all(HISTORY_SUMMARY, keys)
        return next(iter(found.values()), None)

    def _own_tool_call(self, call: ToolCallId) -> AgentToolCall | None:
        context = self.session.context
        entry: Entry | None = AGENT_TOOL_CALLS.get(context, call)
        if entry is None:
            return None
        self.known.call_entries[call] = entry
        if is_final(entry):
            return read_shortened_tool_call(entry)
        keys = entry.part_keys()
        return read_tool_call(entry, {key: AGENT_TOOL_CALL_PARTS.get(context, key) for key in keys})


def waiting_answers(context: dex.Context) -> tuple[AgentInterruptResolution, ...]:
    """The answers to questions that no Step has taken yet, as Dex loaded them."""
    pending = [
        *TOOL_CALL_RESULTS.pending_messages(context),
        *(
            message
            for key in INTERRUPT_RESOLUTIONS.get_all_instance_keys(context)
            for message in INTERRUPT_RESOLUTIONS.pending_messages(context, key)
        ),
    ]
    told = (message.value for message in pending)
    return tuple(signal for signal in told if isinstance(signal, AgentInterruptResolution))


def _part_keys(entries: Iterable[Entry]) -> Sequence[str]:
    return [key for entry in entries for key in entry.part_keys()]
