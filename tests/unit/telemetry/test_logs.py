"""Lines of a process: JSON for machines, something for the eye, nothing before it is started, and no secret."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from noetl.errors import Rejected, Unavailable
from noetl.output import JSON
from noetl.secret import Secret
from noetl.telemetry.logs import get_logger, redaction, start_logging

CANARY = "canary-51d9"
log = get_logger("server")


class Lines(io.StringIO):
    """What was written."""

    def read_all(self) -> list[JSON]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@contextmanager
def logging_to(stream: Lines, level: str = "info", *, pretty: bool | None = None) -> Iterator[Lines]:
    stop = start_logging(stream, level, pretty=pretty)
    try:
        yield stream
    finally:
        stop()


def test_a_line_is_json_with_its_area_level_and_instant() -> None:
    with logging_to(Lines()) as lines:
        log.info("server.started", url="http://127.0.0.1:8080", partitions=[1, 2], nothing=None)
    (line,) = lines.read_all()
    assert line.pop("at").endswith("Z")
    assert line == {
        "event": "server.started", "level": "info", "area": "server",
        "url": "http://127.0.0.1:8080", "partitions": [1, 2],
    }  # fmt: skip


def test_a_field_can_not_take_the_place_of_what_every_line_has() -> None:
    with logging_to(Lines()) as lines:
        log.info("a.b", level="none", area="elsewhere")
    (line,) = lines.read_all()
    assert (line["event"], line["level"], line["area"]) == ("a.b", "info", "server")


def test_nothing_is_written_before_it_is_started_and_after_it_is_stopped() -> None:
    with logging_to(Lines()) as lines:
        pass
    log.error("nobody.hears")
    assert lines.getvalue() == ""
    assert not [each for each in logging.getLogger().handlers if type(each).__module__.startswith("noetl")]


@pytest.mark.parametrize(("level", "heard"), [("debug", 3), ("info", 2), ("warning", 1)])
def test_the_level_says_what_is_heard(level: str, heard: int) -> None:
    with logging_to(Lines(), level) as lines:
        log.debug("a.b")
        log.info("a.b")
        log.warning("a.b")
    assert len(lines.read_all()) == heard


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(Rejected, match="NOETL_LOG must be one of debug, info, warning"):
        start_logging(Lines(), "loud")


def test_other_loggers_go_the_same_way_and_requests_are_not_told_twice() -> None:
    with logging_to(Lines()) as lines:
        logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
        logging.getLogger("nats.aio.client").error("nats: encountered error: nats://me:%s@host", CANARY)
        logging.getLogger("asyncpg").warning("password=%s", CANARY)
        logging.getLogger("uvicorn.access").info("GET /x?token=%s", CANARY)
    told = lines.read_all()
    assert [(line["area"], line["event"]) for line in told] == [
        ("uvicorn.error", "Started server process [7]"),
        ("nats.aio.client", "nats: encountered error: nats://***@host"),
        ("asyncpg", "password=***"),
    ]


@pytest.mark.parametrize("pretty", [False, True])
def test_a_canary_never_shows(pretty: bool) -> None:
    redaction.hide(Secret(CANARY))
    with logging_to(Lines(), "debug", pretty=pretty) as lines:
        log.error("store.unavailable", error=Unavailable(f"it said {CANARY}"), url=f"postgresql://me:{CANARY}@db/x")
        log.info(f"event.{CANARY}", token=CANARY, secret=Secret(CANARY), words=[{"a": CANARY}, (CANARY,)])
        log.info("a.b", **{CANARY: 1})
        try:
            held = CANARY
            raise ValueError(f"bad value {held}")
        except ValueError:
            logging.getLogger("asyncio").exception("Task exception was never retrieved: %s", {"key": CANARY})
    assert lines.getvalue().count("***") >= 9
    assert "Traceback" in lines.getvalue()
    assert CANARY not in lines.getvalue()


def test_a_line_that_can_not_be_made_costs_itself_only(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(Lines()) as lines:
        logging.getLogger("nats").error("%d pointers", CANARY)
        log.info("a.b")
    assert [line["event"] for line in lines.read_all()] == ["a.b"]
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_something_for_the_eye() -> None:
    class Terminal(Lines):
        def isatty(self) -> bool:
            return True

    with logging_to(Terminal()) as lines:
        log.warning("partitions.gone", partitions=[3])
    assert "partitions.gone" in lines.getvalue()
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(lines.getvalue())


def test_a_logger_that_is_not_started_loads_no_library() -> None:
    heavy = ("structlog", "prometheus_client", "opentelemetry", "litestar")
    program = (
        "import sys; from noetl.telemetry.logs import get_logger;"
        "import noetl.telemetry.measured, noetl.telemetry.control_metrics, noetl.telemetry.tracing, noetl.telemetry.metrics;"
        "import noetl.telemetry.control_metrics, noetl.telemetry.measured, noetl.telemetry.control_metrics, noetl.telemetry.logs;"
        "get_logger('x').error('a.b');"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
