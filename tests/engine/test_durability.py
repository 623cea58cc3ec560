"""Whether an acknowledged write was fsynced, as the kernel sees it: the engine runs under strace."""

import json
import os
import re
import shutil
import signal
import sys
from asyncio import create_subprocess_exec, subprocess
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine.options import Durability

STRACE: Final = shutil.which("strace")
FLOWS = 5
SYNCED = re.compile(r"(fdatasync|fsync)\(\d+\) += 0|(fdatasync|fsync) resumed>.* = 0")


@pytest.mark.skipif(STRACE is None, reason="needs strace")
@pytest.mark.parametrize(
    ("durability", "order"),
    [("strict", "written, synced, answered"), ("process-crash-safe", "written, answered")],
    ids=["strict", "process-crash-safe"],
)
async def test_acknowledged_write__was_fsynced_only_when_strict(
    tmp_path: Path, durability: Durability, order: str
) -> None:
    """Each Flow is started after the answer to the one before. Its run id is in what the engine
    writes to the log and in what it sends, so the calls between the two can be told."""
    trace = tmp_path / "trace"
    run_ids = await _start_flows(tmp_path / "data", trace, durability)
    lines = trace.read_text().splitlines()
    assert [_order(lines, run_id) for run_id in run_ids] == [order] * FLOWS


async def _start_flows(data_dir: Path, trace: Path, durability: Durability) -> list[str]:
    watched = await create_subprocess_exec(
        *(str(STRACE), "-f", "-s", "8192", "-o", str(trace)),
        *("-e", "trace=pwrite64,fsync,fdatasync,sendmsg"),
        *(sys.executable, "-m", "dex_agents_dex.devengine", "--port", "0"),
        *("--data-dir", str(data_dir), "--durability", durability),
        stdout=subprocess.PIPE,
    )
    assert watched.stdout is not None
    if not (line := await watched.stdout.readline()):
        await watched.wait()
        pytest.skip("strace may trace nothing here")
    ready = json.loads(line)
    try:
        async with grpc.aio.insecure_channel(ready["address"]) as channel:
            service: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
            return [
                (await service.StartFlow(_request(f"f{number}"))).run_id for number in range(FLOWS)
            ]
    finally:
        os.kill(ready["pid"], signal.SIGTERM)
        await watched.wait()


def _request(flow_id: str) -> pb.StartFlowRequest:
    return pb.StartFlowRequest(
        flow_id=flow_id, flow_type="T", request_id="r", start_step_type="Only"
    )


def _order(lines: list[str], run_id: str) -> str:
    """What happened between the first write of a run id and its answer."""
    seen = [name for line in lines if (name := _name(line, run_id)) is not None]
    begun = seen[seen.index("written") :]
    told = begun[: begun.index("answered") + 1]
    return ", ".join(dict.fromkeys(told))


def _name(line: str, run_id: str) -> str | None:
    if SYNCED.search(line):
        return "synced"
    if run_id not in line:
        return None
    return "written" if "pwrite64(" in line else "answered"
