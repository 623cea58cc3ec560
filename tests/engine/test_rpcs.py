"""RPCs: kinds, locks, effects, and how each failure is told."""

import asyncio
from datetime import timedelta

import pytest
from dex import (
    AsyncContext,
    Attribute,
    Channel,
    ChannelMessageNotFoundError,
    Context,
    FlowNotActiveOrNotFoundError,
    RpcLockConflictError,
    RPCResult,
    Step,
    StepDecision,
    StepMovement,
    StepOptions,
    Wait,
    WorkerInvocationError,
    dead_end,
    go_to_many,
    graceful_complete,
    rpc,
)
from grpc import StatusCode

from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, step

COUNT, OTHER, INBOX = Attribute("Count", int), Attribute("Other", int), Channel("Inbox", str)


class _Counter(Scenario):
    """RPCs over one Attribute and one Channel; `gate` holds the slow ones."""

    def __init__(self, *steps: Step[str]) -> None:
        super().__init__(*steps, schema=(COUNT, OTHER, INBOX))
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()

    @rpc
    def read(self, context: Context) -> RPCResult[int]:
        return RPCResult(COUNT.get(context) or 0)

    @rpc
    def write_freely(self, context: Context, count: int) -> RPCResult[bool]:
        COUNT.set(context, count)
        return RPCResult(True)

    @rpc(is_transactional=True)
    def read_strictly(self, context: Context) -> RPCResult[int]:
        return RPCResult(COUNT.get(context) or 0)

    @rpc(lock_attributes=(COUNT.lock(),))
    async def add_slowly(self, context: Context, count: int) -> RPCResult[int]:
        self.entered.set()
        await self.gate.wait()
        COUNT.set(context, (COUNT.get(context) or 0) + count)
        return RPCResult(count)

    @rpc(lock_attributes=(OTHER.lock(),))
    def touch_other(self, context: Context) -> RPCResult[bool]:
        return RPCResult(True)

    @rpc
    def fail(self, context: Context) -> RPCResult[bool]:
        raise ValueError("handler bug")

    @rpc
    def fail_at_length(self, context: Context) -> RPCResult[bool]:
        def deeper(left: int) -> None:
            if left == 0:
                raise ValueError("ü" * 4000)
            deeper(left - 1)

        deeper(100)
        return RPCResult(True)

    @rpc(is_transactional=True, timeout=timedelta(seconds=1))
    async def hang(self, context: Context) -> RPCResult[bool]:
        await asyncio.Event().wait()
        return RPCResult(True)

    @rpc(is_transactional=True)
    def publish(self, context: Context, text: str) -> RPCResult[bool]:
        INBOX.publish(context, text)
        return RPCResult(True)

    @rpc(is_transactional=True, load_channels=(INBOX,))
    async def withdraw_slowly(self, context: Context) -> RPCResult[str]:
        message = INBOX.pending_messages(context)[0]
        self.entered.set()
        await self.gate.wait()
        INBOX.delete(context, message.message_id)
        COUNT.set(context, 99)
        return RPCResult(message.value)


async def _idle(context: AsyncContext, given: str) -> StepDecision:
    return dead_end()


async def test_rpc__effects_are_committed_before_the_answer(on_engine: OnEngine) -> None:
    flow = _Counter(step("Idle", _idle))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.rpc(flow.write_freely, "f", 3) is True
        assert await rig.rpc(flow.read, "f") == 3


async def test_rpc__reads_a_closed_flow_but_changes_none(on_engine: OnEngine) -> None:
    flow = _Counter(step("Idle", _idle))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await rig.rpc(flow.write_freely, "f", 3)
        await rig.client.stop_flow("f")
        assert await rig.rpc(flow.read, "f") == 3
        for call in (
            rig.rpc(flow.write_freely, "f", 4),
            rig.rpc(flow.read_strictly, "f"),
            rig.rpc(flow.touch_other, "f"),
        ):
            with pytest.raises(FlowNotActiveOrNotFoundError):
                await call
        assert await rig.rpc(flow.read, "f") == 3


async def test_rpc__a_taken_lock_is_a_conflict_and_another_key_is_not(
    on_engine: OnEngine,
) -> None:
    flow = _Counter(step("Idle", _idle))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        holder = asyncio.create_task(rig.rpc(flow.add_slowly, "f", 1))
        await flow.entered.wait()
        with pytest.raises(RpcLockConflictError):
            await rig.rpc(flow.add_slowly, "f", 1)
        assert await rig.rpc(flow.touch_other, "f") is True
        assert await rig.rpc(flow.read, "f") == 0
        flow.gate.set()
        assert await holder == 1
        assert await rig.rpc(flow.add_slowly, "f", 1) == 1
        assert await rig.rpc(flow.read, "f") == 2


async def test_rpc__a_failed_handler_is_told_with_its_error(on_engine: OnEngine) -> None:
    flow = _Counter(step("Idle", _idle))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        with pytest.raises(WorkerInvocationError) as failed:
            await rig.rpc(flow.fail, "f")
        assert (
            failed.value.code,
            failed.value.worker_error_type,
            failed.value.worker_error_detail,
        ) == (StatusCode.FAILED_PRECONDITION, "builtins.ValueError", "handler bug")


async def test_rpc__an_error_of_any_length_reaches_the_caller(on_engine: OnEngine) -> None:
    """A client takes 8 KiB of metadata, in which errors travel; a longer one would be lost."""
    flow = _Counter(step("Idle", _idle))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        with pytest.raises(WorkerInvocationError) as failed:
            await rig.rpc(flow.fail_at_length, "f")
        assert failed.value.worker_error_detail.startswith("üüü")


async def test_rpc__that_hangs_ends_at_its_timeout(on_engine: OnEngine) -> None:
    flow = _Counter(step("Idle", _idle))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        with pytest.raises(WorkerInvocationError) as failed:
            await rig.rpc(flow.hang, "f")
        assert failed.value.worker_error_detail.startswith("RPC timeout: 'hang'")


async def test_rpc__without_a_worker_fails_after_ten_seconds(on_engine: OnEngine) -> None:
    flow = _Counter(step("Idle", _idle))
    async with on_engine(flow, has_worker=False) as rig:
        await rig.client.start_flow(flow, "f", "")
        call = asyncio.create_task(rig.rpc(flow.read, "f"))
        while not call.done():
            await asyncio.wait({call}, timeout=0.05)
            rig.engine.skip_time(timedelta(seconds=10))
        with pytest.raises(WorkerInvocationError, match="no Worker took RPC 'read'"):
            await call


async def test_rpc__that_deletes_a_taken_message_commits_nothing(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(INBOX.for_n(2))

    async def take(context: AsyncContext, given: str) -> StepDecision:
        return dead_end()

    flow = _Counter(step("Taking", take, wait_for=wait))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await rig.rpc(flow.publish, "f", "a")
        withdrawing = asyncio.create_task(rig.rpc(flow.withdraw_slowly, "f"))
        await flow.entered.wait()
        await rig.rpc(flow.publish, "f", "b")  # the Wait takes both
        flow.gate.set()
        with pytest.raises(ChannelMessageNotFoundError):
            await withdrawing
        assert await rig.rpc(flow.read, "f") == 0


async def test_rpc__starts_steps_and_cancels_others_in_one_commit(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(INBOX.for_one())

    async def report(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete(f"{given} from {context.from_step_execution_id}")

    waiting, reporting = step("Waiting", report, wait_for=wait), step("Reporting", report)

    class Replacing(_Counter):
        @rpc(is_transactional=True)
        def replace(self, context: Context) -> RPCResult[bool]:
            movement = StepMovement.of(type(reporting), "moved")
            return RPCResult(True, (movement,)).with_canceling_steps(type(waiting))

    flow = Replacing(waiting, reporting)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.rpc(flow.replace, "f") is True
        assert await rig.outputs("f") == [("Reporting-1", "moved from __rpc/replace")]


async def test_step_lock__is_held_through_backoff_and_released_by_the_commit(
    on_engine: OnEngine,
) -> None:
    failed_once = asyncio.Event()

    async def flaky(context: AsyncContext, given: str) -> StepDecision:
        if context.attempt == 1:
            failed_once.set()
            raise RuntimeError("again")
        COUNT.set(context, (COUNT.get(context) or 0) + 10)
        return dead_end()

    options = StepOptions(execute_lock_attributes=(COUNT.lock(),))
    flow = _Counter(step("Flaky", flaky, options=options))
    async with on_engine(flow) as rig:
        flow.gate.set()
        await rig.client.start_flow(flow, "f", "")
        await failed_once.wait()
        with pytest.raises(RpcLockConflictError):
            await rig.rpc(flow.add_slowly, "f", 1)
        rig.engine.skip_time(timedelta(seconds=1))
        while await rig.rpc(flow.read, "f") != 10:
            pass
        assert await rig.rpc(flow.add_slowly, "f", 1) == 1
        assert await rig.rpc(flow.read, "f") == 11


async def test_step_locks__serialize_steps_and_show_each_the_other_s_result(
    on_engine: OnEngine,
) -> None:
    async def add(context: AsyncContext, given: str) -> StepDecision:
        COUNT.set(context, (COUNT.get(context) or 0) + 1)
        return graceful_complete(COUNT.get(context))

    options = StepOptions(execute_lock_attributes=(COUNT.lock(),))
    adding = step("Adding", add, options=options)

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(*(StepMovement.of(type(adding), "") for _ in range(5)))

    flow = _Counter(step("Fan", fan), adding)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        outputs = await rig.outputs("f", int)
        assert outputs == [(f"Adding-{n}", n) for n in range(1, 6)]
