"""The operations of the `nats` tool: messages, requests, and keys of JetStream's key-value buckets."""

from __future__ import annotations

import base64
import re
from typing import Final, TypeVar

import msgspec
from nats.aio.msg import Msg

from noetl.output import JSON, Output
from noetl.tool import Auth, Call
from noetl.tools.errors import InvalidInput, TooLarge
from noetl.tools.nats.connection import ExternalConnection, NatsConnections, NatsFailure, own_part
from noetl.tools.nats.tool import NatsInput
from noetl.tools.payload import InvalidJson, decode_json, text_or_base64

CONNECT_S: Final = 10.0
KEYS_MAX: Final = 10_000  # of `kv: keys`
_SUBJECT: Final = re.compile(r"[^\s.*>\x00-\x1f\x7f]+(\.[^\s.*>\x00-\x1f\x7f]+)*")
_HEADER: Final = re.compile(r"[!-9;-~]+")  # visible characters without a colon
_LINES: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BUCKET: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_KEY: Final = re.compile(r"[A-Za-z0-9/_=-]+(\.[A-Za-z0-9/_=-]+)*")
_PATTERN: Final = re.compile(r"([A-Za-z0-9/_=-]+|\*)(\.([A-Za-z0-9/_=-]+|\*))*(\.>)?|>")
_SUBJECT_BYTES_MAX: Final = 1_000
_WRONG_SEQUENCE: Final = (10071, 10164)
_NO_MESSAGE, _NO_STREAM = 10037, 10059
_USES: Final = {  # the fields that each operation can use
    "publish": ("json", "text", "headers", "ack"),
    "request": ("json", "text", "headers", "as_"),
    "get": ("bucket", "key", "as_"),
    "put": ("bucket", "key", "json", "text", "revision"),
    "delete": ("bucket", "key", "revision"),
    "keys": ("bucket", "key"),
}


async def run_operation(connections: NatsConnections, auth: Auth, input: NatsInput, call: Call) -> Output:
    """Raises ToolError."""
    operation = _checked_operation(input)
    timeout = call.spec.get("timeout")
    seconds = timeout.get("connect") if isinstance(timeout, dict) else None
    connect_s = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else CONNECT_S
    match operation:
        case "publish":
            subject, body, headers = _subject("publish", input.publish), _body(input), _headers(input)
            async with connections.connection(auth.values, connect_s) as connection:
                return await _publish(connection, subject, body, headers, call.key if input.ack else None)
        case "request":
            subject, body, headers = _subject("request", input.request), _body(input), _headers(input)
            async with connections.connection(auth.values, connect_s) as connection:
                return _reply(await connection.request(subject, body, headers), subject, input.as_)
    bucket = _bucket(input)
    body = _body(input) if operation == "put" else b""
    async with connections.connection(auth.values, connect_s) as connection:
        keys = KeyValues(connection, bucket)
        match operation:
            case "get":
                return await keys.get(_key(input), input.as_)
            case "put":
                return await keys.put(_key(input), body, input.revision)
            case "delete":
                return await keys.delete(_key(input), input.revision)
        return await keys.keys(_pattern(input))


def _checked_operation(input: NatsInput) -> str:
    """The operation. Raises InvalidInput if a field has no effect in it."""
    given = [name for name in ("publish", "request", "kv") if getattr(input, name) is not None]
    if len(given) != 1:
        raise InvalidInput("exactly one of `publish`, `request` and `kv` is required")
    operation = input.kv or given[0]
    written = msgspec.to_builtins(input)
    defaults = {
        "text": None,
        "headers": None,
        "ack": False,
        "bucket": None,
        "key": None,
        "revision": None,
        "as": "auto",
    }
    for name, value in written.items():
        used = (*_USES[operation], "publish", "request", "kv")
        if (name if name != "as" else "as_") not in used and value != defaults.get(name):
            raise InvalidInput(f"`{name}` has no effect in `{operation}`")
    return operation


def _subject(label: str, subject: str | None) -> str:
    if subject is None or len(subject) > _SUBJECT_BYTES_MAX or _SUBJECT.fullmatch(subject) is None:
        raise InvalidInput(f"`{label}` must be a subject, such as orders.created, without spaces, `*` and `>`")
    return _encodable(label, subject)


def _encodable(label: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"`{label}` is not valid Unicode") from None
    return text


def _headers(input: NatsInput) -> dict[str, str] | None:
    for name, value in (input.headers or {}).items():
        if _HEADER.fullmatch(name) is None or name.lower().startswith("nats-"):
            raise InvalidInput(f'"{name[:80]}" cannot be the name of a header; names with Nats- belong to NATS')
        if _LINES.search(_encodable(f"headers.{name}", value)) is not None:
            raise InvalidInput(f"the header {name} contains a control character")
    return input.headers or None


def _body(input: NatsInput) -> bytes:
    """The content; without `json` and `text` it is empty."""
    if input.text is not None:
        if input.json is not msgspec.UNSET:
            raise InvalidInput("`json` and `text` exclude each other")
        return _encodable("text", input.text).encode()
    if input.json is msgspec.UNSET:
        if input.kv is not None:
            raise InvalidInput("`kv: put` needs `json` or `text`")
        return b""
    try:
        return msgspec.json.encode(input.json)
    except UnicodeEncodeError:
        raise InvalidInput("`json` is not valid Unicode") from None


def _bucket(input: NatsInput) -> str:
    if input.bucket is None or _BUCKET.fullmatch(input.bucket) is None:
        raise InvalidInput("`bucket` must be the name of a bucket: letters, digits, `_` and `-`")
    return input.bucket


def _key(input: NatsInput) -> str:
    if input.key is None or len(input.key) > _SUBJECT_BYTES_MAX or _KEY.fullmatch(input.key) is None:
        raise InvalidInput("`key` must consist of letters, digits and -/_= in parts that are separated by dots")
    return input.key


def _pattern(input: NatsInput) -> str:
    pattern = ">" if input.key is None else input.key
    if len(pattern) > _SUBJECT_BYTES_MAX or _PATTERN.fullmatch(pattern) is None:
        raise InvalidInput("`key` must be a key or a pattern: `*` for one part, `>` for all further parts")
    return pattern


async def _publish(
    connection: ExternalConnection, subject: str, body: bytes, headers: dict[str, str] | None, id: str | None
) -> Output:
    """`id`: wait for a stream, which stores messages with the same id once."""
    data: JSON = {"subject": subject, "bytes": len(body)}
    if id is None:
        await connection.publish(subject, body, headers)
        return Output(data=data, own=own_part(subject=subject))
    missing = f'no stream stores messages of the subject "{subject}"'
    message = await connection.request(subject, body, {**(headers or {}), "Nats-Msg-Id": id})
    stored = _decoded(message, PublishAck, missing)
    if stored.error is not None:
        raise _failure(stored.error)
    own = own_part(subject=subject, stream=stored.stream, sequence=stored.seq, duplicate=stored.duplicate)
    return Output(data=data, own=own)


def _reply(message: Msg, subject: str, as_: str) -> Output:
    headers = dict(message.headers or {})
    if not message.data and headers.get("Status") == "503":
        raise NatsFailure(f'no receiver listens to the subject "{subject}"', "no-responders", retryable=True)
    if (code := headers.get("Nats-Service-Error-Code")) is not None:
        reason = headers.get("Nats-Service-Error", "")[:500]
        raise NatsFailure(f'the service at "{subject}" reports an error: {code} {reason}'.rstrip(), "service")
    return Output(data=_content(message.data, as_), own=own_part(subject=subject, headers=headers))


def _content(body: bytes, as_: str) -> JSON:
    if as_ != "text":
        try:
            return decode_json(body)
        except InvalidJson as error:
            if as_ == "json":
                raise NatsFailure(f"the content {error}", "content") from None
    return text_or_base64(body)


class JetStreamError(msgspec.Struct):
    """Why JetStream refuses a request."""

    code: int = 500
    err_code: int = 0
    description: str = ""


class JetStreamAnswer(msgspec.Struct):
    """An answer of JetStream."""

    error: JetStreamError | None = None


class PublishAck(JetStreamAnswer):
    """A stream has stored a message."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False


class StoredMessage(msgspec.Struct):
    """A message in a stream."""

    seq: int
    data: str = ""  # base64
    hdrs: str = ""  # base64

    @property
    def is_deleted(self) -> bool:
        return b"KV-Operation:" in base64.b64decode(self.hdrs)


class LastMessage(JetStreamAnswer):
    """The last message of a subject."""

    message: StoredMessage | None = None


class Consumer(JetStreamAnswer):
    """A consumer that sends the messages of a stream."""

    num_pending: int = 0


Answer = TypeVar("Answer", bound=JetStreamAnswer)


class NoMessage(NatsFailure):
    """The stream has no message of this subject."""


def _decoded(message: Msg, shape: type[Answer], missing: str) -> Answer:
    """Raises NatsFailure. `missing`: what it means that JetStream does not answer."""
    if not message.data and (message.headers or {}).get("Status") == "503":
        raise NatsFailure(f"{missing}, or the server has no JetStream", "not-found", retryable=True)
    try:
        return msgspec.json.decode(message.data, type=shape)
    except msgspec.DecodeError:
        raise NatsFailure("the answer does not come from JetStream", "content") from None


def _failure(error: JetStreamError) -> NatsFailure:
    return NatsFailure(f"JetStream refuses: {error.description[:500]}", "refused", retryable=error.code >= 500)


class KeyValues:
    """The keys of one bucket. A bucket is the stream `KV_<bucket>`, and a key is a subject of it."""

    def __init__(self, connection: ExternalConnection, bucket: str) -> None:
        self._connection = connection
        self._bucket = bucket
        self._missing = f'there is no bucket "{bucket}"'

    async def get(self, key: str, as_: str) -> Output:
        found = await self._last(key)
        if found is None or found.is_deleted:
            raise NatsFailure(f'there is no key "{key}" in the bucket "{self._bucket}"', "not-found")
        return Output(data=_content(base64.b64decode(found.data), as_), own=own_part(revision=found.seq))

    async def put(self, key: str, body: bytes, revision: int | None) -> Output:
        stored = await self._write(key, body, {}, revision)
        if stored is None and revision == 0:
            last = await self._last(key)  # a deleted key has a revision, too
            if last is not None and last.is_deleted:
                stored = await self._write(key, body, {}, last.seq)
        return self._written(key, stored, revision)

    async def delete(self, key: str, revision: int | None) -> Output:
        return self._written(key, await self._write(key, b"", {"KV-Operation": "DEL"}, revision), revision)

    async def keys(self, pattern: str) -> Output:
        found: list[str] = []
        prefix = f"$KV.{self._bucket}."
        async with self._connection.listen() as (inbox, replies):
            config: JSON = {
                "deliver_subject": inbox, "deliver_policy": "last_per_subject", "ack_policy": "none",
                "filter_subject": prefix + pattern, "headers_only": True, "mem_storage": True,
                "inactive_threshold": 30_000_000_000,
            }  # fmt: skip
            asked = {"stream_name": f"KV_{self._bucket}", "config": config}
            pending = (await self._ask(f"CONSUMER.CREATE.KV_{self._bucket}", asked, Consumer)).num_pending
            while pending:
                message = await replies.next()
                pending = int(message.reply.rpartition(".")[2])  # $JS.ACK.….<pending>
                if (message.headers or {}).get("KV-Operation") is None:
                    found.append(message.subject.removeprefix(prefix))
                if len(found) > KEYS_MAX:
                    raise TooLarge(f"more than {KEYS_MAX:,} keys match; use a pattern with `key`")
        return Output(data=sorted(found))

    async def _last(self, key: str) -> StoredMessage | None:
        """The last message of the key. None: there has never been one."""
        try:
            asked = {"last_by_subj": f"$KV.{self._bucket}.{key}"}
            return (await self._ask(f"STREAM.MSG.GET.KV_{self._bucket}", asked, LastMessage)).message
        except NoMessage:
            return None

    async def _write(self, key: str, body: bytes, headers: dict[str, str], revision: int | None) -> PublishAck | None:
        """None: the key has another revision."""
        if revision is not None:
            headers = {**headers, "Nats-Expected-Last-Subject-Sequence": str(revision)}
        message = await self._connection.request(f"$KV.{self._bucket}.{key}", body, headers or None)
        answer = _decoded(message, PublishAck, self._missing)
        if answer.error is None:
            return answer
        if revision is not None and answer.error.err_code in _WRONG_SEQUENCE:
            return None
        raise _failure(answer.error)

    def _written(self, key: str, stored: PublishAck | None, revision: int | None) -> Output:
        if stored is not None:
            return Output(data={"key": key, "revision": stored.seq}, own=own_part(revision=stored.seq))
        if revision == 0:
            raise NatsFailure(f'the key "{key}" already exists in the bucket "{self._bucket}"', "exists")
        raise NatsFailure(f'the key "{key}" does not have the revision {revision}', "changed")

    async def _ask(self, operation: str, asked: JSON, shape: type[Answer]) -> Answer:
        """Raises NatsFailure; NoMessage if the stream has no such message."""
        message = await self._connection.request(f"$JS.API.{operation}", msgspec.json.encode(asked))
        answer = _decoded(message, shape, self._missing)
        if answer.error is None:
            return answer
        if answer.error.err_code == _NO_STREAM:
            raise NatsFailure(self._missing, "not-found")
        if answer.error.err_code == _NO_MESSAGE:
            raise NoMessage("the stream has no such message", "not-found")
        raise _failure(answer.error)
