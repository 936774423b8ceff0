"""`noetl doctor`: what is wrong with a set-up and how to mend it, a line a check; and the exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import place_of, server_at
from noetl.cli.encoded import as_document
from noetl.cli.exits import FAILED, OK
from noetl.cli.looking import screen_for
from noetl.cli.screen import Screen
from noetl.net.describe import count
from noetl.runtime.doctor.checks import Diagnosis, DoctorOptions, Grade, has_failures, run_checks
from noetl.runtime.settings import database_path, database_url, nats_url
from noetl.views.styled_text import Style, Styled, folded

SIGNS: dict[Grade, Styled] = {
    "ok": Styled("ok       ", "good"),
    "info": Styled("note     ", "info"),
    "warning": Styled("warning  ", "warning"),
    "error": Styled("wrong    ", "error"),
}


class DoctorAsked(NamedTuple):
    """The arguments of `noetl doctor`."""

    db: str | None
    server: str | None
    nats: str | None
    monitor: str | None
    strict: bool
    form: FormatChoice


def run_doctor(asked: DoctorAsked) -> int:
    found = asyncio.run(run_checks(_set_up(asked)))
    if asked.form == "json":
        wrong = has_failures(found, strict=asked.strict)
        sys.stdout.write(as_document({"ok": not wrong, "findings": [each._asdict() for each in found]}))
    else:
        _show(found, screen_for(asked.form))
    return FAILED if has_failures(found, strict=asked.strict) else OK


def _set_up(asked: DoctorAsked) -> DoctorOptions:
    """What was named; nothing at all: what other commands would use from here. Raises Usage."""
    named = asked.db is not None or asked.nats is not None
    server = None if named and asked.server is None else server_at(place_of(None, asked.server))
    url = database_url(asked.db)
    file: Path | None = None
    if server is None and url is None and (asked.db is not None or asked.nats is None):
        file = database_path(asked.db)
    if server is not None and asked.db is None:
        url = database_url(None)
    return DoctorOptions(
        file=file,
        database=url,
        nats=nats_url(asked.nats) if asked.db is None or asked.nats is not None else None,
        monitor=asked.monitor,
        server=None if server is None else server.url,
        token=None if server is None else server.token,
        environment=os.environ,
    )


def _show(found: Sequence[Diagnosis], screen: Screen) -> None:
    indent = len(SIGNS["ok"].text)
    for each in found:
        styled: Style = "" if each.grade != "ok" else "faint"
        words = [Styled(f"{each.check}: ", "name"), Styled(each.words, styled)]
        for place, line in enumerate(folded(words, screen.columns - indent)):
            screen.line(Styled(" " * indent) if place else SIGNS[each.grade], *line)
        if each.cure is not None:
            for place, line in enumerate(folded([Styled(each.cure)], screen.columns - indent - 2)):
                screen.line(" " * indent, "  " if place else "→ ", *line)
    wrong = sum(each.grade == "error" for each in found)
    doubtful = sum(each.grade == "warning" for each in found)
    screen.line()
    if not wrong and not doubtful:
        screen.line(Styled(f"{count(len(found), 'check')}, and all is well", "good"))
        return
    screen.line(f"{count(len(found), 'check')}: {count(wrong, 'error')}, {count(doubtful, 'warning')}")
