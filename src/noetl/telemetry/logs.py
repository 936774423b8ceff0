"""The process log: JSON lines, or readable lines on a terminal. It is off until `start_logging`.

Our lines and those of uvicorn, NATS and asyncpg pass through one redaction. Payloads are never logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import Any, Final, NamedTuple, TextIO, TypeAlias

from noetl.clock import Clock
from noetl.errors import Rejected, Unavailable
from noetl.telemetry.redaction import Redaction

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
        self._log.warning(
            f"{self._name}.unavailable", error=error, times=self._count, for_s=round(now - self._begun, 1)
        )

    def end(self) -> None:
        """The component answers. This is called after every commit, so that it must be cheap."""
        if self._begun is not None:
            away_s = self._clock.monotonic() - self._begun
            self._begun, times, self._count = None, self._count, 0
            self._log.info(f"{self._name}.back", times=times, away_s=round(away_s, 1))
