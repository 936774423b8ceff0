"""`noetl events`: the log as envelopes, one a line; with `--follow` also those that are still to come."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from noetl.cli.choices import FormatChoice
from noetl.cli.encoded import as_line
from noetl.cli.exits import OK, Usage
from noetl.cli.finding import short
from noetl.cli.looking import Log, Shelf, execution_of, log_of, opened, screen_for
from noetl.cli.screen import Screen
from noetl.engine.state import State
from noetl.escape import one_line, shorten
from noetl.net.describe import value as in_words
from noetl.output import JSON
from noetl.ports import LogRow
from noetl.runtime import LocalStore
from noetl.views.envelopes import Envelope, Envelopes
from noetl.views.log import events_of, readable
from noetl.views.styled_text import Style, Styled

POLL_S = 0.2
LOOKS_FOR_OWNER = 10  # after so many polls without news: is there still somebody who makes some?
NAME_COLUMNS, ENTITY_COLUMNS = 28, 24
DATA_CHARS = 120
_STYLES: dict[str, Style] = {"error": "error", "skipped": "faint", "paused": "warning"}
_NOTHING: tuple[JSON, ...] = (None, "", (), [], {})
_AWAITED = ("name", "at", "block", "path")  # what a parked frame waits for, by the kind of it
_HELD = {True: "held", False: "did not hold"}
# What the line says elsewhere, or what says nothing to a person.
_TOLD = frozenset(
    {
        "run",
        "frame",
        "call",
        "task",
        "index",
        "token",
        "attempt",
        "epoch",
        "input_hash",
        "started_at",
        "digest",
        "next",
        "keep",
    }
)
_LEFT_OUT = {
    "token.enqueued": frozenset({"id", "event"}),
    "task.done": _TOLD | {"status"},
    "step.scheduled": _TOLD | {"step"},
    "next.evaluated": _TOLD,
}


class Asked(NamedTuple):
    """Which events, and how."""

    form: FormatChoice | str  # also jsonl: one a line
    first: int  # facts before it are not told
    follow: bool


def run_events(given: str, asked: Asked, db: str | None) -> int:
    if asked.follow and asked.form == "json":
        raise Usage("--follow has no end that closes a JSON array: use --format jsonl")
    with opened(db) as disk:
        return asyncio.run(_events(disk, given, asked))


async def _events(disk: Shelf, given: str, asked: Asked) -> int:
    log = await log_of(disk, given)
    teller = _Teller(log, asked)
    teller.begin()
    teller.tell(log.rows)
    if asked.follow:
        async for rows in _growth(disk, log):
            teller.tell(rows)
    teller.end()
    return OK


def _growth(disk: Shelf, log: Log) -> AsyncIterator[list[LogRow]]:
    """The rows that are added, until the execution has ended."""
    if isinstance(disk, LocalStore):
        return _of_file(disk, log)
    from noetl.cli.remote import ServerDisk, grown

    assert isinstance(disk, ServerDisk)
    return grown(disk, log.id, log.last_seq)


async def _of_file(disk: LocalStore, log: Log) -> AsyncIterator[list[LogRow]]:
    """To wait for them costs next to nothing."""
    seq, version, quiet, warned = log.last_seq, None, 0, False
    while True:
        seen = disk.database.fetch("PRAGMA data_version")
        quiet += 1
        if seen != version or quiet >= LOOKS_FOR_OWNER:
            version, quiet = seen, 0
            execution = await execution_of(disk, log.id)
            if execution.seq > seq:
                rows = await disk.store.read(log.id, seq)
                seq = rows[-1].first_seq + len(rows[-1].facts) - 1
                yield rows
                version = None  # There may be more, or this was its end.
                continue
            if not execution.live:
                return
            if not execution.owner_alive and not warned:
                warned = True
                words = f"no process has it now: go on with noetl resume {short(log.id)}{disk.flag}"
                Screen(sys.stderr).line(Styled(words, "warning"))
        await disk.database.clock.sleep(POLL_S)


class _Teller:
    """Feeds the envelopes with rows, and writes what comes of them."""

    def __init__(self, log: Log, asked: Asked) -> None:
        self.id = log.id
        self.form = asked.form
        self.first = asked.first
        self.seq = 0
        self.started_at = log.execution.started_at
        self.envelopes = Envelopes(State(execution_id=log.id))
        self.screen = None if self.form in ("json", "jsonl") else screen_for(_for_people(self.form))
        self.separator = ""

    def begin(self) -> None:
        if self.form == "json":
            sys.stdout.write("[")

    def tell(self, rows: Iterable[LogRow]) -> None:
        with readable(self.id):
            # Rows are read whole: of the first one a part may have been told already.
            for event in events_of(rows, after=self.seq):
                self.seq = event.seq
                for envelope in self.envelopes.feed(event):
                    if envelope.seq >= self.first:
                        self._tell(envelope)
        sys.stdout.flush()

    def _tell(self, envelope: Envelope) -> None:
        if self.screen is not None:
            self.screen.line(*_line(envelope, self.started_at))
        elif self.form == "jsonl":
            sys.stdout.write(as_line(envelope))
        else:
            sys.stdout.write(f"{self.separator}\n  {as_line(envelope).rstrip()}")
            self.separator = ","

    def end(self) -> None:
        if self.form == "json":
            sys.stdout.write("\n]\n")


def _for_people(form: FormatChoice | str) -> FormatChoice:
    return "rich" if form == "rich" else "plain" if form == "plain" else "auto"


def _line(envelope: Envelope, started_at: datetime) -> Iterator[Styled]:
    """`12.1  +0.034 s  task.started  fetch#1/1  …`."""
    at = datetime.fromisoformat(envelope.timestamp)
    seq = f"{envelope.seq}.{envelope.part}" if envelope.part else str(envelope.seq)
    style = _STYLES.get(envelope.status, "faint" if envelope.part else "")
    yield Styled(f"{seq:<8}", "faint")
    yield Styled(f"+{(at - started_at).total_seconds():.3f} s".rjust(12), "faint")
    yield Styled(f"  {envelope.name:<{NAME_COLUMNS}}  ", style)
    yield Styled(f"{one_line(_entity(envelope)):<{ENTITY_COLUMNS}}  ", "name")
    yield Styled(shorten("  ".join(_data(envelope)), DATA_CHARS))


def _entity(envelope: Envelope) -> str:
    """What is about the whole execution needs no name: there is but one."""
    return "" if envelope.entity in ("playbook", "workflow", "execution") else envelope.entity_id


def _data(envelope: Envelope) -> Iterator[str]:
    """The particulars that are worth a word, each once."""
    if envelope.task_label is not None:
        yield one_line(envelope.task_label)
    if envelope.attempt is not None and envelope.attempt > 1:
        yield f"attempt {envelope.attempt}"
    left_out = _LEFT_OUT.get(envelope.name, _TOLD)
    said = (_said(key, value) for key, value in envelope.data.items() if key not in left_out)
    yield from dict.fromkeys(words for words in said if words)


def _said(key: str, value: JSON) -> str:
    match key, value:
        case _ if value in _NOTHING:
            return ""
        case "error", {"kind": kind, "message": message}:
            return f"{one_line(str(kind))}: {one_line(str(message))}"
        case "output", {"error": {"kind": _, "message": _} as error}:
            return _said("error", error)
        case "output", {"data": data} if data is not None:
            return f"data={in_words(data)}"
        case "output", _:
            return "its data is stored" if value.get("ref") else ""
        case "tokens" | "waiting" | "runs", [*each]:
            return f"{key} {', '.join(one_line(_name(one)) for one in each)}"
        case "asked", [*arcs]:
            return f"arcs {', '.join(f'{place} {_HELD[held]}' for place, held in arcs)}"
        case (("directive" | "status" | "step"), _):
            return one_line(str(value))
        case "until", {"type": kind}:
            awaited = next((value[each] for each in _AWAITED if each in value), "")
            return f"for the {kind} {one_line(str(awaited))}"
        case "set", {**values}:
            return f"sets {', '.join(one_line(str(each)) for each in values)}"
        case "ms", _:
            return f"{value:,.0f} ms"
        case "reads", [*paths]:
            return f"reads {', '.join(one_line('.'.join(('ctx', *path))) for path in paths)}"
    return f"{one_line(key)}={in_words(value)}"


def _name(each: JSON) -> str:
    """A token by the step that it leads to, where that is said."""
    return str(each["step"] if isinstance(each, dict) and "step" in each else each)
