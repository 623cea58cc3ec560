"""``python -m tests.field_cases.mcp_server STATE_DIR``: an MCP server that dies, hangs or does not start when told so.

What a call ends with stands in its arguments (`tests.binding.script.Call.way`). It notes every start
and every call before it acts.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from dex_agents_dex.testing import InvocationLog

DOWN: Final = "mcp-down"
"""While the state directory has this file, no server starts."""
DIES_AFTER_LISTING: Final = "mcp-dies-after-listing"
"""The server that finds this file removes it, lists its tools and ends."""

_ANY_OBJECT: Final = {"type": "object", "additionalProperties": True}
_TOOLS: Final = [
    {"name": "look", "inputSchema": _ANY_OBJECT, "annotations": {"readOnlyHint": True}},
    {"name": "put", "inputSchema": _ANY_OBJECT, "annotations": {"idempotentHint": True}},
    {"name": "pay", "inputSchema": _ANY_OBJECT},
]


def served_in(state_dir: Path) -> InvocationLog:
    """``start``, and each tool by its name, with the ID of the script's call as its key."""
    return InvocationLog(state_dir / "mcp-served")


def _answer(state_dir: Path, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None leaves it without an answer."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "field cases", "version": "1"},
            }
        case "tools/list":
            return {"tools": _TOOLS}
        case "tools/call":
            return _call(state_dir, params["name"], params["arguments"])
        case "ping":
            return {}
        case _:
            raise LookupError(method)


def _call(state_dir: Path, tool: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    log = served_in(state_dir)
    is_first = not log.read(name=tool, key=arguments["id"])
    log.record(tool, key=arguments["id"])
    match arguments["way"]:
        case "die" if is_first:
            os._exit(1)
        case "stuck" if is_first:
            return None
        case _:
            return {"content": [{"type": "text", "text": "done"}]}


def serve(state_dir: Path) -> None:
    if (state_dir / DOWN).exists():
        sys.exit(1)
    served_in(state_dir).record("start")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            result = _answer(state_dir, request["method"], request.get("params") or {})
        except LookupError as unknown:
            reply["error"] = {"code": -32601, "message": f"unknown method {unknown}"}
        else:
            if result is None:
                continue
            reply["result"] = result
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
        last_words = state_dir / DIES_AFTER_LISTING
        if request["method"] == "tools/list" and last_words.exists():
            last_words.unlink()
            os._exit(1)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
