"""`mcp`: calls a tool of an MCP server, over HTTP or as a program of the worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from noetl.errors import NotFound
from noetl.output import JSON, Output, failed
from noetl.playbook.kinds import Sandbox
from noetl.secret import Secret
from noetl.tool import AddressPolicy, Auth, Call, Tool, ToolUser
from noetl.tools.errors import ToolError, not_installed

if TYPE_CHECKING:
    from noetl.tools.mcp.client import McpClient

MAX_BYTES = 16 * 1024 * 1024


class McpInput(Struct, kw_only=True):
    """One call of a tool."""

    tool: Annotated[str, Meta(description="name of the tool", examples=["search"])]
    arguments: Annotated[
        dict[str, JSON], Meta(description="arguments of the tool", examples=['{query: "{{ workload.words }}"}'])
    ] = {}
    url: Annotated[
        str | None,
        Meta(description="address of the server (streamable HTTP)", examples=["https://tools.example.com/mcp"]),
    ] = None
    headers: Annotated[dict[str, JSON] | None, Meta(description="headers of the requests, with `url`")] = None
    command: Annotated[
        list[str] | None,
        Meta(
            description="program and arguments of the server, which speaks over standard input and output; it is "
            "started for this call, and killed after it",
            examples=["[python, server.py]"],
        ),
    ] = None
    env: Annotated[
        dict[str, JSON] | None,
        Meta(
            description="environment variables, with `command`; from the worker only PATH, HOME and LANG are inherited"
        ),
    ] = None
    schema: Annotated[
        dict[str, JSON] | None,
        Meta(
            description="saved JSON Schema of the arguments: `noetl check` compares `arguments` with it; "
            "`noetl tools --mcp` prints it"
        ),
    ] = None


class McpSpec(Struct, kw_only=True):
    """Limits of the call."""

    max_bytes: Annotated[
        int,
        Meta(ge=1_000, le=256 * 1024 * 1024, description="maximum size of everything that the server sends, in bytes"),
    ] = MAX_BYTES
    memory_mb: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="memory for the values of everything that the server sends, estimated from its JSON; more is "
            "an error of kind `payload-too-large`",
        ),
    ] = 256
    sandbox: Annotated[
        Sandbox | None,
        Meta(
            description="restrict files and network of the program, with `command`; the task fails if the worker "
            "cannot do it",
            examples=["{network: false, writable: [out]}"],
        ),
    ] = None


class McpPart(Struct, kw_only=True):
    """The answer of the server."""

    server: Annotated[str | None, Meta(description="name and version that the server reports")] = None
    protocol: Annotated[str | None, Meta(description="version of the protocol that was negotiated")] = None
    is_error: Annotated[
        bool | None, Meta(description="whether the tool reported a failure; null without an answer")
    ] = None
    content: Annotated[
        list[JSON],
        Meta(
            description="content of the answer: a list of `{type: text, text: …}` and other types; empty if it is "
            "larger than 64 KiB"
        ),
    ] = []
    status: Annotated[int | None, Meta(description="HTTP status of the last response, with `url`")] = None


class McpTool(Tool):
    """Calls a tool of a server that speaks the Model Context Protocol.

    `output.data` is the structured content of the answer; without it, the text if there is one text, else the list
    of all contents. An answer that the tool marks as an error is an error of kind `mcp`. With `url`, `auth` names a
    credential for the Authorization header, and the address must be one that `http` tasks may use. With `command`, pass
    secrets in `env`.
    """

    kind = "mcp"
    failures = ("mcp", "http", "limit", "sandbox")
    connects = True
    runs_programs = True
    Input = McpInput
    Spec = McpSpec
    one_of = (("url", "command"),)
    defaults = {"timeout": {"connect": 10, "total": 60}}
    output = "mcp"
    OutputPart = McpPart
    example = """\
kind: mcp
url: "{{ workload.tools_url }}"
tool: search
arguments: {query: orders}
"""

    def __init__(
        self, *, allow_private: bool = True, allow: Sequence[str] = (), user: ToolUser | None = None, nice: int = 0
    ) -> None:
        self._policy = AddressPolicy(allow_private, tuple(allow))
        self._user, self._nice = user, nice
        self._client: McpClient | None = None

    async def run(self, input: McpInput, call: Call) -> Output:
        try:
            return await self._connections().call(input, msgspec.convert(_own(call.spec), McpSpec), call)
        except ImportError:
            return not_installed("the package mcp", "mcp")
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except ToolError as error:
            return error.output()

    async def describe(self, server: str | list[str], token: Secret | None) -> list[dict[str, JSON]]:
        """Name, description and schema of each tool of a server: a URL or a command. Raises Rejected, ImportError."""

        async def renew() -> Auth:
            raise NotFound("there is no other token")

        auth = None if token is None else Auth("token", "bearer", {"": token}, renew)
        named = McpInput(tool="", url=server) if isinstance(server, str) else McpInput(tool="", command=server)
        return await self._connections().describe(named, McpSpec(), auth)

    def _connections(self) -> McpClient:
        """Raises ImportError."""
        if self._client is None:
            from noetl.tools.mcp.client import McpClient  # imports the SDK, which is slow

            self._client = McpClient(self._policy, self._user, self._nice)
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()


def _own(spec: dict[str, JSON]) -> dict[str, JSON]:
    return {name: spec[name] for name in McpSpec.__struct_fields__ if name in spec}
