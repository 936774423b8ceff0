"""`nats`: publishes messages, sends requests, and reads and writes key-value buckets of NATS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from noetl.errors import NoetlError
from noetl.output import JSON, Output, failed
from noetl.tool import Call, Tool
from noetl.tools.errors import ToolError, not_installed, store_failure

if TYPE_CHECKING:
    from noetl.tools.nats.connection import NatsConnections


class NatsInput(Struct, kw_only=True):
    """An operation, and the message or the key that it concerns."""

    publish: Annotated[str | None, Meta(description="subject to which the message is published")] = None
    request: Annotated[
        str | None, Meta(description="subject to which the message is sent; the first reply is the output")
    ] = None
    kv: Annotated[
        Literal["get", "put", "delete", "keys"] | None,
        Meta(description="operation on the key-value bucket `bucket`, which must exist"),
    ] = None
    json: Annotated[
        JSON | msgspec.UnsetType, Meta(description="content of the message or the key: a value, written as JSON")
    ] = msgspec.UNSET
    text: Annotated[str | None, Meta(description="content of the message or the key: text")] = None
    headers: Annotated[
        dict[str, str] | None, Meta(description="headers of the message, for `publish` and `request`")
    ] = None
    ack: Annotated[
        bool,
        Meta(
            description="for `publish`: wait until a JetStream stream has stored the message; a repeated call "
            "does not store it a second time"
        ),
    ] = False
    bucket: Annotated[str | None, Meta(description="for `kv`: name of the bucket")] = None
    key: Annotated[str | None, Meta(description="for `kv`: the key; for `keys`: a pattern, for example `order.*`")] = (
        None
    )
    revision: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="for `kv: put` and `delete`: the last revision of the key; another one is an error. "
            "0: the key must not exist"
        ),
    ] = None
    as_: Annotated[
        Literal["auto", "json", "text"],
        Meta(description="how to read a reply or a value; `auto` parses JSON and keeps other text"),
    ] = msgspec.field(name="as", default="auto")


class NatsPart(Struct, kw_only=True):
    """The tool's own part of the output."""

    code: Annotated[
        str | None,
        Meta(
            description="reason of a failure: `not-found`, `no-responders`, `exists`, `changed`, `denied`, `refused`, "
            "`service`, `content` or `unavailable`"
        ),
    ] = None
    subject: Annotated[str | None, Meta(description="subject of the message")] = None
    headers: Annotated[dict[str, JSON], Meta(description="headers of the reply")] = {}
    stream: Annotated[str | None, Meta(description="stream that stored the message, with `ack`")] = None
    sequence: Annotated[int | None, Meta(description="number of the message in the stream, with `ack`")] = None
    duplicate: Annotated[bool, Meta(description="an earlier attempt had already stored the message")] = False
    revision: Annotated[int | None, Meta(description="revision of the key, for `kv`")] = None


class NatsTool(Tool):
    """Publishes a message, sends a request, or reads and writes a key of a key-value bucket.

    `auth` names a keychain entry of kind `nats_credential`. `output.data` is the reply of a `request`, the value
    of `kv: get`, or the list of `kv: keys`; a value that is neither JSON nor text is `{base64: …}`. A key that
    does not exist and a request without a receiver are errors. `publish` without `ack` does not say whether
    anyone received the message.
    """

    kind = "nats"
    failures = ("nats",)
    ignores = ("timeout.read",)
    connects = True
    Input = NatsInput
    one_of = (("publish", "request", "kv"),)
    defaults = {"timeout": 60}
    output = "nats"
    OutputPart = NatsPart
    example = """\
kind: nats
auth: broker
publish: orders.created
json: {order: 7, city: "{{ workload.city }}"}
"""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = ()) -> None:
        """The fields of AddressPolicy (D88)."""
        self._policy = (allow_private, tuple(allow))
        self._connections: NatsConnections | None = None

    async def run(self, input: NatsInput, call: Call) -> Output:
        try:
            from noetl.tools.nats.connection import LoginRefused, NatsConnections
        except ImportError:
            return not_installed("the NATS client", "nats")
        from noetl.tools.nats.operations import run_operation

        if call.auth is None:
            return failed("input", "`auth` is required: the name of a keychain entry of kind nats_credential")
        if self._connections is None:
            allow_private, allow = self._policy
            self._connections = NatsConnections(allow_private=allow_private, allow=allow)
        try:
            try:
                return await run_operation(self._connections, call.auth, input, call)
            except LoginRefused:
                return await run_operation(self._connections, await call.auth.renew(), input, call)
        except ToolError as error:
            return error.output()
        except NoetlError as error:
            return store_failure(error)

    async def close(self) -> None:
        if self._connections is not None:
            connections, self._connections = self._connections, None
            await connections.close()
