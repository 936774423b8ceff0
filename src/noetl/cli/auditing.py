"""`noetl audit`: logs, heads, results and the file itself, checked by other eyes than wrote them."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator, Iterable, Iterator

from msgspec import Struct

from noetl.cli.choices import FormatChoice
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK
from noetl.cli.finding import find_execution
from noetl.cli.looking import Execution, Log, Shelf, execution_of, opened, screen_for
from noetl.engine import Event
from noetl.engine.facts import Processed
from noetl.engine.state import LIVE
from noetl.errors import Damaged, NotFound
from noetl.net.describe import count
from noetl.output import JSON, Output
from noetl.views.audit import findings
from noetl.views.log import events_of, startup_failure
from noetl.views.styled_text import Styled

FOUND = 1
PAGE = 100
KEYS_MAX = 100_000  # results of one execution that are remembered as seen


class Found(Struct, frozen=True, kw_only=True):
    """Something that must not be."""

    execution_id: str | None  # None: it is about the file
    seq: int
    code: str
    message: str


class Audit(Struct, kw_only=True):
    """What was looked at, and what is wrong with it."""

    executions: int = 0
    facts: int = 0
    results: int = 0
    findings: list[Found]


def run_audit(given: str | None, form: FormatChoice, db: str | None) -> int:
    with opened(db) as disk:
        audit = asyncio.run(_audit(disk, given))
    if form == "json":
        sys.stdout.write(as_document(audit))
    else:
        screen_for(form).lines(_told(audit))
    return FOUND if audit.findings else OK


async def _audit(disk: Shelf, given: str | None) -> Audit:
    audit = Audit(findings=[])
    async for execution in _executions(disk, given):
        audit.executions += 1
        try:
            log = Log(execution, await disk.store.read(execution.execution_id))
        except Damaged as error:
            id = execution.execution_id
            audit.findings.append(Found(execution_id=id, seq=0, code="log", message=str(error)))
            continue
        audit.facts += log.last_seq
        audit.findings += [
            Found(execution_id=log.id, seq=each.seq, code=each.code, message=each.message)
            for each in findings(log.events())
        ]
        audit.findings += _of_head(log)
        if startup_failure(log.events()) is None:  # of what never began no text is kept
            audit.findings += [each async for each in _of_playbook(disk, execution)]
        await _results(disk, log, audit)
    audit.findings += _of_file(disk)
    return audit


async def _executions(disk: Shelf, given: str | None) -> AsyncIterator[Execution]:
    if given is not None:
        yield await execution_of(disk, await find_execution(disk.listing, given, disk.flag))
        return
    before: str | None = None
    while True:
        page = await disk.listing.executions(PAGE, before=before)
        for row in page:
            yield Execution(*row)
        if len(page) < PAGE:
            return
        before = page[-1].execution_id


def _of_head(log: Log) -> Iterator[Found]:
    """The row that lists are read from says the same as the log: how far it is, and whether it has ended."""
    execution = log.execution
    if log.last_seq < execution.seq:
        message = f"{execution.seq} facts were recorded, and the log has {log.last_seq}"
        yield Found(execution_id=log.id, seq=log.last_seq, code="head", message=message)
        return
    last = next((event.fact for event in events_of(log.rows, after=execution.seq - 1)), None)
    ended = last.status if isinstance(last, Processed) else None
    if ended != (None if execution.status in LIVE else execution.status):
        message = f"it is listed as {execution.status}, and its log ends with {_named(last)}"
        yield Found(execution_id=log.id, seq=execution.seq, code="head", message=message)


def _named(fact: object) -> str:
    return f"playbook.processed {fact.status}" if isinstance(fact, Processed) else "another fact"


async def _of_playbook(disk: Shelf, execution: Execution) -> AsyncIterator[Found]:
    """The text that it runs is there, and is the one that it began with."""
    try:
        text = (await disk.catalog.get(execution.digest)).text
    except NotFound as error:
        message = str(error)
    else:
        if hashlib.sha256(text.encode()).hexdigest() == execution.digest:
            return
        message = f"the text of {execution.path} is not the one with the digest {execution.digest}"
    yield Found(execution_id=execution.execution_id, seq=1, code="playbook", message=message)


async def _results(disk: Shelf, log: Log, audit: Audit) -> None:
    """Every result that the log refers to is there, byte for byte."""
    seen: set[str] = set()
    for seq, ref in _refs(log.events()):
        key = str(ref["locator"]["key"])
        if key in seen:
            continue
        if len(seen) < KEYS_MAX:
            seen.add(key)
        audit.results += 1
        try:
            await disk.results.get(ref)
        except (NotFound, Damaged) as error:
            audit.findings.append(Found(execution_id=log.id, seq=seq, code="result", message=str(error)))


def _refs(events: Iterable[Event]) -> Iterator[tuple[int, dict[str, JSON]]]:
    """What facts say of the result store; what authors write into values of their own is their affair."""
    for event in events:
        output = getattr(event.fact, "output", None)
        refs: list[JSON] = [
            output.ref if isinstance(output, Output) else None,
            getattr(event.fact, "ref", None),
        ]
        for ref in refs:
            match ref:
                case {"locator": {"key": str()}}:
                    yield event.seq, ref


def _of_file(disk: Shelf) -> Iterator[Found]:
    for (said,) in disk.database.fetch("PRAGMA quick_check"):
        if said != "ok":
            yield Found(execution_id=None, seq=0, code="database", message=str(said))


def _told(audit: Audit) -> Iterator[list[Styled]]:
    before: str | None = None
    for each in audit.findings:
        if each.execution_id != before:
            before = each.execution_id
            yield [Styled(before or "the database", "strong")]
        yield [
            Styled(f"  {each.seq}: ", "faint"),
            Styled(each.code, "error"),
            Styled(f": {each.message}"),
        ]
    looked = ", ".join(
        (count(audit.executions, "execution"), count(audit.facts, "fact"), count(audit.results, "result"))
    )
    if audit.findings:
        yield [Styled(f"{looked}: "), Styled(count(len(audit.findings), "finding"), "error")]
    else:
        yield [Styled(f"{looked}: "), Styled("no findings", "good")]
