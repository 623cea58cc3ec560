"""An MCP server on standard input and output, by hand, so that a test decides what a call ends with.

Its tools are `look`, `put`, `stuck` (never answers), `die` (ends the process) and `refuse`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

ARGUMENTS = {"type": "object", "properties": {"x": {"type": "integer"}}}
TOOLS = [
    {"name": "look", "inputSchema": ARGUMENTS, "annotations": {"readOnlyHint": True}},
    {"name": "put", "inputSchema": ARGUMENTS, "annotations": {"idempotentHint": True}},
    {"name": "stuck", "inputSchema": ARGUMENTS},
    {"name": "die", "inputSchema": ARGUMENTS},
    {"name": "refuse", "inputSchema": ARGUMENTS},
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None leaves it without an answer."""
    match method, params.get("name"):
        case "initialize", _:
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "by hand", "version": "1"},
            }
        case "tools/list", _:
            return {"tools": TOOLS}
        case "tools/call", "stuck":
            return None
        case "tools/call", "die":
            os._exit(1)
        case "tools/call", "refuse":
            return {"content": [{"type": "text", "text": "not today"}], "isError": True}
        case "tools/call", name:
            return {"content": [{"type": "text", "text": f"{name}: {params.get('arguments')}"}]}
        case "ping", _:
            return {}
        case _:
            raise LookupError(method)


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            result = answer(request["method"], request.get("params") or {})
        except LookupError as unknown:
            reply["error"] = {"code": -32601, "message": f"unknown method {unknown}"}
        else:
            if result is None:
                continue
            reply["result"] = result
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
