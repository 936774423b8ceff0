"""The process log: JSON lines, or readable lines on a terminal. It is off until `start_logging`.

Our lines and those of uvicorn, NATS and asyncpg pass through one redaction, which removes known secrets and texts
that look like secrets. It hides too much rather than too little. Payloads are never logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TextIO, TypeAlias

import re2

from noetl.clock import Clock
from noetl.errors import Rejected, Unavailable
from noetl.masking import Mask
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, SecretProvider
from noetl.secret import SECRET_CHARS_MIN, SHOWN, Secret

CHARS_MAX: Final = 8_192  # of one value in a line
VALUES_MAX: Final = 10_000  # known secrets; the oldest is removed
VALUES_PER_MASK: Final = 256  # a new secret compiles the mask of its group only
DEPTH_MAX: Final = 8

_NAMES: Final = (
    r"passw(?:or)?d|passphrase|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|link[_-]?key"
    r"|credential|authorization|cookie|session|signature|dsn"
)
_KEY: Final = re2.compile(rf"(?i)(?:^|[_.-])(?:{_NAMES}|key|auth)s?$")
# Patterns and their replacements, the most specific first.
_LOOKS: Final = [
    (re2.compile(pattern), shown)
    for pattern, shown in (
        (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)", SHOWN),
        (r"(?i)((?:authorization|cookie)[\"']?\s*[:=]\s*)[^\n]*", rf"\1{SHOWN}"),
        (r"(?i)\b(bearer|basic)(\s+)[^\s\"',;]{6,}", rf"\1\2{SHOWN}"),
        (r"(://)[^\s\"'<>]*@", rf"\1{SHOWN}@"),
        (r"\b([A-Za-z0-9_.+-]{1,64}):[^\s@/\"']{1,256}@", rf"\1:{SHOWN}@"),
        (r"([?&#][A-Za-z0-9_.~%\[\]-]{1,64}=)[^&#\s\"'<>]+", rf"\1{SHOWN}"),
        (rf"(?i)((?:{_NAMES})s?[A-Za-z0-9_-]{{0,32}}[\"']?\s*[:=]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&]+)", rf"\1{SHOWN}"),
        (r"\bnoetl_[A-Za-z0-9]+_[A-Za-z0-9_-]+", SHOWN),
        (r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_.-]+", SHOWN),
        (
            r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-|hvs\.|AKIA|ASIA|AIza|ya29\.)[A-Za-z0-9_./-]{10,}",
            SHOWN,
        ),
    )
]
_LONG: Final = re2.compile(r"[A-Za-z0-9_+=-]{28,}")


class Redaction:
    """Removes secrets from texts and from all values of a log line."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        self._known: dict[str, _Group] = {}  # value → its group, the oldest value first

    def hide(self, secret: Secret | str) -> None:
        """Never show this value again."""
        value = secret.reveal() if isinstance(secret, Secret) else secret
        for text in (value, *value.splitlines()):
            if len(text) >= SECRET_CHARS_MIN and text not in self._known:
                self._add(text)

    def _add(self, value: str) -> None:
        if len(self._known) >= VALUES_MAX:
            oldest = next(iter(self._known))
            self._known.pop(oldest).remove(oldest)
        if not self._groups or not self._groups[-1].has_room:
            self._groups = [*(group for group in self._groups if len(group)), _Group()]
        group = self._known[value] = self._groups[-1]
        group.add(value)

    def text(self, text: str) -> str:
        for group in self._groups:
            text = group.mask.text(text)
        for pattern, shown in _LOOKS:
            text = pattern.sub(shown, text)
        text = _LONG.sub(lambda found: SHOWN if _is_random(found[0]) else found[0], text)
        return text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]}…"

    def value(self, value: object, depth: int = DEPTH_MAX) -> object:
        """The value for a log line. An unknown object appears as its type only."""
        match value:
            case None | bool() | int() | float():
                return SHOWN if str(value) in self._known else value  # a secret of digits may appear as a number
            case str():
                return self.text(value)
            case Secret():
                return SHOWN
            case datetime():
                return value.isoformat()
            case BaseException():
                return self.text(f"{type(value).__name__}: {value}")
            case Mapping() if depth:
                return self.fields(value, depth - 1)
            case list() | tuple() | set() | frozenset() if depth:
                return [self.value(each, depth - 1) for each in value]
        return f"<{type(value).__name__}>"

    def fields(self, fields: Mapping[Any, object], depth: int = DEPTH_MAX) -> dict[str, object]:
        return {
            self.text(str(name)): SHOWN if _KEY.search(str(name)) else self.value(value, depth)
            for name, value in fields.items()
        }


class _Group:
    """Some known values that share one mask, which is compiled when it is first needed."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._mask: Mask | None = None

    def __len__(self) -> int:
        return len(self._values)

    @property
    def has_room(self) -> bool:
        return len(self._values) < VALUES_PER_MASK

    @property
    def mask(self) -> Mask:
        if self._mask is None:
            self._mask = Mask(self._values)
        return self._mask

    def add(self, value: str) -> None:
        self._values[value] = None
        self._mask = None

    def remove(self, value: str) -> None:
        del self._values[value]
        self._mask = None


class HiddenSecrets:
    """Implements SecretProvider, and adds every fetched value to the redaction."""

    def __init__(self, provider: SecretProvider, redaction: Redaction) -> None:
        self._provider = provider
        self._redaction = redaction

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        fetched = await self._provider.fetch(credential, fresh=fresh)
        for value in fetched.values.values():
            self._redaction.hide(value)
        return fetched


def _is_random(text: str) -> bool:
    """Long and with all kinds of characters: names and digests do not look like that."""
    return any(map(str.isupper, text)) and any(map(str.islower, text)) and any(map(str.isdigit, text))


Line: TypeAlias = MutableMapping[str, Any]

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
# Minimum levels of libraries, independent of our level. We log requests ourselves.
LIBRARIES: Final = {
    "uvicorn": logging.INFO,
    "uvicorn.access": logging.CRITICAL,
    "nats": logging.WARNING,
    "asyncpg": logging.INFO,
    "asyncio": logging.WARNING,
    "opentelemetry": logging.WARNING,
    "urllib3": logging.WARNING,
    "aiohttp": logging.WARNING,
}

OUTAGE_INTERVAL_S: Final = 30.0  # between two lines about the same outage

redaction = Redaction()  # one for the process: every known secret is added to it


class Logger(NamedTuple):
    """Writes lines of one area. The event is a stable dotted name; details are fields."""

    area: str

    def debug(self, event: str, **fields: object) -> None:
        _write(logging.DEBUG, self.area, event, fields)

    def info(self, event: str, **fields: object) -> None:
        _write(logging.INFO, self.area, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        _write(logging.WARNING, self.area, event, fields)

    def error(self, event: str, **fields: object) -> None:
        _write(logging.ERROR, self.area, event, fields)


def get_logger(area: str) -> Logger:
    """It writes nothing until logging is started."""
    return Logger(area)


class _Output:
    """The destination of lines; None: lines are discarded, as in `noetl run`."""

    to: Callable[[int, str, str, dict[str, object]], None] | None = None


def _write(level: int, area: str, event: str, fields: dict[str, object]) -> None:
    if _Output.to is not None:
        _Output.to(level, area, event, fields)


def start_logging(stream: TextIO, level: str = "info", *, pretty: bool | None = None) -> Callable[[], None]:
    """Start logging, and return the function that stops it. Raises Rejected for an unknown level.

    `pretty`: readable lines instead of JSON; None: if the stream is a terminal.
    """
    if level not in LEVELS:
        reason = f'NOETL_LOG must be one of {", ".join(LEVELS)}, not "{redaction.text(level)[:40]}"'
        raise Rejected("bad-setting", reason)
    handler = _handler(stream, stream.isatty() if pretty is None else pretty)
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in LIBRARIES}
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(max(least, LEVELS[level]))
    _Output.to = _written

    def stop() -> None:
        _Output.to = None
        root.handlers[:] = before[1]
        root.setLevel(before[0])
        for name, least in levels.items():
            logging.getLogger(name).setLevel(least)

    return stop


def _written(level: int, area: str, event: str, fields: dict[str, object]) -> None:
    logger = logging.getLogger(f"noetl.{area}")
    if logger.isEnabledFor(level):
        logger.log(level, "%s", event, extra={"noetl_fields": fields})


class _Handler(logging.StreamHandler[TextIO]):
    """Ignores write errors: a traceback on standard error would bypass the redaction."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the library's name
        del record


def _handler(stream: TextIO, pretty: bool) -> logging.Handler:
    from structlog import dev, processors, stdlib

    renderer: Any = dev.ConsoleRenderer(exception_formatter=dev.plain_traceback)
    if not pretty:
        renderer = processors.JSONRenderer(ensure_ascii=False)
    handler = _Handler(stream)
    handler.setFormatter(
        stdlib.ProcessorFormatter(
            foreign_pre_chain=[stdlib.add_log_level, _with_fields, processors.TimeStamper("iso", key="at")],
            processors=[
                processors.format_exc_info,  # as text, without the values of variables
                stdlib.ProcessorFormatter.remove_processors_meta,
                _redacted,
                renderer,
            ],
        )
    )
    return handler


def _with_fields(_logger: object, _method: str, line: Line) -> Line:
    """Add the fields of our lines; for lines of libraries, the name of their logger."""
    record: logging.LogRecord = line["_record"]
    fields: dict[str, object] | None = getattr(record, "noetl_fields", None)
    line["area"] = record.name.removeprefix("noetl.") if fields is not None else record.name
    if fields:
        own = {name: value for name, value in fields.items() if value is not None and name not in line}
        line.update(own)
    return line


def _redacted(_logger: object, _method: str, line: Line) -> Line:
    return {**redaction.fields(line)}


class OwnershipLog:
    """Logs which partitions this server gains and loses."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._owned: frozenset[int] = frozenset()

    def update(self, owned: frozenset[int]) -> None:
        """After each renewal of the leases."""
        gained, lost = owned - self._owned, self._owned - owned
        if gained:
            self._log.info("partitions.taken", partitions=sorted(gained), owned=len(owned))
        if lost:
            self._log.warning("partitions.gone", partitions=sorted(lost), owned=len(owned))
        self._owned = owned


class OutageLog:
    """Logs an outage when it begins, at intervals while it lasts, and when it ends."""

    def __init__(self, log: Logger, clock: Clock, name: str) -> None:
        self._log = log
        self._clock = clock
        self._name = name  # "store", "queue", "results"
        self._begun: float | None = None
        self._logged = 0.0
        self._count = 0

    def add(self, error: Unavailable) -> None:
        now = self._clock.monotonic()
        self._count += 1
        if self._begun is None:
            self._begun = now
        elif now < self._logged + OUTAGE_INTERVAL_S:
            return
        self._logged = now
        for_s = round(now - self._begun, 1)
        self._log.warning(f"{self._name}.unavailable", error=error, times=self._count, for_s=for_s)

    def end(self) -> None:
        """The component answers. This is called after every commit, so that it must be cheap."""
        if self._begun is not None:
            away_s = self._clock.monotonic() - self._begun
            self._begun, times, self._count = None, self._count, 0
            self._log.info(f"{self._name}.back", times=times, away_s=round(away_s, 1))
