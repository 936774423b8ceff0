"""`http`: one request and one response; every loop over an API begins here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from noetl.clock import Clock, SystemClock
from noetl.output import JSON, Output, failed
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    from noetl.tools.http_client import Client


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
        Meta(description="how the body is read; `auto` parses JSON, `file` streams it to the result store"),
    ] = "auto"


class HttpSpec(Struct, kw_only=True):
    """Knobs of the HTTP client."""

    redirects: Annotated[int, Meta(ge=0, description="how many redirects are followed")] = 10
    verify: Annotated[bool, Meta(description="check the server's certificate")] = True


class Http(Tool):
    """Sends one HTTP request. `output.data` is the body, parsed when it is JSON, on errors too (D82)."""

    kind = "http"
    decoded = True
    Input = HttpInput
    Spec = HttpSpec
    defaults = {"timeout": {"connect": 10, "total": 60}, "redirects": 10, "verify": True}
    output = "http"

    def __init__(
        self, *, allow_private: bool = True, allow: Sequence[str] = (), clock: Clock | None = None
    ) -> None:
        """Where it may connect to (D88): `allow` lists networks that are open besides those of the world."""
        self._allow_private = allow_private
        self._allow = tuple(allow)
        self._clock = clock or SystemClock()
        self._client: Client | None = None

    async def run(self, input: HttpInput, call: Call) -> Output:
        # The client brings aiohttp with it, which a playbook without `http` need not pay for.
        from noetl.tools.http_request import Unfit, build

        if self._client is None:
            from noetl.tools.http_client import Client

            self._client = Client(self._clock, allow_private=self._allow_private, allow=self._allow)
        try:
            request = await build(input, call)
        except Unfit as error:
            return failed("input", str(error))
        return await self._client.send(request, input.response, call)

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()
