"""What the engine keeps where, for how long, and for whom."""

import asyncio
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex import (
    AsyncClient,
    AsyncContext,
    Attribute,
    BlobCacheConfig,
    Channel,
    ClientOptions,
    Context,
    DexServiceError,
    FileCredential,
    FlowNotFoundError,
    FlowStatus,
    Registry,
    RPCResult,
    StartFlowOptions,
    StepDecision,
    Timer,
    Wait,
    dead_end,
    graceful_complete,
    open_blob_cache,
    rpc,
)
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc
from grpc import StatusCode

from dex_agents_dex.devengine import DevEngine, EngineNotStarted, EngineOptions
from dex_agents_dex.devengine.server.bearer import TokenFile
from tests.engine.rig import Scenario, rig, step, until

OFTEN = timedelta(milliseconds=20)
COLOR, INBOX = Attribute("Color", str), Channel("Inbox", str)


class _Idling(Scenario):
    @rpc
    def color(self, context: Context) -> RPCResult[str]:
        return RPCResult(str(COLOR.get(context)))

    @rpc(is_transactional=True)
    def publish(self, context: Context, text: str) -> RPCResult[bool]:
        INBOX.publish(context, text)
        return RPCResult(True)


async def _until_in_memory(engine: DevEngine, count: int) -> None:
    await until(lambda: engine.counts()["flows_in_memory"] == count)


async def test_idle_flow__leaves_memory_and_comes_back_whole(tmp_path: Path) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        COLOR.set(context, "red")
        return Wait.until(INBOX.for_n(2))

    async def take(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete([given, *INBOX.results(context)])

    flow = _Idling(step("Waiting", take, wait_for=wait), schema=(COLOR, INBOX))
    options = EngineOptions(housekeeping_interval=OFTEN)
    async with (
        DevEngine(tmp_path / "data", options=options) as engine,
        rig(engine, tmp_path, flow) as made,
    ):
        await made.client.start_flow(flow, "f", "input")
        await made.rpc(flow.publish, "f", "a")
        await _until_in_memory(engine, 0)
        assert await made.rpc(flow.color, "f") == "red"
        await _until_in_memory(engine, 0)
        await made.rpc(flow.publish, "f", "b")
        assert await made.outputs("f", list[str]) == [("Waiting-1", ["input", "a", "b"])]
        await _until_in_memory(engine, 0)
        assert (await made.client.describe_flow("f")).status is FlowStatus.COMPLETED


async def test_idle_flow__is_woken_by_its_timer(tmp_path: Path) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(Timer.by_duration(timedelta(hours=1)))

    async def finish(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("woken")

    flow = _Idling(step("Waiting", finish, wait_for=wait), schema=(COLOR, INBOX))
    options = EngineOptions(housekeeping_interval=OFTEN)
    async with (
        DevEngine(tmp_path / "data", options=options) as engine,
        rig(engine, tmp_path, flow) as made,
    ):
        await made.client.start_flow(flow, "f", "")
        await _until_in_memory(engine, 0)
        engine.skip_time(timedelta(hours=1))
        assert await made.outputs("f") == [("Waiting-1", "woken")]


async def test_closed_flow__is_dropped_after_its_retention(tmp_path: Path) -> None:
    async def finish(context: AsyncContext, given: str) -> StepDecision:
        COLOR.set(context, "red" * 50_000)
        return graceful_complete("done") if given == "close" else dead_end()

    flow = _Idling(step("Only", finish), schema=(COLOR, INBOX))
    options = EngineOptions(housekeeping_interval=OFTEN, retention=timedelta(days=1))
    async with (
        DevEngine(tmp_path / "data", options=options) as engine,
        rig(engine, tmp_path, flow) as made,
    ):
        await made.client.start_flow(flow, "closed", "close")
        await made.client.start_flow(flow, "open", "")
        await made.result("closed")
        engine.skip_time(timedelta(days=2))
        async with asyncio.timeout(20):
            while [e.flow_id for e in (await made.client.search_flows("", 10)).flows] != ["open"]:
                pass
        with pytest.raises(FlowNotFoundError):
            await made.client.describe_flow("closed")
        await made.client.start_flow(
            flow, "closed", "close", StartFlowOptions(request_id="the id is free again")
        )


async def test_closed_flow__that_is_dropped_while_an_rpc_reads_it_is_told_to_the_caller(
    tmp_path: Path,
) -> None:
    options = EngineOptions(housekeeping_interval=OFTEN, retention=timedelta(seconds=1))
    async with (
        DevEngine(tmp_path / "data", options=options) as engine,
        grpc.aio.insecure_channel(engine.address) as channel,
    ):
        flows: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        await flows.StartFlow(pb.StartFlowRequest(flow_id="f", flow_type="T", request_id="r"))
        await flows.StopFlow(pb.StopFlowRequest(flow_id="f"))
        reading = flows.InvokeRPC(pb.InvokeRPCRequest(flow_id="f", rpc_name="nobody takes it"))
        assert await reading.code() is StatusCode.NOT_FOUND
        assert engine.counts()["rpcs_open"] == 0


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text("\ufefffirst-token\r\nsecond-token\n")  # as some editors save it
    return path


async def test_token_file__lets_in_only_those_who_have_a_token(
    tmp_path: Path, token_file: Path
) -> None:
    async def finish(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("done")

    flow = _Idling(step("Only", finish), schema=(COLOR, INBOX))
    registry = Registry([flow], allow_async_handlers=True)
    cache = open_blob_cache(BlobCacheConfig(str(tmp_path / "cache"), 1 << 20))
    options = EngineOptions(auth_token_file=token_file)
    async with DevEngine(tmp_path / "data", options=options) as engine:

        def client(token: str | None) -> AsyncClient:
            own = ClientOptions(
                server_address=engine.address, credential=_credential(tmp_path, token)
            )
            return AsyncClient(registry, cache, own)

        async def is_refused(token: str | None) -> bool:
            async with client(token) as calling:
                with pytest.raises(DexServiceError) as refused:
                    await calling.health_check()
            return refused.value.code is StatusCode.UNAUTHENTICATED

        async def is_let_in(token: str) -> bool:
            async with client(token) as calling:
                return await calling.health_check()

        assert await is_let_in("first-token")
        assert await is_let_in("second-token")
        assert await is_refused("third-token")
        assert await is_refused(None)
        _write(token_file, "third-token\n")
        assert await is_let_in("third-token")
        assert await is_refused("second-token")


def test_token_file__that_is_gone_leaves_its_tokens_and_is_told_once(
    tmp_path: Path, token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = TokenFile(token_file)
    token_file.unlink()
    assert [tokens.allows("Bearer first-token") for _ in range(3)] == [True] * 3
    assert not tokens.allows("Bearer third-token")
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "keeping the tokens read before"
    ]
    _write(token_file, "third-token\n")
    assert tokens.allows("Bearer third-token")


def _credential(directory: Path, token: str | None) -> FileCredential | None:
    if token is None:
        return None
    _write(directory / "mine", token)
    return FileCredential(directory / "mine")


def _write(path: Path, text: str) -> None:
    path.write_text(text)


async def test_token_file__without_a_token_is_refused(tmp_path: Path, token_file: Path) -> None:
    _write(token_file, "\n")
    options = EngineOptions(auth_token_file=token_file)
    with pytest.raises(EngineNotStarted, match="holds no token"):
        await DevEngine(tmp_path / "data", options=options).start()


def test_command__tells_who_may_use_it_and_what_it_did(tmp_path: Path, token_file: Path) -> None:
    command = (sys.executable, "-m", "dex_agents_dex.devengine", "--port", "0", "--metrics")
    arguments = ("--data-dir", str(tmp_path / "data"), "--auth-token-file", str(token_file))
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["auth"] == "bearer"
        running.terminate()
        assert running.wait(timeout=30) == 0
        counts = json.loads(running.communicate()[1])
        assert (counts["commits"], counts["flows_in_memory"]) == (0, 0)
