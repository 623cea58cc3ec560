"""What cannot work is refused at the door, in one line that says what was wrong."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from dex_agents_dex import (
    AgentRuntime,
    AgentSessionFlow,
    EngineUnavailable,
    SessionNotFound,
)
from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.session_calls import SessionCalls

from .flows import build_flows
from .scripted_runner import ScriptedRunner

BAD_NAMES = {
    "": "'' is blank; choose a name",
    " \t": r"' \t' is blank; choose a name",
    "a/b": "'a/b' holds '/'; use any characters but / $ :",
    "a$b:c": "'a$b:c' holds '$ :'; use any characters but / $ :",
    "a\nb": r"'a\nb' holds a control character, a line break or a lone surrogate",
    "\x1b[2J": r"'\x1b[2J' holds a control character, a line break or a lone surrogate",
    "\udcff": r"'\udcff' holds a control character, a line break or a lone surrogate",
    "x" * 257: f"'{'x' * 40}'... has 257 characters; at most 256 are allowed",
    "x" * 100_000: f"'{'x' * 40}'... has 100000 characters; at most 256 are allowed",
}
"""Of sessions and of Flow types, and why."""


def in_one_line(message: str) -> str:
    """A pattern that matches exactly ``message``."""
    return f"^{re.escape(message)}$"


@pytest.mark.parametrize("session_id", BAD_NAMES)
async def test_session_id__is_refused_by_every_call(runtime: AgentRuntime, session_id: str) -> None:
    sessions = runtime.sessions("Scripted")
    message = in_one_line(f"session ID {BAD_NAMES[session_id]}")

    with pytest.raises(ValueError, match=message):
        await sessions.start_session(session_id, "hello")
    with pytest.raises(ValueError, match=message):
        await sessions.send_user_message(session_id, "hello")
    with pytest.raises(ValueError, match=message):
        await sessions.resolve_interrupt(session_id, "turn-1.c", approved=True)
    with pytest.raises(ValueError, match=message):
        await sessions.get_agent_snapshot(session_id)
    with pytest.raises(ValueError, match=message):
        await sessions.list_agent_messages(session_id)
    with pytest.raises(ValueError, match=message):
        await sessions.read_agent_event(session_id)


async def test_session__that_was_never_started_is_not_found(
    runtime: AgentRuntime, new_session_id: Callable[[], str]
) -> None:
    sessions, session_id = runtime.sessions("Scripted"), new_session_id()
    message = in_one_line(f"there is no open session '{session_id}'")

    with pytest.raises(SessionNotFound, match=message):
        await sessions.send_user_message(session_id, "hello")
    with pytest.raises(SessionNotFound, match=message):
        await sessions.resolve_interrupt(session_id, "turn-1.c", approved=True)
    with pytest.raises(SessionNotFound, match=message):
        await sessions.get_agent_snapshot(session_id)


def test_interrupt_id__of_another_form_is_refused(runtime: AgentRuntime) -> None:
    answering = runtime.sessions("Scripted").resolve_interrupt("s", "c", approved=True)

    message = "interrupt ID 'c' is not of the form 'turn-<n>.<tool call ID>'"
    with pytest.raises(ValueError, match=in_one_line(message)):
        asyncio.run(answering)


def test_flow_type__that_is_unknown_is_refused(runtime: AgentRuntime) -> None:
    message = (
        "unknown flow type 'Other'; this runtime has Scripted, Impatient, Unfenced, Compacting"
    )
    with pytest.raises(ValueError, match=in_one_line(message)):
        runtime.sessions("Other")


@pytest.mark.parametrize("flow_type", BAD_NAMES)
def test_flow_type__that_cannot_name_a_flow_is_refused(tmp_path: Path, flow_type: str) -> None:
    message = f"flow type {BAD_NAMES[flow_type]}"
    with pytest.raises(ValueError, match=in_one_line(message)):
        AgentSessionFlow(ScriptedRunner(tmp_path), flow_type=flow_type)


def test_runtime__refuses_two_flows_of_one_type(tmp_path: Path) -> None:
    flow, *_ = build_flows(tmp_path)
    message = "two of the flows have the same flow type; each agent needs its own"
    with pytest.raises(ValueError, match=in_one_line(message)):
        AgentRuntime(flow, flow)


def test_runtime__refuses_to_serve_nothing() -> None:
    message = "AgentRuntime needs at least one AgentSessionFlow to serve"
    with pytest.raises(ValueError, match=in_one_line(message)):
        AgentRuntime()


@pytest.mark.parametrize(("slots", "reserved"), [(1, 1), (0, 0), (2, 0), (2, 2), (-1, 1)])
def test_runtime__refuses_a_worker_without_a_slot_for_each_kind(
    tmp_path: Path, slots: int, reserved: int
) -> None:
    message = (
        f"worker_slots={slots} with reserved_rpc_slots={reserved}:"
        " a Worker needs at least two slots, one of them for RPCs and one for Steps"
    )
    with pytest.raises(ValueError, match=in_one_line(message)):
        AgentRuntime(*build_flows(tmp_path), worker_slots=slots, reserved_rpc_slots=reserved)


def test_runtime__that_was_not_entered_has_no_sessions(tmp_path: Path) -> None:
    message = "enter the runtime first: async with AgentRuntime(...) as runtime"
    with pytest.raises(RuntimeError, match=in_one_line(message)):
        AgentRuntime(*build_flows(tmp_path)).sessions("Scripted")


@pytest.mark.parametrize("serve", [True, False])
async def test_runtime__says_that_no_server_answers(tmp_path: Path, serve: bool) -> None:
    address = f"127.0.0.1:{_unused_port()}"

    with pytest.raises(EngineUnavailable) as refused:
        async with AgentRuntime(*build_flows(tmp_path), server_address=address, serve=serve):
            pass

    said = str(refused.value)
    assert said.startswith(f"no Dex server answers at {address}: ")
    assert "Connection refused" in said
    assert "\n" not in said


async def test_client__says_that_its_server_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = {"within": timedelta(0)}  # a caller would have to wait until the retries are over
    monkeypatch.setattr(SessionCalls._call, "__kwdefaults__", at_once)
    flows = build_flows(tmp_path)
    async with AsyncExitStack() as running:
        engine = await running.enter_async_context(DevEngine(tmp_path / "data"))
        async with AgentRuntime(*flows, server_address=engine.address, serve=False) as runtime:
            await running.aclose()

            with pytest.raises(EngineUnavailable, match=f"answers at {engine.address}: "):
                await runtime.sessions("Scripted").get_agent_snapshot("s")


async def test_runtime__says_that_its_data_directory_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SERVER_ADDRESS_VARIABLE, raising=False)
    data_dir = tmp_path / "data"
    data_dir.touch()

    with pytest.raises(
        EngineUnavailable,
        match=in_one_line(f"cannot use the data directory {data_dir}: File exists"),
    ):
        async with AgentRuntime(*build_flows(tmp_path), data_dir=data_dir):
            pass


async def test_engine__says_that_its_data_directory_is_in_use(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with DevEngine(data_dir):
        said = await _refused_engine("--port", "0", "--data-dir", str(data_dir))

    assert said == (
        f"error: another dev engine is using {data_dir}; stop it, or name another directory"
    )


async def test_engine__says_that_its_data_directory_is_a_file(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.touch()

    said = await _refused_engine("--port", "0", "--data-dir", str(data_dir))

    assert said.splitlines()[-1].startswith("Error: Invalid value for '--data-dir'")
    assert str(data_dir) in said


async def test_engine__says_that_its_port_is_in_use(tmp_path: Path) -> None:
    async with DevEngine(tmp_path / "one") as engine:
        port = engine.address.rpartition(":")[2]
        said = await _refused_engine("--port", port, "--data-dir", str(tmp_path / "other"))

    assert said.startswith(f"error: cannot listen on 127.0.0.1:{port}: ")
    assert "in use" in said
    assert "\n" not in said


async def _refused_engine(*arguments: str) -> str:
    """What the engine's command line says when it refuses to start, without a traceback."""
    engine = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dex_agents_dex.devengine", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await engine.communicate()
    assert engine.returncode == 2
    assert out == b""
    return said.decode().strip()


def _unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
