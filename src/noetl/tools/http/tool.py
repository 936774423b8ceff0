"""`http`: one request and one response; every loop over an API begins here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from noetl.clock import Clock, SystemClock
from noetl.output import JSON, Output
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    from noetl.tools.http.client import Client


FILE_BYTES_MAX = 4 * 1024 * 1024 * 1024  # with `response: file`, which nobody holds in memory


class HttpInput(Struct, kw_only=True):
    """One HTTP request."""

    url: Annotated[str, Meta(description="where to", examples=['"{{ workload.api_url }}/items"'])]
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"], Meta(description="the verb")
    ] = "GET"
    params: Annotated[
        dict[str, JSON] | None, Meta(description="query parameters; null ones are left out")
    ] = None
    headers: Annotated[dict[str, JSON] | None, Meta(description="request headers")] = None
    json: Annotated[JSON, Meta(description="a body, sent as JSON")] = None
    form: Annotated[dict[str, JSON] | None, Meta(description="a body, sent as a form")] = None
    body: Annotated[str | None, Meta(description="a body, sent as it is")] = None
    multipart: Annotated[
        list[JSON] | None, Meta(description="parts {name, value or ref, filename?, content_type?}")
    ] = None
    response: Annotated[
        Literal["auto", "json", "text", "bytes", "file"],
        Meta(
            description="how the body is read; `auto` parses JSON, `file` streams it to the result store, "
            "where secrets in it are not masked"
        ),
    ] = "auto"


class Expired(Struct, kw_only=True):
    """How a body of a well-behaved status says that the credential has expired."""

    path: Annotated[str, Meta(description="where in the body it says so", examples=["$.error.code"])]
    equals: Annotated[list[JSON], Meta(description="what stands there then, as `[401, token_expired]`")]


class HttpAuth(Struct, kw_only=True):
    """More about `auth`. After a 401 the credential is renewed once, and the request sent once more."""

    expired_when: Annotated[
        Expired | None, Meta(description="an answer with a status of 2xx that counts as a 401")
    ] = None


class HttpSpec(Struct, kw_only=True):
    """Knobs of the HTTP client."""

    auth: Annotated[
        HttpAuth | None, Meta(description="when the credential of `auth` is renewed besides after a 401")
    ] = None
    redirects: Annotated[int, Meta(ge=0, description="how many redirects are followed")] = 10
    verify: Annotated[bool, Meta(description="check the server's certificate")] = True
    max_bytes: Annotated[
        int, Meta(ge=0, description="a larger body is an error of kind `payload-too-large`; also a file")
    ] = FILE_BYTES_MAX


class HttpTool(Tool):
    """Sends one HTTP request. `output.data` is the body, parsed when it is JSON, on errors too (D82)."""

    kind = "http"
    connects = True
    unjudged = "nothing"
    Input = HttpInput
    Spec = HttpSpec
    defaults = {"timeout": {"connect": 10, "total": 60}, "redirects": 10, "verify": True}
    output = "http"
    example = """\
kind: http
url: "{{ workload.api_url }}/items"
params: {page: 1}
"""

    def __init__(
        self, *, allow_private: bool = True, allow: Sequence[str] = (), clock: Clock | None = None
    ) -> None:
        """Where it may connect to (D88): `allow` lists networks that are open besides those of the world."""
        self._allow_private = allow_private
        self._allow = tuple(allow)
        self._clock = clock or SystemClock()
        self._client: Client | None = None

    async def run(self, input: HttpInput, call: Call) -> Output:
        if self._client is None:
            # It brings aiohttp with it, which a playbook without `http` need not pay for.
            from noetl.tools.http.client import Client

            self._client = Client(self._clock, allow_private=self._allow_private, allow=self._allow)
        return await self._client.ask(input, call)

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()
