"""`respond`: gives the HTTP answer of a playbook that was called by POST /run/<path>."""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta, Struct, to_builtins
from msgspec.json import encode

from noetl.errors import NoetlError
from noetl.output import JSON, NotJSON, Output, clean, failed
from noetl.tool import Call, Tool
from noetl.tools.errors import InvalidInput, store_failure

HEADERS_MAX: Final = 64
HEADERS_BYTES_MAX: Final = 8 << 10  # names and values together
BODY_BYTES_MAX: Final = 64 << 20  # of `body`; a stored result is streamed and may be larger
TEXT_INLINE_MAX: Final = 32 << 10  # a longer text goes to the result store as text, so that it can be streamed
_BODILESS: Final = (204, 205, 304)
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,60}/[A-Za-z0-9!#$&^_.+-]{1,60}([ \t]*;[\t\x20-\x7e]*)?")
# Headers of the connection or of the server, and headers that act on the whole origin, where the web UI runs.
_REFUSED: Final = frozenset({
    "alt-svc", "clear-site-data", "connection", "content-encoding", "content-length", "content-security-policy",
    "content-security-policy-report-only", "cross-origin-resource-policy", "date", "keep-alive", "nel",
    "reporting-endpoints", "report-to", "server", "service-worker-allowed", "set-cookie", "set-cookie2",
    "strict-transport-security", "te", "trailer", "transfer-encoding", "upgrade", "x-content-type-options",
    "x-frame-options",
})  # fmt: skip
_REFUSED_PREFIXES: Final = ("access-control-", "noetl-", "proxy-", "sec-")


class RespondInput(Struct, kw_only=True):
    """The answer. Without `body` and `ref` it has no body."""

    status: Annotated[
        Annotated[int, Meta(ge=200, le=599)], Meta(description="status code of the answer, from 200 to 599")
    ] = 200
    headers: Annotated[
        dict[str, str],
        Meta(
            description="headers of the answer. `Content-Type` replaces the type that follows from the body. "
            "`Set-Cookie`, headers of the connection and headers that belong to the server are refused",
            examples=["{X-Total: '3'}"],
        ),
    ] = {}
    body: Annotated[
        JSON, Meta(description="body of the answer: text is sent as `text/plain`, any other value as JSON")
    ] = None
    ref: Annotated[
        JSON,
        Meta(
            description="Ref of a stored result of this execution, instead of `body`: it is sent in chunks, with its "
            "own content type",
            examples=['"{{ output.ref }}"'],
        ),
    ] = None
    more: Annotated[
        bool,
        Meta(
            description="keep the answer open: the next `respond` of the execution adds its body to it. The first "
            "`respond` without `more` ends the answer, and so does the end of the execution"
        ),
    ] = False


class RespondPart(Struct, kw_only=True):
    """The answer, without its body, which is `output.data` or `output.ref`."""

    status: Annotated[int, Meta(description="status code of the answer")] = 200
    headers: Annotated[dict[str, str], Meta(description="headers of the answer, names in lower case")] = {}
    body: Annotated[str, Meta(description="`none`, `text`, `json`, or `stored` for a stored result")] = "none"
    more: Annotated[bool, Meta(description="the next `respond` adds to the answer")] = False


class RespondTool(Tool):
    """Gives the HTTP answer of the playbook, if it was called by `POST /run/<path>`.

    The answer is sent as soon as the log contains the call; the execution continues. The first `respond` of an
    execution is the answer, and later ones have no effect on it. If none is reached, the answer is the output
    of the playbook. In an execution that was started in another way, for example as a child, nothing is sent:
    `output.respond` and `output.data` say what the answer would have been.

    With `more: true` the answer is a stream: status and headers are those of the first `respond`, and each `respond`
    sends its body in the order of the log. Text and stored results are sent unchanged. A JSON value is a line
    (`application/x-ndjson`), or a message if the `Content-Type` is `text/event-stream`. The answer is complete when
    a `respond` without `more` ends it, or the execution ends `ok`. Otherwise the connection is closed in the middle
    of the answer, so that the client notices: the execution failed or was cancelled, or sent nothing for 300 s.
    """

    kind = "respond"
    ignores = ("auth", "timeout", "retry")
    Input = RespondInput
    output = "respond"
    OutputPart = RespondPart
    failures = ()
    example = """\
kind: respond
status: 201
headers: {X-Total: "3"}
body: {accepted: true}
"""

    async def run(self, input: RespondInput, call: Call) -> Output:
        try:
            headers = _checked_headers(input.headers)
            kind = _body_kind(input)
            if kind == "stored":
                await _check_stored(input.ref, call)
            body = clean(input.body)
            size = 0 if body is None else len(body.encode() if isinstance(body, str) else encode(body))
            if size > BODY_BYTES_MAX:
                message = f"`body` has {size:,} bytes (limit {BODY_BYTES_MAX:,}): store it, and give its Ref as `ref`"
                return failed("payload-too-large", message)
            ref = input.ref
            if kind == "text" and size > TEXT_INLINE_MAX:
                ref = await call.results.put(call.execution_id, body.encode(), "text/plain; charset=utf-8")
        except InvalidInput as error:
            return error.output()
        except NotJSON as error:
            return failed("input", f"`body`: {error}")
        except NoetlError as error:
            return store_failure(error)
        part = RespondPart(status=input.status, headers=headers, body=kind, more=input.more)
        return Output(data=body, ref=ref, own={"respond": to_builtins(part)})


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """The headers with names in lower case. Raises InvalidInput, without any value: it may be a secret."""
    if len(headers) > HEADERS_MAX:
        raise InvalidInput(f"`headers` has {len(headers)} entries (limit {HEADERS_MAX})")
    checked: dict[str, str] = {}
    for name, value in headers.items():
        known = name.lower()
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name[:64]!r} is no name of a header: use letters, digits and -")
        if known in _REFUSED or known.startswith(_REFUSED_PREFIXES):
            raise InvalidInput(f'a playbook cannot set the header "{name}": the server or the connection owns it')
        if known in checked:
            raise InvalidInput(f'`headers` has two entries for "{name}"')
        if not _VALUE.fullmatch(value):
            raise InvalidInput(f'the value of the header "{name}" may contain printable ASCII characters only')
        if known == "content-type" and not _MEDIA_TYPE.fullmatch(value):
            raise InvalidInput("Content-Type must be a media type, such as text/csv or image/png")
        checked[known] = value.strip()
    size = sum(len(name) + len(value) for name, value in checked.items())
    if size > HEADERS_BYTES_MAX:
        raise InvalidInput(f"`headers` has {size:,} bytes (limit {HEADERS_BYTES_MAX:,})")
    return checked


def _body_kind(input: RespondInput) -> str:
    if input.ref is not None and input.body is not None:
        raise InvalidInput("give `body` or `ref`, not both")
    kind = "stored" if input.ref is not None else "text" if isinstance(input.body, str) else "json"
    kind = "none" if input.ref is None and input.body is None else kind
    if (kind != "none" or input.more) and input.status in _BODILESS:
        raise InvalidInput(f"an answer with status {input.status} has no body: leave out `body`, `ref` and `more`")
    return kind


async def _check_stored(ref: JSON, call: Call) -> None:
    """Read the beginning: the store refuses results of other executions. Raises InvalidInput, NoetlError."""
    from noetl.tools.payload import is_ref

    if not is_ref(ref) or "sha256" not in ref.get("meta", {}):
        fix = "give `output.ref` of an earlier task; fetch the results of a loop with a task of kind resolve"
        raise InvalidInput(f"`ref` must be the Ref of a stored result: {fix}")
    async for _ in call.results.read(ref):
        return
