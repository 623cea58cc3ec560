"""What is told when there is no server, another kind of server, or one that goes away."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc
from google.protobuf.empty_pb2 import Empty

from dex_agents_dex import EngineUnavailable
from dex_agents_dex.cli import main, probing
from dex_agents_dex.cli.trouble import Trouble, run
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_model import AgentUsage, wire

from . import agent
from .conftest import Bench, dex_agents
from .every_command import EVERY_COMMAND, NEED_NO_SERVER, call_of

WHAT_TO_DO = "; name a server with --server HOST:PORT, or run one with `dex-agents dev`\n"


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_commands__are_all_known_to_these_tests() -> None:
    assert EVERY_COMMAND.keys() | NEED_NO_SERVER == main.commands.keys()


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_server__that_is_not_there_is_named_with_what_to_do(name: str) -> None:
    address = _free_address()
    result = dex_agents(*call_of(name), "--server", address)

    told = f"error: no Dex server answers at {address}: Connection refused{WHAT_TO_DO}"
    assert (result.exit_code, result.stderr) == (3, told)


@pytest.mark.parametrize("name", EVERY_COMMAND)
@pytest.mark.parametrize("address", ["no-such-host.invalid:8801", "http://127.0.0.1:1", "nonsense"])
def test_server__whose_address_is_wrong_is_named_with_what_to_do(name: str, address: str) -> None:
    result = dex_agents(*call_of(name), "--server", address)

    assert result.exit_code == 3, result.output
    assert result.stderr.startswith(f"error: no Dex server answers at {address}: ")
    assert result.stderr.endswith(WHAT_TO_DO)
    assert result.stderr.count("\n") == 1


def test_server__is_taken_from_the_environment() -> None:
    address = _free_address()
    result = CliRunner().invoke(main, ["sessions"], env={SERVER_ADDRESS_VARIABLE: address})

    assert (result.exit_code, address in result.stderr) == (3, True)


@pytest.fixture
def web_server() -> Iterator[str]:
    """Answers everything as an old web server does."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            with caller:
                caller.recv(1024)
                caller.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    thread = threading.Thread(target=answer)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_server__that_speaks_another_protocol_is_named(web_server: str, name: str) -> None:
    result = dex_agents(*call_of(name), "--server", web_server)

    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: no Dex server answers at {web_server}: ")
    assert result.stderr.count("\n") == 1


def test_server__that_accepts_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_ANSWERS_WITHIN", timedelta(milliseconds=500))
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = dex_agents("sessions", "--server", address)

    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: no Dex server answers at {address}: ")


class _FromTheFuture(dex_pb2_grpc.FlowServiceServicer):
    def GetServerInfo(  # noqa: N802 - gRPC calls it so
        self, request: Empty, context: object
    ) -> pb.ServerInfo:
        return pb.ServerInfo(
            server_version="99",
            minimum_supported_protocol_version=98,
            current_protocol_version=99,
        )

    def HealthCheck(  # noqa: N802 - gRPC calls it so
        self, request: Empty, context: object
    ) -> pb.HealthInfo:
        return pb.HealthInfo(condition="OK")


@pytest.fixture
def future_server() -> Iterator[str]:
    """A gRPC server with Dex's service, of a protocol that is not known yet."""
    with ThreadPoolExecutor() as pool:
        server = grpc.server(pool)
        dex_pb2_grpc.add_FlowServiceServicer_to_server(_FromTheFuture(), server)  # type: ignore[no-untyped-call]  # generated code
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}"
        server.stop(None).wait()


def test_server__of_a_protocol_that_is_too_new_is_refused_with_both_versions(
    future_server: str,
) -> None:
    result = dex_agents("serve", agent.NAME, "--server", future_server)

    assert result.exit_code == 3
    assert "is incompatible with Server version" in result.stderr
    assert result.stderr.count("\n") == 1


def test_data_dir__on_which_no_engine_ran_is_named(tmp_path: Path) -> None:
    result = dex_agents("sessions", "--data-dir", str(tmp_path / "none"))

    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: no dev engine has run on {tmp_path / 'none'} yet")
    assert not (tmp_path / "none").exists()


def test_session__that_is_not_there_has_an_exit_code_of_its_own(served: Bench) -> None:
    result = served.run("show", "nobody")

    told = "error: there is no session 'nobody'; `dex-agents sessions` lists those that there are"
    assert (result.exit_code, result.stderr) == (4, f"{told}\n")


def test_names__are_refused_before_a_server_is_asked() -> None:
    wrong_session = dex_agents("show", "a/b", "--server", "nowhere.invalid:1")
    wrong_question = dex_agents("approve", "s", "call-1", "--server", "nowhere.invalid:1")
    wrong_turn = dex_agents("cancel", "s", "--turn", "3", "--server", "nowhere.invalid:1")
    wrong_message = dex_agents("withdraw", "s", "\udce9", "--server", "nowhere.invalid:1")
    wrong_agent = dex_agents("sessions", "--agent", "\udce9", "--server", "nowhere.invalid:1")
    wrong_server = dex_agents("sessions", "--server", "\udce9:1")

    wrong = (wrong_session, wrong_question, wrong_turn, wrong_message, wrong_agent, wrong_server)
    assert [r.exit_code for r in wrong] == [2] * len(wrong)


def test_run__tells_of_a_record_of_a_later_release_in_one_line() -> None:
    async def read() -> None:
        wire.load({"v": 2}, AgentUsage)

    with pytest.raises(Trouble, match="has the form 2; this release reads form 1") as raised:
        run(read())

    assert raised.value.exit_code == 1


async def test_while_it_answers__ends_the_work_when_the_server_goes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_LOOK_EVERY", timedelta(milliseconds=100))
    endless = asyncio.Event()
    work = asyncio.create_task(probing.while_it_answers(bench.dex_server, endless.wait()))
    bench.engine.kill()

    with pytest.raises(EngineUnavailable, match="no Dex server answers at"):
        await work


async def test_while_it_answers__gives_the_result_of_the_work(bench: Bench) -> None:
    async def work() -> str:
        return "done"

    assert await probing.while_it_answers(bench.dex_server, work()) == "done"
