"""A library as an MCP server on standard input and output. `research.py` starts it; it needs the package `mcp`."""

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

PAGES = {
    "tides": "The moon raises the sea twice a day.",
    "whales": "Some whales cross an ocean to feed where the tide brings krill.",
}

server = MCPServer("library")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_page(topic: str) -> str:
    """Return the library's page on a topic."""
    return PAGES.get(topic, f"There is no page on {topic}.")


if __name__ == "__main__":
    server.run()
