"""`http`: one HTTP request and its response."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from noetl.clock import Clock, SystemClock
from noetl.output import JSON, Output
from noetl.slices import computing_thread
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    from noetl.tools.http.client import HttpClient

FILE_BYTES_MAX = 4 * 1024 * 1024 * 1024  # with `response: file`, which is streamed


class HttpInput(Struct, kw_only=True):
    """One HTTP request."""

    url: Annotated[str, Meta(description="URL of the request", examples=['"{{ workload.api_url }}/items"'])]
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"], Meta(description="HTTP method")
    ] = "GET"
    params: Annotated[dict[str, JSON] | None, Meta(description="query parameters; null values are omitted")] = None
    headers: Annotated[dict[str, JSON] | None, Meta(description="request headers")] = None
    json: Annotated[JSON, Meta(description="request body, sent as JSON")] = None
    form: Annotated[dict[str, JSON] | None, Meta(description="request body, sent as an HTML form")] = None
    body: Annotated[str | None, Meta(description="request body, sent as plain text")] = None
    multipart: Annotated[
        list[JSON] | None,
        Meta(
            description="parts of a multipart request body; each is a mapping with `name`, with `value` or "
            "`ref`, and optionally with `filename` and `content_type`"
        ),
    ] = None
    response: Annotated[
        Literal["auto", "json", "text", "bytes", "file"],
        Meta(
            description="how to read the response body; `auto` parses JSON and keeps other text; `file` "
            "streams the body to the result store, where secrets in it are not masked"
        ),
    ] = "auto"


class ExpiredWhen(Struct, kw_only=True):
    """A response with a 2xx status whose body reports that the credential has expired."""

    path: Annotated[str, Meta(description="JSONPath of a value in the response body", examples=["$.error.code"])]
    equals: Annotated[
        list[JSON],
        Meta(description="values that mean that the credential has expired", examples=["[401, token_expired]"]),
    ]


class HttpAuth(Struct, kw_only=True):
    """Renewal of the credential. After a 401 it is renewed once, and the request is sent again."""

    expired_when: Annotated[
        ExpiredWhen | None, Meta(description="a response with a 2xx status that is treated like a 401")
    ] = None


class HttpSpec(Struct, kw_only=True):
    """Options of the HTTP client."""

    auth: Annotated[
        HttpAuth | None,
        Meta(description="when to renew the credential of `auth`, in addition to a response with status 401"),
    ] = None
    memory_mb: Annotated[
        int, Meta(ge=1, le=1024, description="memory for the values of a JSON response; a larger one is an error")
    ] = 256
    redirects: Annotated[int, Meta(ge=0, description="maximum number of redirects to follow")] = 10
    verify: Annotated[bool, Meta(description="verify the TLS certificate of the server")] = True
    max_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="maximum size of the response body in bytes; a larger one is an error of kind "
            "`payload-too-large`; without `response: file` the maximum is 64 MiB",
        ),
    ] = FILE_BYTES_MAX


class HttpPart(Struct, kw_only=True):
    """The response. Without one, for example after a refused connection, `status` is null."""

    status: Annotated[int | None, Meta(description="HTTP status of the response")] = None
    headers: Annotated[dict[str, JSON], Meta(description="headers of the response; names are in lower case")] = {}
    request_id: Annotated[str | None, Meta(description="header `X-Request-Id` of the response")] = None
    elapsed_ms: Annotated[float | None, Meta(description="duration of the request in milliseconds")] = None
    url: Annotated[
        str | None,
        Meta(description="URL of the response, after redirects, without user, password, query and fragment"),
    ] = None


class HttpTool(Tool):
    """Sends one HTTP request. `output.data` is the response body, parsed if it is JSON.

    A status other than 2xx is an error; `output.data` is then the body, too (D82).
    """

    kind = "http"
    failures = ("http",)
    connects = True
    unjudged = "nothing"
    Input = HttpInput
    Spec = HttpSpec
    defaults = {"timeout": {"connect": 10, "total": 60}, "redirects": 10, "verify": True}
    output = "http"
    OutputPart = HttpPart
    example = """\
kind: http
url: "{{ workload.api_url }}/items"
params: {page: 1}
"""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = (), clock: Clock | None = None) -> None:
        """The fields of AddressPolicy (D88), and a clock for tests."""
        self._allow_private = allow_private
        self._allow = tuple(allow)
        self._clock = clock or SystemClock()
        self._client: HttpClient | None = None

    async def run(self, input: HttpInput, call: Call) -> Output:
        client = self._client or await self._open_client()
        return await client.run(input, call)

    async def _open_client(self) -> HttpClient:
        """Import aiohttp, which takes 0.1 s, in a thread: other executions continue meanwhile."""
        with computing_thread():
            client_class = await asyncio.to_thread(_import_client)
        if self._client is None:  # another call may have been faster
            self._client = client_class(self._clock, allow_private=self._allow_private, allow=self._allow)
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()


def _import_client() -> type[HttpClient]:
    from noetl.tools.http.client import HttpClient

    return HttpClient
