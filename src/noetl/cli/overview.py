"""`noetl show`: an execution as a tree with times: what ran, what it gave, what waits and for what."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from noetl.cli.choices import FormatChoice
from noetl.cli.encoded import as_document, as_lines
from noetl.cli.exits import OK
from noetl.cli.failing import cure, did_not_begin, printed_lines
from noetl.cli.finding import pasted, short
from noetl.cli.looking import (
    STYLES,
    Execution,
    Log,
    Shelf,
    execution_of,
    log_of,
    opened,
    screen_for,
)
from noetl.cli.overview_called import called_lines
from noetl.cli.times import ago, duration
from noetl.errors import NotFound
from noetl.escape import one_line, shorten, width
from noetl.net.describe import count
from noetl.output import Failure
from noetl.views.documents import (
    ErrorDocument,
    IterationCounts,
    OutputDocument,
    ShowDocument,
    StepDocument,
    read_runs,
    show_document,
)
from noetl.views.log import readable
from noetl.views.styled_text import Styled, TreeBranch, branches

if TYPE_CHECKING:
    from noetl.client import Client

MARKS = {
    "ok": "✓", "error": "✗", "running": "▸", "scheduled": "·", "waiting": "◌",
    "cancelled": "⊘", "stopped": "⊘",
}  # fmt: skip
STEPS_SHOWN = 100  # at the beginning, and as many at the end
CHILDREN_SHOWN = 50  # executions that are opened below the steps that called them
OUTPUT_LINES = 20
TRACEBACK_LINES = 15
MESSAGE_CHARS = 400
NAME_COLUMNS = 40  # names are padded up to there, so that times stand below each other


def run_show(given: str, form: FormatChoice, db: str | None) -> int:
    with opened(db) as disk:
        return asyncio.run(_show(disk, given, form))


async def _show(disk: Shelf, given: str, form: FormatChoice) -> int:
    log = await log_of(disk, given)
    now = disk.database.clock.now()
    document = await _document(disk, log, now)
    if form == "json":
        sys.stdout.write(as_document(document))
        return OK
    family = _Family(disk, now, disk.flag)
    await family.open(document)
    screen = screen_for(form)
    screen.lines(_told(log.execution, document, family, screen.columns))
    screen.lines([line async for line in called_lines(disk, log, family.children)])
    screen.lines(_ending(log, document, family.flag))
    return OK


def document_of(log: Log, now: datetime) -> ShowDocument:
    """Raises Damaged when the log can not be folded."""
    with readable(log.id):
        # What nobody runs does not go on: its time stands still.
        until = now if log.execution.owner_alive else None
        return show_document(read_runs(log.id, log.events()), until)


@runtime_checkable
class _Server(Protocol):
    """A shelf that stands at a server."""

    @property
    def client(self) -> Client: ...


async def _document(disk: Shelf, log: Log, now: datetime) -> ShowDocument:
    """A server knows more of what goes on than its log: whether there is a worker for what is due."""
    if isinstance(disk, _Server) and log.execution.live:
        return await disk.client.show(log.id)
    return document_of(log, now)


class _Family:
    """The executions that steps have called, and those that these have called."""

    def __init__(self, disk: Shelf, now: datetime, flag: str) -> None:
        self._disk = disk
        self.now = now
        self.flag = flag  # what commands in hints carry
        self.children: dict[str, tuple[Execution, ShowDocument]] = {}

    async def open(self, document: ShowDocument) -> None:
        for step in _with_blocks(document.steps):
            if step.child is None or step.child in self.children or len(self.children) >= CHILDREN_SHOWN:
                continue
            try:
                execution = await execution_of(self._disk, step.child)
            except NotFound:
                continue  # It is being started.
            log = Log(execution, await self._disk.store.read(step.child))
            self.children[step.child] = execution, await _document(self._disk, log, self.now)
            await self.open(self.children[step.child][1])


def _with_blocks(steps: Sequence[StepDocument]) -> Iterator[StepDocument]:
    for step in steps:
        yield step
        yield from _with_blocks(step.blocks)


def _told(
    execution: Execution, document: ShowDocument, family: _Family, columns: int
) -> Iterator[list[Styled]]:
    yield [Styled(execution.execution_id, "strong"), Styled(f"  {execution.path}", "faint")]
    yield _headline(execution, document, family.now)
    yield from branches(list(_steps(document.steps, execution, family)), columns)


def _ending(log: Log, document: ShowDocument, flag: str) -> Iterator[list[Styled]]:
    """What came of it, and what to do next."""
    name = f"{short(log.id)}{flag}"
    if document.error is not None:
        yield from _error(document.error, flag)
        if did_not_begin(document):
            yield [Styled("it did not begin: mend that, and run it anew", "faint")]
    if document.output is not None and document.output.status == "ok":
        yield from _output(document.output, f"noetl output {name}")
    if log.execution.standing == "interrupted":
        yield [Styled(f"no process has it: go on with noetl resume {name}", "warning")]


def _headline(execution: Execution, document: ShowDocument, now: datetime) -> list[Styled]:
    standing = execution.standing
    verb = " for " if standing == "running" else " after "
    line = [Styled(standing, STYLES[standing]), Styled(f"{verb}{duration(document.duration_s)}")]
    started = f"{execution.started_at:%Y-%m-%d %H:%M:%S}Z"
    line.append(Styled(f", started {started} ({ago(execution.started_at, now)})", "faint"))
    if execution.live and execution.owner_alive and execution.pid is not None:
        line.append(Styled(f", in process {execution.pid}", "faint"))
    return line


def _steps(steps: Sequence[StepDocument], execution: Execution, family: _Family) -> Iterator[TreeBranch]:
    room = min(NAME_COLUMNS, max((width(one_line(step.id)) for step in steps), default=0))
    left_out = len(steps) - 2 * STEPS_SHOWN
    for number, step in enumerate(steps):
        if left_out > 0 and number == STEPS_SHOWN:
            yield TreeBranch((Styled(f"… {left_out:,} more, see --format json", "faint"),))
        if left_out <= 0 or not STEPS_SHOWN <= number < STEPS_SHOWN + left_out:
            yield _step(step, room, execution, family)


def _step(step: StepDocument, room: int, execution: Execution, family: _Family) -> TreeBranch:
    style = STYLES.get(step.status, "")
    name = one_line(step.id)
    line = [Styled(f"{MARKS.get(step.status, '?')} ", style), Styled(name, "name")]
    told = list(_figures(step, execution))
    if told:
        line.append(Styled(" " * max(0, room - width(name))))
        line += [Styled(f"  {figure.text}", figure.style) for figure in told]
    return TreeBranch(tuple(line), tuple(_below(step, execution, family)))


def _figures(step: StepDocument, execution: Execution) -> Iterator[Styled]:
    if step.duration_s is not None:
        yield Styled(duration(step.duration_s))
    if step.iterations is not None:
        yield _loop(step.iterations)
    if step.retries:
        yield Styled(f"{step.retries:,} {'retry' if step.retries == 1 else 'retries'}", "warning")
    if step.retry_of is not None:
        yield Styled(f"takes up {step.retry_of}", "faint")
    if step.handled:
        yield Styled("handled", "faint")
    if step.status in ("cancelled", "stopped", "scheduled"):
        yield Styled(step.status, "faint")
    if step.status == "waiting":
        yield Styled(f"a token to {one_line(step.step)}", "faint")
    if step.status == "running" and not execution.owner_alive and step.why is None:
        yield Styled("interrupted", "warning")


def _loop(loop: IterationCounts) -> Styled:
    said = f"{loop.succeeded:,} of {count(loop.count, 'iteration')}"
    said += f", {loop.failed:,} failed" if loop.failed else ""
    if (inside := loop.inside) is not None:
        said += f", {inside.succeeded:,} of {inside.count:,} inside"
        said += f", {inside.failed:,} failed" if inside.failed else ""
    return Styled(said, "warning" if loop.failed or (inside is not None and inside.failed) else "")


def _below(step: StepDocument, execution: Execution, family: _Family) -> Iterator[TreeBranch]:
    if step.error is not None:
        yield TreeBranch((Styled(_failure(step.error), "warning" if step.handled else "error"),))
    yield from _failures(step)
    if step.why is not None:
        yield TreeBranch((Styled(one_line(step.why), "info"),), tuple(_signal(step, execution, family.flag)))
    if step.child is not None:
        yield _child(step.child, family)
    yield from _steps(step.blocks, execution, family)
    if step.blocks_left_out:
        yield TreeBranch((Styled(f"… {count(step.blocks_left_out, 'call')} of blocks more", "faint"),))


def _failures(step: StepDocument) -> Iterator[TreeBranch]:
    """Of iterations; where one alone has failed its step, or blocks did, that is said elsewhere."""
    failed = step.iterations.failed if step.iterations is not None else 0
    if (failed == 1 and step.error is not None) or any(block.error is not None for block in step.blocks):
        return
    for each in step.failures:
        yield TreeBranch((Styled(f"[{each.index}] ", "name"), Styled(_failure(each.error), "warning")))
    if step.failures and failed > len(step.failures):
        yield TreeBranch((Styled(f"… {failed - len(step.failures):,} more that failed", "faint"),))


def _signal(step: StepDocument, execution: Execution, flag: str) -> Iterator[TreeBranch]:
    _, waits, name = (step.why or "").partition("waits for the signal ")
    if waits:
        words = f"noetl signal {short(execution.execution_id)} {quote(one_line(name))}{flag}"
        yield TreeBranch((Styled(words, "faint"),), whole=True)


def _child(id: str, family: _Family) -> TreeBranch:
    if id not in family.children:
        return TreeBranch((Styled(f"calls {id}", "faint"),))
    execution, document = family.children[id]
    standing = execution.standing
    line = (
        Styled(f"calls {one_line(execution.path)} ", "kind"),
        Styled(short(id), "name"),
        Styled(f"  {standing}", STYLES[standing]),
        Styled(f"  {duration(document.duration_s)}"),
    )
    return TreeBranch(line, tuple(_steps(document.steps, execution, family)))


def _failure(error: Failure | ErrorDocument) -> str:
    return shorten(f"{one_line(error.kind)}: {one_line(error.message)}", MESSAGE_CHARS)


def _error(error: ErrorDocument, flag: str) -> Iterator[list[Styled]]:
    yield []
    where = f" in {one_line(error.place)}" if error.place else ""
    yield [Styled(f"error{where}  ", "error"), Styled(pasted(_failure(error), flag))]
    traceback = error.details.get("traceback")
    if isinstance(traceback, str):
        for line in traceback.rstrip().splitlines()[-TRACEBACK_LINES:]:
            yield [Styled(f"  {line}", "faint")]
    for line in printed_lines(error):
        yield [Styled(line, "faint")]
    if (words := cure(error)) is not None:
        yield [Styled(words, "faint")]


def _output(output: OutputDocument, see: str) -> Iterator[list[Styled]]:
    if output.data is None:
        if isinstance(output.ref, dict):
            yield from (
                [],
                [Styled("output", "strong")],
                [Styled(f"  it is large: {see}", "faint")],
            )
        return
    yield []
    yield [Styled("output", "strong")]
    lines = as_lines(output.data)
    for line in lines[:OUTPUT_LINES]:
        yield [Styled(f"  {line}")]
    if len(lines) > OUTPUT_LINES:
        yield [Styled(f"  … {count(len(lines) - OUTPUT_LINES, 'line')} more: {see}", "faint")]
