"""What is going on in an execution and its children, from the facts as they are committed: rows and lines.

It is cheap per fact, since loops make hundreds of thousands; whoever shows it looks a few times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from noetl.cli.rows import Row, failure_words, shown, tally, waits_words
from noetl.cli.times import duration
from noetl.clock import Clock
from noetl.engine import Event, facts
from noetl.engine.facts import Fact, ForSignal, Until
from noetl.engine.state import Run, State
from noetl.escape import one_line
from noetl.ids import frame_parts
from noetl.views.styled_text import Styled
from noetl.worker.frame_driver import LogLine

SAMPLES = 32  # looks at a loop, from which its rate is counted
PENDING_MAX = 2_000  # lines between two looks; more are counted and not shown


class Watched(Protocol):
    """An execution, as far as it matters here."""

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> State: ...


class Progress:
    """Fed by the watchers of a house."""

    def __init__(self, root: str, clock: Clock, *, flag: str = "") -> None:
        self.root = root
        self.rows: dict[tuple[str, str], Row] = {}
        self.left_out = 0  # lines that nobody has seen
        self._clock = clock
        self.flag = flag  # what commands in hints carry
        self._lines: list[list[Styled]] = []
        self._done_lines: dict[str, list[Styled]] = {}  # of runs that are done, and not routed yet
        self._routes = True  # what is done is routed at once
        self._depths = {root: 0}
        self._recount: list[str] = []  # runs whose counts are to be taken from the state
        self._known: dict[type[Fact], Callable[[str, Event], None]] = {
            facts.Requested: self._requested,
            facts.StepScheduled: self._scheduled,
            facts.StepStarted: self._started,
            facts.LoopStarted: self._loop_started,
            facts.IterationDone: self._iteration_done,
            facts.IterationFailed: self._iteration_failed,
            facts.TaskDone: self._task_done,
            facts.FrameParked: self._parked,
            facts.FrameResumed: self._resumed,
            facts.StepDone: self._done,
            facts.LoopDone: self._done,
            facts.StepFailed: self._step_failed,
            facts.NextEvaluated: self._routed,
            facts.Paused: self._paused,
            facts.Cancelled: self._cancelled,
            facts.Finished: self._finished,
        }

    def watch(self, live: Watched, events: Sequence[Event]) -> None:
        id, known = live.id, self._known
        for event in events:
            if (see := known.get(type(event.fact))) is not None:
                see(id, event)
        for name in self._recount:
            if (run := live.state.runs.get(name)) is not None and (id, name) in self.rows:
                self._count(self.rows[id, name], run)
        self._recount.clear()

    def seed(self, live: Watched) -> None:
        """What already runs when we begin to look."""
        at = live.state.at or self._clock.now()
        if live.state.parent is not None:
            self._below(live.id, live.state.parent)
        for run in live.state.runs.values():
            if run.output is None and (live.id, run.id) not in self.rows:
                self._add(live.id, run.id, run.step, parent=run.parent, at=run.scheduled_at or at)
                self._inherit(live.id, run)

    def _inherit(self, id: str, run: Run) -> None:
        self._count(self.rows[id, run.id], run)
        for frame in run.frames.values():
            if frame.parked is not None:
                self._wait(id, frame.id, frame.parked)

    def _count(self, row: Row, run: Run) -> None:
        """A loop may begin with what another run has done (D69)."""
        if run.loop is not None:
            row.total, row.done = run.loop.count, run.loop.succeeded + run.loop.failed
            row.failed = run.loop.failed

    # What is shown

    def look(self) -> None:
        """Notice how far loops are: their rate is counted from one look to another."""
        now = self._clock.monotonic()
        for row in self.rows.values():
            if row.total is not None:
                row.samples.append((now, row.done))
                if len(row.samples) > SAMPLES:
                    row.samples.popleft()

    def lines(self, *, last: bool = False) -> list[list[Styled]]:
        """What there is to tell since the last time. `last`: nothing comes any more."""
        if last:
            self._tell_done()
        lines, self._lines = self._lines, []
        return lines

    def running(self) -> Iterator[Row]:
        """Runs of steps of the execution itself whose start was not told yet; it is now."""
        for row in self.rows.values():
            if not row.told and row.depth == 0:
                row.told = True
                yield row

    def hear(self, said: LogLine) -> None:
        """What a tool says while it works: a line of its own, or a word at the step that it belongs to."""
        row = self.rows.get((said.execution_id, frame_parts(said.frame)[0]))
        if said.kind == "progress":
            if row is not None:
                row.note = said.text
        else:
            name = shown(row) if row is not None else said.frame
            self._tell(
                Styled("  ", "faint"),
                Styled(name, "name"),
                Styled(f"  {one_line(said.text)}", "faint"),
            )

    def wait(self, run: str, words: str) -> None:
        """A run of the execution itself waits for what no fact tells of; it is said once."""
        row = self.rows.get((self.root, run))
        if row is not None and not row.waits:
            row.waits, row.told = words, True
            self._tell(
                Styled("… ", "info"),
                Styled(shown(row), "name"),
                Styled(f"  {one_line(words)}"),
            )

    def say(self, words: str) -> None:
        """A line of another's, between ours."""
        self._tell(Styled(words, "warning"))

    def _tell(self, *pieces: Styled) -> None:
        if len(self._lines) < PENDING_MAX:
            self._lines.append(list(pieces))
        else:
            self.left_out += 1

    # What the facts say

    def _requested(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.Requested)
        if fact.parent is not None:
            self._below(id, fact.parent)
        elif id == self.root:
            self._tell(Styled(id, "faint"))  # now that it is on record

    def _below(self, id: str, parent: str) -> None:
        self._depths[id] = self._depths.get(parent.partition("/")[0], 0) + 1

    def _scheduled(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.StepScheduled)
        self._add(id, fact.run, fact.step, parent=fact.parent, at=event.at)
        if fact.retry_of is not None:
            self._recount.append(fact.run)

    def _add(self, id: str, run: str, step: str, *, parent: str | None, at: datetime) -> None:
        depth = self._depths.get(id, 0)
        caller = None
        if parent is not None:
            caller = self.rows.get((id, frame_parts(parent)[0]))
            depth = caller.depth + 1 if caller else depth + 1
        self.rows[id, run] = Row(
            execution_id=id, id=run, step=step, depth=depth, scheduled_at=at, caller=caller
        )

    def _started(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.StepStarted)
        if (row := self.rows.get((id, fact.run))) is not None:
            row.waits = ""

    def _loop_started(self, id: str, event: Event) -> None:
        del id
        fact = event.fact
        assert isinstance(fact, facts.LoopStarted)
        self._recount.append(fact.run)

    def _iteration_done(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.IterationDone)
        if (row := self.rows.get((id, fact.run))) is not None:
            row.end_iteration()

    def _iteration_failed(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.IterationFailed)
        if (row := self.rows.get((id, fact.run))) is not None:
            row.end_iteration()
            row.failed += 1

    def _task_done(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.TaskDone)
        if fact.directive != "retry" and fact.attempt == 1:
            return  # nearly always
        row = self.rows.get((id, frame_parts(fact.frame)[0]))
        if row is None:
            return
        row.note = ""
        if fact.directive != "retry":
            return
        for each in (row, *row.around()):
            each.retries += 1
        wait = max(0.0, (fact.until - event.at).total_seconds()) if fact.until is not None else 0.0
        row.note = f"attempt {fact.attempt + 1}" + (f" in {duration(wait)}" if wait >= 0.1 else "")
        if row.total is None and row.depth == 0:
            error = fact.output.error if fact.output is not None else None
            words = f": {failure_words(error)}" if error is not None else ""
            self._tell(
                Styled("↻ ", "warning"),
                Styled(shown(row), "name"),
                Styled(f"  {row.note}{words}"),
            )

    def _parked(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.FrameParked)
        self._wait(id, fact.frame, fact.until)

    def _wait(self, id: str, frame: str, until: Until) -> None:
        """Of iterations and of children only waits for a signal are told: someone must send it."""
        row = self.rows.get((id, frame_parts(frame)[0]))
        awaited = isinstance(until, ForSignal)
        if row is None or (row.total is not None and not awaited):
            return
        words = waits_words(id, until, self.flag)
        if words != row.waits and (awaited or row.depth == 0):  # not once for each iteration
            row.told = True
            self._tell(Styled("… ", "info"), Styled(shown(row), "name"), Styled(f"  {words}"))
        row.waits = words

    def _resumed(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.FrameResumed)
        if (row := self.rows.get((id, frame_parts(fact.frame)[0]))) is not None:
            row.waits = row.note = ""

    def _done(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.StepDone | facts.LoopDone)
        if (row := self.rows.pop((id, fact.run), None)) is not None and row.depth == 0:
            time = Styled(f"  {duration((event.at - row.scheduled_at).total_seconds())}", "faint")
            line = [Styled("✓ ", "good"), Styled(shown(row), "name"), time, Styled(tally(row))]
            if self._routes:
                self._done_lines[fact.run] = line
            else:
                self._tell(*line)

    def _tell_done(self) -> None:
        for line in self._done_lines.values():
            self._tell(*line)
        self._done_lines.clear()

    def _step_failed(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.StepFailed)
        row = self.rows.pop((id, fact.run), None) if fact.run is not None else None
        if row is not None and row.depth > 0:
            return
        words = Styled(f"  {failure_words(fact.error)}")
        if row is not None:
            self._tell(Styled("✗ ", "error"), Styled(shown(row), "name"), words, Styled(tally(row)))
        elif id == self.root:
            self._tell(Styled("✗ ", "error"), words)

    def _routed(self, id: str, event: Event) -> None:
        """What was done is well only now: its `set` or arcs may be such that can not be evaluated (D16)."""
        fact = event.fact
        assert isinstance(fact, facts.NextEvaluated)
        line = self._done_lines.pop(fact.run, None) if id == self.root else None
        if fact.error is not None and id == self.root:
            words = Styled(f"  {failure_words(fact.error)}")
            self._tell(
                Styled("✗ ", "error"),
                Styled(frame_parts(fact.run)[0].partition("#")[0], "name"),
                words,
            )
        elif line is not None:
            self._tell(*line)

    def _paused(self, id: str, event: Event) -> None:
        del event
        if id == self.root:
            self._stop_routing()
            self._tell(Styled("pausing: what runs comes to an end first", "warning"))

    def _cancelled(self, id: str, event: Event) -> None:
        fact = event.fact
        assert isinstance(fact, facts.Cancelled)
        if id == self.root:
            self._stop_routing()
            why = f" ({one_line(fact.reason)})" if fact.reason else ""
            self._tell(Styled(f"cancelling{why}: calls that run have 10 s", "warning"))

    def _stop_routing(self) -> None:
        self._tell_done()
        self._routes = False

    def _finished(self, id: str, event: Event) -> None:
        del event
        if id == self.root:
            self._tell_done()
        for key in [key for key in self.rows if key[0] == id]:
            del self.rows[key]
