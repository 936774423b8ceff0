"""A server with the official SDK, for tests of the `mcp` tool: `python mcp_server.py [stdio | http PORT] [behaviour]`."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("tests")


@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@server.tool(structured_output=False)
def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


@server.tool()
def search(query: str) -> dict[str, str]:
    """Find something."""
    return {"found": query}


@server.tool()
def refuse() -> str:
    """Fail."""
    raise ToolError("no more\nof that")


@server.tool()
def environment(name: str) -> str:
    """The value of an environment variable."""
    return os.environ.get(name, "unset")


@server.tool()
def large(size: int) -> str:
    """A large answer."""
    return "x" * size


@server.tool()
async def slow() -> str:
    """An answer that never comes."""
    await anyio.sleep_forever()
    return ""


@server.tool()
def write(path: str) -> str:
    """Write a file."""
    with open(path, "w") as stream:
        stream.write("written")
    return "written"


def main(arguments: list[str]) -> None:
    behaviour = arguments[1] if len(arguments) > 1 else ""
    if behaviour == "endless":
        while True:
            sys.stdout.write(
                '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "' + "x" * 10_000 + '"}}\n'
            )
    if behaviour == "long-line":
        while True:
            sys.stdout.write("x" * 100_000)
    if behaviour == "garbage":
        print("this is not a message", flush=True)
        print('{"jsonrpc": "2.0", "id": 1, "result": {"tools": 7}}', flush=True)
        print("[1, 2", flush=True)
        sys.exit(0)
    if behaviour == "many-values":
        sys.stdin.readline()
        print('{"jsonrpc": "2.0", "id": 1, "result": {"content": [' + "[]," * 100_000 + "0]}}", flush=True)
        sys.stdin.read()
    if behaviour == "wrong-types":
        answer_with_wrong_types()
    if behaviour == "exit":
        print("there is no configuration", file=sys.stderr)
        sys.exit(3)
    server.run("stdio")


def answer_with_wrong_types() -> None:
    """A server that answers each request with a result of the wrong type."""
    import json

    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        if "id" not in request:
            continue
        result: Any = {"content": 7, "structuredContent": [1], "isError": "maybe", "protocolVersion": 3}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
