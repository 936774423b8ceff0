"""The log of the process: lines of JSON, or something for the eye on a terminal. Off until it is started.

Ours and those of uvicorn, NATS and asyncpg go one way, through one redaction. No payload is ever logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import Any, Final, NamedTuple, TextIO, TypeAlias

from noetl.errors import Rejected
from noetl.telemetry.redaction import Redaction

Line: TypeAlias = MutableMapping[str, Any]

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
# Libraries that talk: each from this level on, whatever ours is. Requests are told of by ourselves.
TALKERS: Final = {
    "uvicorn": logging.INFO,
    "uvicorn.access": logging.CRITICAL,
    "nats": logging.WARNING,
    "asyncpg": logging.INFO,
    "asyncio": logging.WARNING,
    "opentelemetry": logging.WARNING,
    "urllib3": logging.WARNING,
    "aiohttp": logging.WARNING,
}

redaction = Redaction()  # one for the process: whoever learns a secret tells it


class Log(NamedTuple):
    """Of one area. The event is a stable dotted name, the particulars are fields."""

    area: str

    def debug(self, event: str, **fields: object) -> None:
        _write(logging.DEBUG, self.area, event, fields)

    def info(self, event: str, **fields: object) -> None:
        _write(logging.INFO, self.area, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        _write(logging.WARNING, self.area, event, fields)

    def error(self, event: str, **fields: object) -> None:
        _write(logging.ERROR, self.area, event, fields)


def get_logger(area: str) -> Log:
    """It costs nothing and says nothing until logging is started."""
    return Log(area)


class _Writing:
    """Where lines go; None: nowhere, as in `noetl run`."""

    to: Callable[[int, str, str, dict[str, object]], None] | None = None


def _write(level: int, area: str, event: str, fields: dict[str, object]) -> None:
    if _Writing.to is not None:
        _Writing.to(level, area, event, fields)


def start_logging(stream: TextIO, level: str = "info", *, pretty: bool | None = None) -> Callable[[], None]:
    """From now on. What is returned ends it. Raises Rejected when there is no such level.

    `pretty`: for the eye; None: if the stream is a terminal.
    """
    if level not in LEVELS:
        words = f'NOETL_LOG is one of {", ".join(LEVELS)}, not "{redaction.text(level)[:40]}"'
        raise Rejected("bad-setting", words)
    handler = _handler(stream, stream.isatty() if pretty is None else pretty)
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    talked = {name: logging.getLogger(name).level for name in TALKERS}
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    for name, least in TALKERS.items():
        logging.getLogger(name).setLevel(max(least, LEVELS[level]))
    _Writing.to = _written

    def stop() -> None:
        _Writing.to = None
        root.handlers[:] = before[1]
        root.setLevel(before[0])
        for name, least in talked.items():
            logging.getLogger(name).setLevel(least)

    return stop


def _written(level: int, area: str, event: str, fields: dict[str, object]) -> None:
    logger = logging.getLogger(f"noetl.{area}")
    if logger.isEnabledFor(level):
        logger.log(level, "%s", event, extra={"noetl_fields": fields})


class _Handler(logging.StreamHandler[TextIO]):
    """One that keeps silent when a line can not be written: a traceback would show what was not redacted."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the library's name
        del record


def _handler(stream: TextIO, pretty: bool) -> logging.Handler:
    from structlog import dev, processors, stdlib

    shown: Any = dev.ConsoleRenderer(exception_formatter=dev.plain_traceback)
    if not pretty:
        shown = processors.JSONRenderer(ensure_ascii=False)
    handler = _Handler(stream)
    handler.setFormatter(
        stdlib.ProcessorFormatter(
            foreign_pre_chain=[stdlib.add_log_level, _with_fields, processors.TimeStamper("iso", key="at")],
            processors=[
                processors.format_exc_info,  # as text, and without the values of variables
                stdlib.ProcessorFormatter.remove_processors_meta,
                _redacted,
                shown,
            ],
        )
    )
    return handler


def _with_fields(_logger: object, _method: str, line: Line) -> Line:
    """Ours bring fields with them; of the others the name of the logger is told."""
    record: logging.LogRecord = line["_record"]
    fields: dict[str, object] | None = getattr(record, "noetl_fields", None)
    line["area"] = record.name.removeprefix("noetl.") if fields is not None else record.name
    if fields:
        own = {name: value for name, value in fields.items() if value is not None and name not in line}
        line.update(own)
    return line


def _redacted(_logger: object, _method: str, line: Line) -> Line:
    return {**redaction.fields(line)}
