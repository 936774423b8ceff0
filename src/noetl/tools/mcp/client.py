"""A call of an MCP tool: connect, call, close; and what its answer and its failures become."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import aiohttp
import anyio
import httpx2
import mcp_types as types
import msgspec
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from yarl import URL

from noetl.errors import NoetlError, Rejected
from noetl.output import JSON, Failure, Output, clean, failed
from noetl.tool import AddressPolicy, Auth, Call, ToolUser, discard
from noetl.tools.errors import InvalidInput, ToolError
from noetl.tools.http.auth import UNAUTHORIZED, with_authorization
from noetl.tools.http.client import DNS_CACHE_S, Timeouts
from noetl.tools.http.request import HttpRequest
from noetl.tools.mcp.transports import CheckedStreams, CheckedTransport, ReceiveLimit, ServerProcess, running
from noetl.tools.process_guard.guard import TOO_MANY_PROCESSES, ExitStatus, GuardPool
from noetl.tools.process_guard.lines import LineForwarder, forwarding
from noetl.tools.sandbox import restrictions
from noetl.tools.shell.process import CapturedStream, build_command
from noetl.tools.shell.tool import LAST_LINE_CHARS_MAX, ShellInput

if TYPE_CHECKING:
    from noetl.tools.mcp.tool import McpInput, McpSpec

STDERR_BYTES_MAX: Final = 1 << 20
MESSAGE_CHARS_MAX: Final = 2_000  # of a failure
CONTENT_BYTES_MAX: Final = 64 * 1024  # of `output.mcp.content`, which is always in the log
TOOLS_MAX: Final = 1_000
KEY: Final = "noetl/idempotency-key"  # in the metadata of a call, for servers that know it
_FAULTS: Final = (
    MCPError, RuntimeError, ValueError, OSError, httpx2.HTTPError, anyio.ClosedResourceError, anyio.BrokenResourceError,
    BaseExceptionGroup,
)  # fmt: skip


class ConnectionOptions(NamedTuple):
    """The parts of a call that a connection needs."""

    timeout: JSON = None  # spec.timeout
    folder: str | None = None
    say: Callable[[str], None] = discard
    write: Callable[[Literal["out", "err"], bytes], None] = discard

    @classmethod
    def of(cls, call: Call) -> ConnectionOptions:
        return cls(call.spec.get("timeout"), call.folder, call.say, call.write)


class McpClient:
    """Connects for each call: servers may keep state, and executions must not share it."""

    def __init__(self, policy: AddressPolicy, user: ToolUser | None, nice: int) -> None:
        """`user`: runs the programs of servers; None: that of this process. `nice`: their priority is so much lower."""
        self._policy = policy
        self._session: aiohttp.ClientSession | None = None
        self._guards = GuardPool(user, nice)

    async def close(self) -> None:
        await self._guards.close()
        if self._session is not None:
            await self._session.close()

    async def call(self, input: McpInput, spec: McpSpec, call: Call) -> Output:
        """Raises ToolError."""
        output, status = await self._call(input, spec, call, call.auth)
        if status != UNAUTHORIZED or call.auth is None:
            return output
        try:
            renewed = await call.auth.renew()
        except NoetlError as error:
            return failed("credential", str(error))
        if renewed.values == call.auth.values:
            return output
        return (await self._call(input, spec, call, renewed))[0]

    async def _call(self, input: McpInput, spec: McpSpec, call: Call, auth: Auth | None) -> tuple[Output, int | None]:
        state = _CallState()
        try:
            async with self._connected(input, spec, ConnectionOptions.of(call), auth, state) as client:
                state.part |= _about(client)
                result = await client.call_tool(input.tool, input.arguments, meta={KEY: call.key})  # type: ignore[arg-type]  # metadata of our own
                output = _output(result, input.tool, state.part)
        except _FAULTS as error:
            output = state.failure_of(error)
        if state.http is not None:
            state.part["status"] = state.http.status
        return output, state.http.status if state.http is not None else None

    async def describe(self, input: McpInput, spec: McpSpec, auth: Auth | None) -> list[dict[str, JSON]]:
        """Name, description and schema of each tool. Raises Rejected."""
        state = _CallState()
        try:
            async with self._connected(input, spec, ConnectionOptions(), auth, state) as client:
                found: list[types.Tool] = []
                cursor: str | None = None
                while len(found) < TOOLS_MAX:
                    page = await client.list_tools(cursor=cursor)
                    found += page.tools
                    cursor = page.next_cursor
                    if not cursor:
                        break
        except (ToolError, *_FAULTS) as error:
            failure = state.failure_of(error).error
            raise Rejected("mcp", failure.message if failure is not None else "no answer") from error
        return [
            {"name": each.name, "description": each.description or "", "schema": each.input_schema} for each in found
        ]

    @asynccontextmanager
    async def _connected(
        self, input: McpInput, spec: McpSpec, call: ConnectionOptions, auth: Auth | None, state: _CallState
    ) -> AsyncIterator[Client]:
        received = state.received = ReceiveLimit(spec.max_bytes, spec.memory_mb)
        if input.url is not None:
            async with self._http(input, call, auth, received, state) as client:
                yield client
            return
        if auth is not None:
            hint = 'pass the secret in `env`: {TOKEN: "{{ keychain.name }}"}'
            raise InvalidInput(f"`auth` is for `url`: a program gets no Authorization header; {hint}")
        command = build_command(
            ShellInput(argv=input.command, env=input.env), call.folder, None, restrictions(spec.sandbox, call.folder)
        )
        with (
            LineForwarder(call.say) as lines,
            CapturedStream("standard error", STDERR_BYTES_MAX, forwarding(lines, call.write, "err")) as stderr,
        ):
            async with running(command, self._guards, stderr, received, spec.max_bytes) as (process, streams):
                state.process, state.stderr = process, stderr
                async with Client(CheckedStreams(_Streams(streams), received)) as client:
                    yield client

    @asynccontextmanager
    async def _http(
        self, input: McpInput, call: ConnectionOptions, auth: Auth | None, received: ReceiveLimit, state: _CallState
    ) -> AsyncIterator[Client]:
        assert input.url is not None
        headers = {name: str(value) for name, value in (input.headers or {}).items() if value is not None}
        url = _url(input.url)
        if auth is not None:
            headers = with_authorization(HttpRequest("POST", url, headers, None), auth).headers
        if self._session is None:
            connector = aiohttp.TCPConnector(ttl_dns_cache=DNS_CACHE_S, socket_factory=self._policy.socket)
            jar, headers_of_all = aiohttp.DummyCookieJar(), {"User-Agent": "noetl"}
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=jar, headers=headers_of_all, trust_env=False
            )
        state.http = CheckedTransport(self._session, Timeouts.of(call.timeout), received)
        async with (
            httpx2.AsyncClient(transport=state.http, headers=headers, timeout=None, trust_env=False) as http,
            Client(CheckedStreams(streamable_http_client(str(url), http_client=http), received)) as client,
        ):
            yield client


def _url(text: str) -> URL:
    try:
        url = URL(text)
    except ValueError:
        raise InvalidInput("`url` is not a valid URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidInput("`url` is not an HTTP address: write it as https://host/path")
    if url.user is not None or url.password is not None:
        raise InvalidInput("`url` contains a user or a password: name a keychain entry under `auth`")
    return url


class _Streams:
    """Streams that are open already, in the form that the SDK opens."""

    def __init__(self, streams: Any) -> None:
        self._streams = streams

    async def __aenter__(self) -> Any:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        return None


class _CallState:
    """What is known about a call when it fails."""

    def __init__(self) -> None:
        self.part: dict[str, JSON] = {}
        self.received: ReceiveLimit | None = None
        self.http: CheckedTransport | None = None
        self.process: ServerProcess | None = None
        self.stderr: CapturedStream | None = None

    def failure_of(self, error: BaseException) -> Output:
        leaves = list(_leaves(error))
        for leaf in leaves:
            if isinstance(leaf, ToolError):
                return self._with_part(leaf.output())
        if self.received is not None and self.received.failure is not None:
            return self._with_part(self.received.failure.output())
        if self.http is not None and self.http.failure is not None:
            return self._with_part(self.http.failure)
        if self.process is not None:
            if self.process.failure is not None:
                return self._with_part(self.process.failure.output())
            if self.process.status is not None:
                return self._with_part(self._ended_program(self.process, self.process.status))
        status = self.http.status if self.http is not None else None
        if status is not None and not 200 <= status < 300:
            retryable = status in (408, 425, 429) or status >= 500
            return self._with_part(
                failed("mcp", f"the server answered with the HTTP status {status}", retryable=retryable)
            )
        found = next((leaf for leaf in leaves if isinstance(leaf, MCPError)), leaves[0] if leaves else error)
        reason = f"{found}"[:MESSAGE_CHARS_MAX] or type(found).__name__
        if isinstance(found, MCPError):
            message, details = f"the server refused the request: {reason}", {"code": found.code}
        else:
            message, details = f"the server does not follow the protocol: {reason}", {}
        return self._with_part(Output(status="error", error=Failure(kind="mcp", message=message, details=details)))

    def _ended_program(self, process: ServerProcess, status: ExitStatus) -> Output:
        if process.over_limit:
            return failed("limit", TOO_MANY_PROCESSES)
        last = self.stderr.last_line() if self.stderr is not None else ""
        how = f"exit code {status.exit_code}" if status.signal is None else f"killed by {status.signal}"
        words = f": {last[:LAST_LINE_CHARS_MAX]}" if last else ""
        return failed("mcp", f"the program of the server ended ({how}) before it answered{words}")

    def _with_part(self, output: Output) -> Output:
        return Output(status=output.status, data=output.data, error=output.error, own={"mcp": self.part})


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _about(client: Client) -> dict[str, JSON]:
    info = client.server_info
    name = None if info is None else f"{info.name} {info.version}".strip()[:200]
    return {"server": name, "protocol": client.protocol_version}


def _output(result: types.CallToolResult, tool: str, part: dict[str, JSON]) -> Output:
    content = clean([each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in result.content])
    is_small = len(msgspec.json.encode(content)) <= CONTENT_BYTES_MAX
    part |= {"is_error": result.is_error, "content": content if is_small else []}
    texts = [each.text for each in result.content if isinstance(each, types.TextContent)]
    if result.is_error:
        message = " ".join(" ".join(texts).split())[:MESSAGE_CHARS_MAX] or "without a message"
        failure = Failure(kind="mcp", message=f'the tool "{tool}" failed: {message}')
        return Output(status="error", data=clean(result.structured_content), error=failure, own={"mcp": part})
    if result.structured_content is not None:
        data = clean(result.structured_content)
    elif len(texts) == len(content) == 1:
        data = clean(texts[0])
    else:
        data = content
    return Output(data=data, own={"mcp": part})
