"""Progress of an execution and its children, from its facts as they are committed: rows and lines, and views of them.

A fact costs little, because loops produce hundreds of thousands; a view draws a few times a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from noetl.cli.output.screen import Screen, duration, short
from noetl.clock import Clock
from noetl.engine import Event, facts
from noetl.engine.facts import Fact, ForChild, ForDebugger, ForDocument, ForPermit, ForSignal, ForTime, Until
from noetl.engine.state import Run
from noetl.escape import one_line, shorten, visible
from noetl.ids import frame_parts, run_id
from noetl.net.describe import count
from noetl.output import Failure
from noetl.session.protocol import WatchedExecution
from noetl.views.runs import held_words, lost_words, owner_of_list, permit_words
from noetl.views.styled_text import Style, Styled
from noetl.worker.frame_driver import LogLine

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


SAMPLES = 32  # of a loop, from which its rate is computed
PENDING_MAX = 2_000  # lines between two drawings; more are counted and not shown
MESSAGE_MAX = 160  # characters of an error in a line


class Row(Struct, kw_only=True):
    """A run that has not ended, as a row on the screen."""

    execution_id: str
    id: str
    step: str
    depth: int  # of its execution below the followed one, plus one per block
    scheduled_at: datetime
    announced: bool = False  # its start was shown
    total: int | None = None  # iterations, of a loop
    done: int = 0  # ended iterations, failed ones included
    failed: int = 0
    retries: int = 0  # including its blocks
    caller: Row | None = None  # of a block: its caller
    inside: int = 0  # of nested loops: ended iterations of the innermost
    note: str = ""  # progress, or what happens between two attempts
    waits: str = ""
    task: str = ""  # the running task, if it takes long and the run is not a loop
    samples: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def rate(self) -> float | None:
        """Recent iterations per second; None: not known yet."""
        if len(self.samples) < 2:
            return None
        (then, before), (now, done) = self.samples[0], self.samples[-1]
        return (done - before) / (now - then) if now > then and done > before else None

    def callers(self) -> Iterator[Row]:
        """Its caller, the caller of that, and so on."""
        row = self
        while row.caller is not None:
            yield (row := row.caller)

    def end_iteration(self) -> None:
        self.done += 1
        owner = owner_of_list(self.step) if self.caller is not None else None
        for row in self.callers() if owner is not None else ():
            row.inside += 1
            if row.step == owner:
                break


def row_name(row: Row) -> str:
    """A step by its name, its second run by its id."""
    return one_line(row.step if row.id == run_id(row.step, 1) else row.id)


def tally(row: Row) -> str:
    text = ""
    if row.total is not None:
        text += f"  {count(row.done, 'iteration')}"
    if row.failed:
        text += f", {row.failed:,} failed"
    if row.inside:
        text += f", {row.inside:,} inside"
    if row.retries:
        text += f"{',' if text else ' '} {row.retries:,} retried"
    return text


def loop_text(row: Row) -> str:
    """`1,200/10,000 iterations, 350/s, 3 failed`."""
    assert row.total is not None
    parts = [f"{min(row.done, row.total):,}/{row.total:,} iterations"]
    if row.rate is not None:
        parts.append(per_second(row.rate))
    if row.failed:
        parts.append(f"{row.failed:,} failed")
    if row.inside:
        parts.append(f"{row.inside:,} inside")
    if row.retries:
        parts.append(f"{row.retries:,} retried")
    if row.waits:
        parts.append(row.waits)
    return ", ".join(parts)


def per_second(rate: float) -> str:
    """`350/s`, `2.5/s`, `12.0/min`."""
    if rate >= 10:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 0.5 else f"{rate * 60:.1f}/min"


def failure_text(error: Failure) -> str:
    return shorten(one_line(f"{error.kind}: {error.message}"), MESSAGE_MAX)


def wait_text(id: str, until: Until, hint: str) -> str:
    """What it waits for, and the command that ends the wait."""
    match until:
        case ForTime(at=at):
            return f"waits until {at.astimezone().strftime('%Y-%m-%d %H:%M:%S %Z').strip()}"
        case ForSignal(name=name):
            # Quoted: a foreign playbook must not inject commands into the shell of a reader who copies this.
            line = one_line(name)
            return f'waits for the signal "{line}": noetl signal {short(id)} {quote(line)}{hint}'
        case ForChild(execution_id=child, path=path):
            return f"runs {one_line(path)} ({short(child)})"
        case ForDocument():
            return "the document that it made cannot run"
        case ForPermit(limit=limit, key=key):
            return f"waits {permit_words(limit, key)}"
        case ForDebugger():
            return f"waits {held_words(until)}: noetl debug {short(id)}{hint}"
    return "runs a block"


class Progress:
    """An observer of a session. Without `root` it follows the first execution that starts."""

    def __init__(self, root: str | None, clock: Clock, *, hint: str = "") -> None:
        self.root = root
        self.rows: dict[tuple[str, str], Row] = {}
        self.left_out = 0  # lines that were not shown
        self._clock = clock
        self.hint = hint  # of commands in hints
        self._lines: list[list[Styled]] = []
        self._done_lines: dict[str, list[Styled]] = {}  # of runs whose arcs are not evaluated yet
        self._routes = True  # arcs are evaluated right after a run is done
        self._depths: dict[str, int] = {}
        self._long: dict[tuple[str, str], Row] = {}  # frames in a call that takes long
        self._recount: list[str] = []  # runs whose counts are read from the state
        self._known: dict[type[Fact], Callable[[str, Any, datetime], None]] = {
            facts.Requested: self._requested, facts.StepWaiting: self._waiting,
            facts.PermitGranted: self._permitted, facts.StepScheduled: self._scheduled,
            facts.StepStarted: self._started, facts.LoopStarted: self._loop_started,
            facts.IterationDone: self._iteration_done, facts.IterationFailed: self._iteration_failed,
            facts.TaskStarted: self._task_started, facts.TaskDone: self._task_done, facts.FrameLost: self._lost,
            facts.FrameParked: self._parked, facts.FrameResumed: self._resumed, facts.HoldReleased: self._released,
            facts.StepDone: self._done, facts.LoopDone: self._done, facts.StepFailed: self._step_failed,
            facts.NextEvaluated: self._routed, facts.Paused: self._paused, facts.Cancelled: self._cancelled,
            facts.Compensating: self._compensating,
            facts.Finished: self._finished,
        }  # fmt: skip

    def watch(self, live: WatchedExecution, events: Sequence[Event]) -> None:
        id, known = live.id, self._known
        for event in events:
            if (see := known.get(type(event.fact))) is not None:
                see(id, event.fact, event.at)
        for name in self._recount:
            if (run := live.state.runs.get(name)) is not None and (id, name) in self.rows:
                self._count(self.rows[id, name], run)
        self._recount.clear()

    def seed(self, live: WatchedExecution) -> None:
        """Rows for what is already running."""
        at = live.state.at or self._clock.now()
        if live.state.parent is not None:
            self._add_child(live.id, live.state.parent)
        for run in live.state.runs.values():
            if run.output is None and (live.id, run.id) not in self.rows:
                self._add(live.id, run.id, run.step, parent=run.parent, at=run.scheduled_at or at)
                self._inherit(live.id, run)

    def _inherit(self, id: str, run: Run) -> None:
        self._count(self.rows[id, run.id], run)
        for frame in run.frames.values():
            if frame.parked is not None:
                self._wait(id, frame.id, frame.parked)
            elif frame.running is not None and run.loop is None:
                self.rows[id, run.id].task = one_line(frame.running.task)
                self._long[id, frame.id] = self.rows[id, run.id]

    def _count(self, row: Row, run: Run) -> None:
        """A retried loop starts with the iterations that succeeded before (D69)."""
        if run.loop is not None:
            row.total, row.done = run.loop.count, run.loop.succeeded + run.loop.failed
            row.failed = run.loop.failed

    # Read by views

    def sample(self) -> None:
        """Note how far loops are: their rate is computed from one sample to the next."""
        now = self._clock.monotonic()
        for row in self.rows.values():
            if row.total is not None:
                row.samples.append((now, row.done))
                if len(row.samples) > SAMPLES:
                    row.samples.popleft()

    def lines(self, *, last: bool = False) -> list[list[Styled]]:
        """New lines since the last call. `last`: no more will come."""
        if last:
            self._flush_done()
        lines, self._lines = self._lines, []
        return lines

    def running(self) -> Iterator[Row]:
        """Runs of the followed execution whose start was not announced yet; they are now."""
        for row in self.rows.values():
            if not row.announced and row.depth == 0:
                row.announced = True
                yield row

    def hear(self, said: LogLine) -> None:
        """Output of a tool: a separate line, or a note at the row of its step."""
        row = self.rows.get((said.execution_id, frame_parts(said.frame)[0]))
        if said.kind == "progress":
            if row is not None:
                row.note = said.text
        else:
            name = row_name(row) if row is not None else said.frame
            self._add_line(Styled("  ", "faint"), Styled(name, "name"), Styled(f"  {one_line(said.text)}", "faint"))

    def wait(self, run: str, words: str) -> None:
        """A run waits for something that no fact shows, such as a worker; shown once."""
        row = self.rows.get((self.root or "", run))
        if row is not None and not row.waits:
            row.waits, row.announced = words, True
            self._add_line(Styled("… ", "info"), Styled(row_name(row), "name"), Styled(f"  {one_line(words)}"))

    def warn(self, text: str) -> None:
        """Another line, in order with the others."""
        self._add_line(Styled(text, "warning"))

    def _add_line(self, *pieces: Styled) -> None:
        if len(self._lines) < PENDING_MAX:
            self._lines.append(list(pieces))
        else:
            self.left_out += 1

    # Facts

    def _requested(self, id: str, fact: facts.Requested, _at: datetime) -> None:
        if fact.parent is not None:
            self._add_child(id, fact.parent)
            return
        if self.root is None:
            self.root = id
        if id == self.root:
            self._add_line(Styled(id, "faint"))  # now that it is logged

    def _add_child(self, id: str, parent: str) -> None:
        self._depths[id] = self._depths.get(parent.partition("/")[0], 0) + 1

    def _scheduled(self, id: str, fact: facts.StepScheduled, at: datetime) -> None:
        self._add(id, fact.run, fact.step, parent=fact.parent, at=at)
        if fact.hold is not None:
            self._wait(id, fact.run, fact.hold)
        if fact.retry_of is not None:
            self._recount.append(fact.run)

    def _add(self, id: str, run: str, step: str, *, parent: str | None, at: datetime) -> None:
        depth = self._depths.get(id, 0)
        caller = None
        if parent is not None:
            caller = self.rows.get((id, frame_parts(parent)[0]))
            depth = caller.depth + 1 if caller else depth + 1
        self.rows[id, run] = Row(execution_id=id, id=run, step=step, depth=depth, scheduled_at=at, caller=caller)

    def _started(self, id: str, fact: facts.StepStarted, _at: datetime) -> None:
        if (row := self.rows.get((id, fact.run))) is not None:
            row.waits = ""

    def _loop_started(self, _id: str, fact: facts.LoopStarted, _at: datetime) -> None:
        self._recount.append(fact.run)

    def _iteration_done(self, id: str, fact: facts.IterationDone, _at: datetime) -> None:
        if (row := self.rows.get((id, fact.run))) is not None:
            row.end_iteration()

    def _iteration_failed(self, id: str, fact: facts.IterationFailed, _at: datetime) -> None:
        if (row := self.rows.get((id, fact.run))) is not None:
            row.end_iteration()
            row.failed += 1

    def _task_started(self, id: str, fact: facts.TaskStarted, at: datetime) -> None:
        del at
        row = self.rows.get((id, frame_parts(fact.frame)[0]))
        if row is not None and row.total is None:
            row.task, row.waits = one_line(fact.task), ""
            self._long[id, fact.frame] = row

    def _lost(self, id: str, fact: facts.FrameLost, at: datetime) -> None:
        del at
        self._end_call(id, fact.frame)
        row = self.rows.get((id, frame_parts(fact.frame)[0]))
        if row is not None and row.depth == 0:
            self._add_line(
                Styled("! ", "warning"), Styled(row_name(row), "name"), Styled(f"  {one_line(lost_words(fact))}")
            )

    def _end_call(self, id: str, frame: str) -> None:
        if self._long and (row := self._long.pop((id, frame), None)) is not None:
            row.task = ""

    def _task_done(self, id: str, fact: facts.TaskDone, at: datetime) -> None:
        self._end_call(id, fact.frame)
        again = fact.repeats
        if not again and fact.attempt == 1:
            return  # the usual case
        row = self.rows.get((id, frame_parts(fact.frame)[0]))
        if row is None:
            return
        row.note = ""
        for each in (row, *row.callers()):
            each.retries += again
        if fact.directive != "retry":
            return
        wait = max(0.0, (fact.until - at).total_seconds()) if fact.until is not None else 0.0
        row.note = f"attempt {fact.attempt + 1}" + (f" in {duration(wait)}" if wait >= 0.1 else "")
        if row.total is None and row.depth == 0:
            error = fact.output.error if fact.output is not None else None
            words = f": {failure_text(error)}" if error is not None else ""
            self._add_line(Styled("↻ ", "warning"), Styled(row_name(row), "name"), Styled(f"  {row.note}{words}"))

    def _parked(self, id: str, fact: facts.FrameParked, _at: datetime) -> None:
        self._wait(id, fact.frame, fact.until)

    def _wait(self, id: str, frame: str, until: Until) -> None:
        """Of iterations and children only waits for a person are shown: for a signal, or for the debugger."""
        row = self.rows.get((id, frame_parts(frame)[0]))
        awaited = isinstance(until, ForSignal | ForDebugger)
        if row is None or (row.total is not None and not awaited):
            return
        words = wait_text(id, until, self.hint)
        quiet = isinstance(until, ForPermit)  # most are granted at once
        if words != row.waits and not quiet and (awaited or row.depth == 0):  # once, not for each iteration
            row.announced = True
            self._add_line(Styled("… ", "info"), Styled(row_name(row), "name"), Styled(f"  {words}"))
        row.waits = words

    def _waiting(self, id: str, fact: facts.StepWaiting, _at: datetime) -> None:
        """A limit that other executions share. A step asks for its permit each time, and mostly gets it at once."""
        if fact.limit is None:
            return
        words = f"waits {permit_words(fact.limit, fact.key)}"
        if fact.run is None:
            self._add_line(Styled("… ", "info"), Styled(words))
        elif (row := self.rows.get((id, fact.run))) is not None:
            row.waits = words

    def _permitted(self, id: str, fact: facts.PermitGranted, _at: datetime) -> None:
        if fact.run is not None and (row := self.rows.get((id, fact.run))) is not None:
            row.waits = ""

    def _resumed(self, id: str, fact: facts.FrameResumed, _at: datetime) -> None:
        if (row := self.rows.get((id, frame_parts(fact.frame)[0]))) is not None:
            row.waits = row.note = ""

    def _released(self, id: str, fact: facts.HoldReleased, _at: datetime) -> None:
        if (row := self.rows.get((id, frame_parts(fact.at)[0]))) is not None:
            row.waits = row.note = ""

    def _done(self, id: str, fact: facts.StepDone | facts.LoopDone, at: datetime) -> None:
        if (row := self.rows.pop((id, fact.run), None)) is not None and row.depth == 0:
            time = Styled(f"  {duration((at - row.scheduled_at).total_seconds())}", "faint")
            line = [Styled("✓ ", "good"), Styled(row_name(row), "name"), time, Styled(tally(row))]
            if self._routes:
                self._done_lines[fact.run] = line
            else:
                self._add_line(*line)

    def _flush_done(self) -> None:
        for line in self._done_lines.values():
            self._add_line(*line)
        self._done_lines.clear()

    def _step_failed(self, id: str, fact: facts.StepFailed, _at: datetime) -> None:
        row = self.rows.pop((id, fact.run), None) if fact.run is not None else None
        if row is not None and row.depth > 0:
            return
        words = Styled(f"  {failure_text(fact.error)}")
        if row is not None:
            self._add_line(Styled("✗ ", "error"), Styled(row_name(row), "name"), words, Styled(tally(row)))
        elif id == self.root:
            self._add_line(Styled("✗ ", "error"), words)

    def _routed(self, id: str, fact: facts.NextEvaluated, _at: datetime) -> None:
        """A run succeeded only now: its `set` and arcs may have failed to evaluate (D16)."""
        line = self._done_lines.pop(fact.run, None) if id == self.root else None
        if fact.error is not None and id == self.root:
            words = Styled(f"  {failure_text(fact.error)}")
            self._add_line(Styled("✗ ", "error"), Styled(frame_parts(fact.run)[0].partition("#")[0], "name"), words)
        elif line is not None:
            self._add_line(*line)

    def _paused(self, id: str, _fact: facts.Paused, _at: datetime) -> None:
        if id == self.root:
            self._stop_routing()
            self._add_line(Styled("pausing: running calls finish first", "warning"))

    def _cancelled(self, id: str, fact: facts.Cancelled, _at: datetime) -> None:
        if id == self.root:
            self._stop_routing()
            why = f" ({one_line(fact.reason)})" if fact.reason else ""
            self._add_line(Styled(f"cancelling{why}: running calls have 10 s", "warning"))

    def _compensating(self, id: str, fact: facts.Compensating, at: datetime) -> None:
        self._finished(id, fact, at)  # What still ran is stopped.
        if id == self.root:
            self._stop_routing()
            self._add_line(Styled("↩ ", "warning"), Styled(f"undoes {', '.join(map(one_line, fact.runs))}", "warning"))

    def _stop_routing(self) -> None:
        self._flush_done()
        self._routes = False

    def _finished(self, id: str, _fact: facts.Finished | facts.Compensating, _at: datetime) -> None:
        if id == self.root:
            self._flush_done()
        for known in (self.rows, self._long):
            for key in [key for key in known if key[0] == id]:
                del known[key]


# Views: plain lines for pipes and logs; on a terminal rows with bars, drawn by rich


DRAW_S = 0.2
LOOP_LINE_S = 1.0  # at least, between two plain lines about the same loop
ROWS_MAX = 12
BAR_COLUMNS = 24
_RICH: dict[Style, str] = {
    "good": "green", "error": "bold red", "warning": "yellow", "info": "blue", "name": "bold", "faint": "dim",
}  # fmt: skip


class ProgressView(Protocol):
    def draw(self) -> None: ...

    def close(self) -> None: ...


class PlainView:
    """A line for each step that starts, ends, fails or waits; one per second for a loop."""

    def __init__(self, progress: Progress, screen: Screen, clock: Clock) -> None:
        self._progress = progress
        self._screen = screen
        self._clock = clock
        self._loops: dict[tuple[str, str], tuple[float, int]] = {}  # row → when its last line was, and how far it was

    def draw(self) -> None:
        self._progress.sample()
        self._screen.lines(self._progress.lines())
        for row in self._progress.running():
            self._screen.line("▶ ", row_name(row))
        now = self._clock.monotonic()
        for key, row in self._progress.rows.items():
            if row.total is None or row.depth > 0:
                continue
            shown_at, shown = self._loops.get(key, (0.0, -1))
            if key not in self._loops:
                self._loops[key] = (now, row.done)
            elif now - shown_at >= LOOP_LINE_S and row.done != shown:
                self._loops[key] = (now, row.done)
                self._screen.line("  ", f"{row_name(row)}  {loop_text(row)}")
        self._screen.stream.flush()

    def close(self) -> None:
        """Runs that are still open get no line about their start."""
        self._screen.lines(self._progress.lines(last=True))
        if self._progress.left_out:
            see = f"noetl events {short(self._progress.root or '')}{self._progress.hint}"
            self._screen.line(f"… {self._progress.left_out:,} more lines; see {see}")
        self._screen.stream.flush()


class LiveView:
    """Rows that are redrawn in place; lines about ended runs scroll above them."""

    def __init__(self, progress: Progress, screen: Screen, clock: Clock) -> None:
        from rich.console import Console
        from rich.live import Live

        self._progress = progress
        self._clock = clock
        console = Console(file=screen.stream, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def draw(self) -> None:
        self._progress.sample()
        self._scroll()
        self._live.update(self._rows(), refresh=True)

    def close(self) -> None:
        self._scroll(last=True)
        self._live.stop()

    def _scroll(self, *, last: bool = False) -> None:
        for line in self._progress.lines(last=last):
            self._live.console.print(_text(line), soft_wrap=True)

    def _rows(self) -> Table:
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        rows = list(self._progress.rows.values())
        import shutil

        room = max(1, min(ROWS_MAX, shutil.get_terminal_size().lines - 4))
        for row in rows[:room]:
            table.add_row(*self._cells(row))
        if len(rows) > room:
            table.add_row(_text([Styled(f"… and {len(rows) - room:,} more", "faint")]))
        return table

    def _cells(self, row: Row) -> list[Text]:
        name = _text([Styled(f"{'  ' * row.depth}● ", "info"), Styled(row_name(row), "name")])
        if row.total is None:
            return [name, _text([Styled(row.waits or row.note or f"running {row.task}".rstrip())])]
        bar = _bar(row.done, row.total)
        text = loop_text(row)
        if row.rate is not None and row.total > row.done:
            text += f", {duration((row.total - row.done) / row.rate)} left"
        return [name, _text([Styled(bar, "good"), Styled(f"  {text}")])]


def _bar(done: int, total: int) -> str:
    full = BAR_COLUMNS * min(done, total) // total if total else BAR_COLUMNS
    return "━" * full + "╌" * (BAR_COLUMNS - full)


def _text(pieces: list[Styled]) -> Text:
    from rich.text import Text

    return Text.assemble(*((visible(piece.text), _RICH.get(piece.style, "")) for piece in pieces))


@asynccontextmanager
async def drawn(progress: Progress, screen: Screen, clock: Clock) -> AsyncIterator[None]:
    """Draw the progress while the body runs."""
    view: ProgressView = LiveView(progress, screen, clock) if screen.colour else PlainView(progress, screen, clock)
    drawing = asyncio.ensure_future(_draw(view, clock))
    try:
        yield
    finally:
        drawing.cancel()
        closed = isinstance((await asyncio.gather(drawing, return_exceptions=True))[0], OSError)
        if not closed:
            view.close()


async def _draw(view: ProgressView, clock: Clock) -> None:
    """A closed output stops only the drawing; the execution continues."""
    while True:
        await clock.sleep(DRAW_S)
        view.draw()
