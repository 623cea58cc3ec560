"""`python -m dex_agents_dex.devengine`: what it prints, refuses, and leaves."""

import json
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine, EngineNotStarted, StoreUnusable
from tests.engine.rig import free_port

COMMAND = (sys.executable, "-m", "dex_agents_dex.devengine")


@contextmanager
def _running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command and its first line of output; it is killed at the end if it still runs."""
    command = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with command:
        assert command.stdout is not None
        try:
            yield command, command.stdout.readline()
        finally:
            command.kill()


def _refused(*arguments: str) -> str:
    """What the command says on stderr while it exits with code 2 and prints nothing else."""
    ended = subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_command__on_port_0_prints_one_json_line_and_ends_cleanly(
    data_dir: Path, number: signal.Signals
) -> None:
    with _running("--port", "0", "--data-dir", str(data_dir)) as (command, line):
        told = json.loads(line)
        assert told["pid"] == command.pid
        host, _, port = told["address"].rpartition(":")
        assert host == "127.0.0.1"
        with socket.create_connection((host, int(port))):
            pass
        command.send_signal(number)
        assert command.wait(timeout=30) == 0
        assert command.communicate() == ("", "")


def test_command__on_a_chosen_port_prints_that_it_is_ready(data_dir: Path, port: int) -> None:
    with _running("--port", str(port), "--data-dir", str(data_dir)) as (_, line):
        assert line == (
            f"dev engine ready on 127.0.0.1:{port}; "
            "every local process may use it (no --auth-token-file)\n"
        )


def test_command__keeps_its_directory_private(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o755)
    with _running("--port", "0", "--data-dir", str(data_dir)):
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


def test_command__refuses_a_directory_in_use(data_dir: Path) -> None:
    with _running("--port", "0", "--data-dir", str(data_dir)):
        assert _refused("--port", "0", "--data-dir", str(data_dir)) == (
            f"error: another dev engine is using {data_dir}; stop it, or name another directory\n"
        )


def test_command__refuses_a_port_in_use(data_dir: Path, port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert _refused("--port", str(port), "--data-dir", str(data_dir)) == (
            f"error: cannot listen on 127.0.0.1:{port}: Address already in use; "
            "choose another --port\n"
        )


def test_command__refuses_a_remote_address_without_the_flag(data_dir: Path) -> None:
    told = _refused("--host", "0.0.0.0", "--port", "0", "--data-dir", str(data_dir))
    assert "0.0.0.0 can be reached from other machines" in told
    assert "--allow-remote" in told


def test_command__refuses_a_host_that_is_none(data_dir: Path) -> None:
    remote = ("--host", "nowhere.invalid", "--allow-remote", "--port", "0")
    told = _refused(*remote, "--data-dir", str(data_dir))
    assert told.splitlines()[1].startswith("error: cannot listen on 'nowhere.invalid': ")
    assert told.count("\n") == 2


@pytest.mark.parametrize("retention", ["30x", "-1d", "36501d", "99999999999d"])
def test_command__refuses_a_retention_that_is_none(data_dir: Path, retention: str) -> None:
    told = _refused("--port", "0", "--data-dir", str(data_dir), "--retention", retention)
    assert f"Invalid value for '--retention': {retention!r} is " in told


def test_command__refuses_to_watch_an_input_that_nobody_holds(data_dir: Path) -> None:
    told = _refused("--port", "0", "--data-dir", str(data_dir), "--until-stdin-closes")
    assert told == "error: --until-stdin-closes needs a pipe or a terminal as standard input\n"


def test_command__leaves_a_directory_of_others_alone(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o755)
    (data_dir / "users").touch()  # a name that an engine uses too
    (data_dir / "notes").touch()
    assert _refused("--port", "0", "--data-dir", str(data_dir)) == (
        f"error: cannot use the data directory {data_dir}: it holds files that no engine made\n"
    )
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o755
    assert {path.name for path in data_dir.iterdir()} == {"notes", "users"}


def test_command__refuses_a_directory_that_cannot_be_made(data_dir: Path) -> None:
    data_dir.touch()
    assert _refused("--port", "0", "--data-dir", str(data_dir / "below")) == (
        f"error: cannot use the data directory {data_dir / 'below'}: Not a directory\n"
    )


def test_command__logs_json_a_line(data_dir: Path) -> None:
    logging = ("--log-format", "json", "--port", "0", "--data-dir", str(data_dir))
    with _running(*logging) as (command, line):
        _register_and_say_nonsense(json.loads(line)["address"])
        command.terminate()
        _, stderr = command.communicate(timeout=30)
    [told] = [json.loads(each) for each in stderr.splitlines()]
    assert datetime.fromisoformat(told.pop("time")).tzinfo is not None
    assert told == {
        "level": "warning",
        "logger": "dex_agents_dex.devengine.server.worker_streams",
        "message": "Worker w sent an unexpected register frame",
    }


def _register_and_say_nonsense(address: str) -> None:
    register = pb.PollWorkerTaskRequest(
        register=pb.PollWorkerTaskRegister(queue="T", app_worker_id="w", flow_types=["T"])
    )
    with grpc.insecure_channel(address) as channel:
        stub: Any = dex_pb2_grpc.WorkerTaskServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        assert list(stub.PollWorkerTask(iter((register, register)))) != []


def test_command__warns_about_a_remote_address(data_dir: Path) -> None:
    remote = ("--host", "0.0.0.0", "--allow-remote", "--port", "0", "--data-dir", str(data_dir))
    with _running(*remote) as (command, line):
        assert json.loads(line)["address"].startswith("0.0.0.0:")
        command.terminate()
        assert command.wait(timeout=30) == 0
        assert command.communicate()[1] == (
            "warning: everybody who reaches 0.0.0.0 controls this engine\n"
        )


async def test_store__of_a_newer_engine_is_refused(data_dir: Path) -> None:
    async with DevEngine(data_dir):
        pass
    with closing(sqlite3.connect(data_dir / "engine.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreUnusable, match=r"newer dev engine \(schema 99; this one knows 1\)"):
        await DevEngine(data_dir).start()
    told = _refused("--port", "0", "--data-dir", str(data_dir))
    assert told.startswith("error: ")
    assert told.count("\n") == 1


@pytest.fixture
def foreign_dir(data_dir: Path) -> Path:
    data_dir.mkdir()
    (data_dir / "engine.sqlite3").write_text("something else entirely, and long enough" * 10)
    return data_dir


async def test_store__that_is_no_database_is_refused(foreign_dir: Path) -> None:
    with pytest.raises(StoreUnusable, match="cannot be opened as the engine's store"):
        await DevEngine(foreign_dir).start()


async def test_store__with_damaged_pages_is_refused_by_its_name(data_dir: Path) -> None:
    async with DevEngine(data_dir):
        pass
    store = data_dir / "engine.sqlite3"
    whole = store.read_bytes()
    store.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))

    with pytest.raises(StoreUnusable, match=rf"^{re.escape(str(store))} is damaged \("):
        await DevEngine(data_dir).start()


async def test_engine__frees_its_directory_when_it_stops(data_dir: Path) -> None:
    async with DevEngine(data_dir) as first:
        with pytest.raises(EngineNotStarted, match="another dev engine is using"):
            await DevEngine(data_dir).start()
        port = int(first.address.rpartition(":")[2])
    async with DevEngine(data_dir, port=port) as second:
        assert second.address == f"127.0.0.1:{port}"
