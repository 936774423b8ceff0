"""Cassettes: the calls of an execution in a YAML file for tests, with large bodies in compressed files beside it.

Values of keys that hold credentials are replaced by `***`. Files that tools have stored are left out unless asked for,
because secrets in them are not masked.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from noetl.engine.scopes import is_foreign
from noetl.errors import Damaged, NotFound, PlaybookError
from noetl.ids import place_of_frame
from noetl.output import JSON, Output
from noetl.playbook.source import ParsedDocument, parse, plain
from noetl.playbook.write import emit
from noetl.replay.recording import BodyReader, RecordedCall, RecordedExecution, RecordedSignal, is_json
from noetl.secret import SHOWN
from noetl.views.documents import content_type
from noetl.views.log import instant

VERSION: Final = 1
INLINE_BYTES_MAX: Final = 4_096  # of data in the YAML text
TEXT_BYTES_MAX: Final = 1 << 26
VALUES_MAX: Final = 5_000_000
BODY_BYTES_MAX: Final = 1 << 28
_BODY: Final = re.compile(r"[\w.-]+/[0-9a-f]{16}\.gz")
_KEYS: Final = (
    r"(?:proxy-)?authorization|(?:set-)?cookie2?|www-authenticate|x-(?:api|auth|amz-security)-(?:key|token)"
    r"|(?:client|app|shared)?[_-]?secret|pass(?:word|wd|phrase)|(?:access|refresh|id|session|security|auth|bearer)?[_-]?token"
    r"|(?:api|private|secret|access|account)[_-]?key|secret_access_key|credentials?|dsn"
)
_SECRET: Final = re.compile(_KEYS, re.IGNORECASE)
_SCHEMES: Final = r"(?:bearer|basic|digest|negotiate|token|apikey)"
_IN_TEXT: Final = re.compile(
    rf"""(?P<before>(?:\b|(?<=%26)|(?<=%3f)|(?<=%22)|(?<=\\[nrt]))(?P<key>{_KEYS})"""
    rf"""(?:%22|\\*["'])?\s*(?:[:=]|%3[ad])[\s\[]*(?:%22|\\*["'])?(?:{_SCHEMES}(?:\s+|%20|\+))?)"""
    r"""[^"'\s,;&}\\<>]+""",
    re.IGNORECASE,
)


class CassetteFiles(NamedTuple):
    """What will be written, and what a person should know before."""

    text: str
    bodies: dict[str, bytes]  # name beside the cassette → compressed bytes
    calls: dict[str, int]  # `step.task` → number of calls
    redacted: dict[str, int]  # key → how often its value is replaced
    left_out: int  # stored files whose bodies are not in the cassette


class _Writer:
    def __init__(self, stem: str, read_body: BodyReader, *, files: bool) -> None:
        self._stem = stem
        self._read_body = read_body
        self._files = files
        self.made = CassetteFiles("", {}, {}, {}, 0)
        self.left_out = 0

    async def execution(self, recorded: RecordedExecution) -> dict[str, JSON]:
        document: dict[str, JSON] = {
            "playbook": recorded.path,
            "execution": recorded.id,
            "recorded_at": instant(recorded.started_at),
            "workload": self.redact(recorded.workload),
        }
        for key, values in (("ctx", recorded.ctx), ("saved", recorded.saved)):
            if values:
                document[key] = self.redact(values)
        if recorded.signals:
            document["signals"] = [
                {"name": each.name, "frame": each.frame, "data": self.redact(each.data)} for each in recorded.signals
            ]
        document["calls"] = [await self._call(each) for each in recorded.calls]
        if recorded.children:
            document["children"] = [await self.execution(each) for each in recorded.children]
        return document

    async def _call(self, call: RecordedCall) -> dict[str, JSON]:
        name = f"{place_of_frame(call.frame)}.{call.task}"
        self.made.calls[name] = self.made.calls.get(name, 0) + 1
        entry: dict[str, JSON] = {"call": name, "frame": call.frame, "number": call.occurrence}
        if call.input_hash is not None:
            entry["input"] = call.input_hash
        if call.started_at is not None:
            entry["at"] = instant(call.started_at)
        entry |= {"position": call.position, "ms": call.ms}
        output, body = call.output, None
        if output.ref is not None and output.data is None and not is_foreign(output.ref):
            body = await self._stored(output.ref)
            output = replace(output, ref=None)
        elif len(msgspec.json.encode(output.data)) > INLINE_BYTES_MAX:
            body = {"file": self._put(msgspec.json.encode(self.redact(output.data))), "type": "application/json"}
            output = replace(output, data=None)
        entry["output"] = self.redact(msgspec.to_builtins(output))
        if body is not None:
            entry["body"] = body
        return entry

    async def _stored(self, ref: dict[str, JSON]) -> dict[str, JSON]:
        """The body of a stored result. A body that is not JSON is a file, which the worker has not masked."""
        kind = content_type(ref)
        is_data = is_json(kind)
        if not is_data and not self._files:
            self.left_out += 1
            return {"file": None, "type": kind}
        body = await self._read_body(ref)
        if is_data:
            body = msgspec.json.encode(self.redact(msgspec.json.decode(body)))
        return {"file": self._put(body), "type": kind}

    def _put(self, body: bytes) -> str:
        name = f"{self._stem}/{hashlib.sha256(body).hexdigest()[:16]}.gz"
        self.made.bodies[name] = gzip.compress(body, mtime=0)
        return name

    def redact(self, value: JSON, *, all: bool = False) -> JSON:
        """The value without credentials. `all`: it is the value of a key that holds them."""
        match value:
            case dict():
                return {key: self._redacted(key, each, all=all) for key, each in value.items()}
            case list():
                return [self.redact(each, all=all) for each in value]
            case str() if all:
                return SHOWN
            case str():
                return self._text(value)
            case int() | float() if all and not isinstance(value, bool):
                return SHOWN
        return value

    def _redacted(self, key: str, value: JSON, *, all: bool) -> JSON:
        if all or not _SECRET.fullmatch(key):
            return self.redact(value, all=all)
        if (redacted := self.redact(value, all=True)) != value:
            self._count(key)
        return redacted if isinstance(value, dict) or redacted == value else SHOWN

    def _text(self, text: str) -> str:
        if text[:1] in ("{", "["):  # JSON in a text
            with suppress(msgspec.DecodeError, RecursionError):
                inner = msgspec.json.decode(text)
                redacted = self.redact(inner)
                return text if redacted == inner else msgspec.json.encode(redacted).decode()
        return _IN_TEXT.sub(self._in_text, text)

    def _in_text(self, found: re.Match[str]) -> str:
        """A message, an address or JSON in a text may quote a credential."""
        self._count(found["key"])
        return f"{found['before']}{SHOWN}"

    def _count(self, key: str) -> None:
        self.made.redacted[key] = self.made.redacted.get(key, 0) + 1


async def make_cassette(
    recorded: RecordedExecution, file: Path, read_body: BodyReader, *, files: bool = False
) -> CassetteFiles:
    """`files`: with the bodies of files that tools have stored. Raises NotFound when a stored result is gone."""
    writer = _Writer(file.name.removesuffix(".yaml").removesuffix(".yml"), read_body, files=files)
    document = {"cassette": VERSION, **await writer.execution(recorded)}
    return writer.made._replace(text=emit(document), left_out=writer.left_out)


# Reading


def read_cassette(file: Path) -> tuple[RecordedExecution, BodyReader]:
    """Raises PlaybookError for YAML that cannot be read, Damaged for another document, OSError."""
    with file.open("rb") as stream:
        parsed: ParsedDocument = parse(
            stream.read(TEXT_BYTES_MAX + 1), str(file), bytes_max=TEXT_BYTES_MAX, values_max=VALUES_MAX
        )
    if parsed.problems:
        raise PlaybookError(parsed.problems)
    document = plain(parsed.document.root)
    if not isinstance(document, dict) or document.get("cassette") != VERSION:
        raise Damaged(f"{file} is not a cassette of version {VERSION}: make one with noetl record")
    try:
        return _execution(document), _bodies(file.parent)
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError) as error:
        raise Damaged(f"{file} is not a valid cassette: {error}") from error


def _execution(document: dict[str, JSON]) -> RecordedExecution:
    return RecordedExecution(
        id=document["execution"],
        path=document["playbook"],
        digest="",
        workload=document.get("workload") or {},
        ctx=document.get("ctx") or {},
        saved=document.get("saved") or {},
        started_at=_instant(document["recorded_at"]),
        signals=[msgspec.convert(each, RecordedSignal) for each in document.get("signals") or ()],
        calls=[_call(place, each) for place, each in enumerate(document["calls"], 1)],
        children=[_execution(each) for each in document.get("children") or ()],
    )


def _call(place: int, entry: dict[str, JSON]) -> RecordedCall:
    output = msgspec.convert(entry["output"], Output)
    if (body := entry.get("body")) is not None:
        ref = {"type": "blob", "locator": {"key": body["file"]}, "meta": {"content_type": str(body["type"])}}
        output = replace(output, ref=ref)
    return RecordedCall(
        frame=entry["frame"],
        task=entry["call"].rpartition(".")[2],
        occurrence=entry["number"],
        output=output,
        input_hash=entry.get("input"),
        started_at=_instant(entry["at"]) if "at" in entry else None,
        ms=float(entry.get("ms", 0.0)),
        seq=place,
        position=int(entry.get("position", 0)),
    )


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _bodies(folder: Path) -> Callable[[dict[str, JSON]], Awaitable[bytes]]:
    async def read(ref: dict[str, JSON]) -> bytes:
        name = ref["locator"]["key"]
        if name is None:
            raise NotFound("the cassette was made without files: make it with noetl record --with-files")
        if not isinstance(name, str) or not _BODY.fullmatch(name):
            raise NotFound(f'"{name}" is not the name of a body')
        try:
            with gzip.open(folder / name) as stream:
                body = stream.read(BODY_BYTES_MAX + 1)
        except (OSError, EOFError) as error:
            raise NotFound(f"{folder / name} cannot be read: {error}") from error
        if len(body) > BODY_BYTES_MAX:
            raise NotFound(f"{folder / name} has more than {BODY_BYTES_MAX:,} bytes")
        return body

    return read
