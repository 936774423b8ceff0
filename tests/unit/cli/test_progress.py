"""The progress lines for facts as they arrive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from noetl.cli.output.progress import PENDING_MAX, Progress, loop_text, per_second
from noetl.control.live_execution import LiveExecution
from noetl.engine import Event, apply
from noetl.engine.facts import (
    Cancelled,
    Fact,
    Finished,
    ForChild,
    ForSignal,
    ForTime,
    FrameLost,
    FrameParked,
    FrameResumed,
    IterationDone,
    IterationFailed,
    LoopDone,
    LoopStarted,
    NextEvaluated,
    Paused,
    Requested,
    StepDone,
    StepFailed,
    StepScheduled,
    StepStarted,
    TaskDone,
    TaskStarted,
)
from noetl.engine.state import State
from noetl.output import Failure, Output
from noetl.testing import FakeClock
from tests.playbooks import checked

ROOT = "01a1df73-f57c-7914-bb45-80921dc2a2bb"
CHILD = "5f0c1df7-57c7-5914-8b45-80921dc2a2bb"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOT_YET = Failure(kind="http", message="503\nfrom far away")


class WatchedExecution:
    """A progress, and facts for it: each 0.5 s after the one before."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.progress = Progress(ROOT, self.clock)
        program = checked("workflow:\n- {step: start, tool: {kind: noop}}\n").program
        assert program is not None
        self.program = program._replace(digest="digest")
        self.seq = 0

    def see(self, *facts: Fact, id: str = ROOT) -> list[str]:
        """The lines that they make."""
        events = []
        for fact in facts:
            self.seq += 1
            events.append(Event(self.seq, AT + timedelta(seconds=self.seq / 2), fact))
        self.progress.watch(LiveExecution(id, self.program, 1, State(execution_id=id)), events)
        return self.lines()

    def lines(self) -> list[str]:
        return ["".join(piece.text for piece in line) for line in self.progress.lines()]

    def started(self) -> list[str]:
        return [row.id for row in self.progress.running()]


def scheduled(run: str, *, loop: bool = False, parent: str | None = None) -> StepScheduled:
    return StepScheduled(run=run, step=run.partition("#")[0], loop=loop, parent=parent)


def retried(frame: str, *, attempt: int, until: datetime | None = None) -> TaskDone:
    return TaskDone(
        frame=frame, call=attempt, task="ask", directive="retry", next=0, attempt=attempt, status="error",
        output=Output(status="error", error=NOT_YET), until=until,
    )  # fmt: skip


def test_a_step_that_ends_is_a_line_and_one_that_goes_on_is_told_once() -> None:
    watched = WatchedExecution()
    assert watched.see(scheduled("a#1"), scheduled("b#1")) == []
    assert watched.see(StepDone(run="a#1"), NextEvaluated(run="a#1")) == ["✓ a  1.00 s"]
    assert (watched.started(), watched.started()) == (["b#1"], [])
    assert watched.see(StepFailed(run="b#1", error=NOT_YET)) == ["✗ b  http: 503 from far away"]
    ended = StepDone(run="b#2"), NextEvaluated(run="b#2")
    assert watched.see(scheduled("b#2"), *ended) == ["✓ b#2  0.50 s"]


def test_a_step_that_was_done_and_could_not_be_routed_is_told_once() -> None:
    watched = WatchedExecution()
    assert watched.see(scheduled("a#1"), StepDone(run="a#1")) == []
    assert watched.see(NextEvaluated(run="a#1", error=NOT_YET)) == ["✗ a  http: 503 from far away"]
    assert watched.progress.lines(last=True) == []


def test_what_was_done_and_is_not_routed_is_told_when_it_is_paused_and_at_the_end() -> None:
    watched = WatchedExecution()
    pausing = "pausing: running calls finish first"
    assert watched.see(scheduled("a#1"), scheduled("b#1"), StepDone(run="a#1")) == []
    assert watched.see(Paused()) == ["✓ a  1.00 s", pausing]
    assert watched.see(StepDone(run="b#1")) == ["✓ b  1.50 s"]
    watched = WatchedExecution()
    watched.see(scheduled("a#1"), StepDone(run="a#1"))
    assert [line[1].text for line in watched.progress.lines(last=True)] == ["a"]


def test_a_run_that_no_worker_takes_says_so_once_and_until_one_begins_it() -> None:
    watched = WatchedExecution()
    watched.see(scheduled("a#1"))
    for _ in range(2):
        watched.progress.wait("a#1", "waits for a worker")
    watched.progress.wait("b#1", "it has ended meanwhile")
    assert (watched.lines(), watched.started()) == (["… a  waits for a worker"], [])
    watched.see(StepStarted(run="a#1"))
    assert watched.progress.rows[ROOT, "a#1"].waits == ""
    parked = watched.see(FrameParked(frame="a#1", call=1, until=ForSignal(name="go")))
    watched.progress.wait("a#1", "waits for the signal go")
    assert (len(parked), watched.lines()) == (1, []), "facts know more of that"


def test_admission_that_fails_has_no_run_and_is_told_all_the_same() -> None:
    assert WatchedExecution().see(StepFailed(error=NOT_YET)) == ["✗   http: 503 from far away"]


def test_retries_say_which_attempt_comes_when_and_why() -> None:
    watched = WatchedExecution()
    watched.see(scheduled("a#1"))
    until = AT + timedelta(seconds=2.5)
    assert watched.see(retried("a#1", attempt=1, until=until)) == ["↻ a  attempt 2 in 1.50 s: http: 503 from far away"]
    assert watched.see(retried("a#1", attempt=2)) == ["↻ a  attempt 3: http: 503 from far away"]
    done = TaskDone(frame="a#1", call=3, task="ask", directive="continue", next=-1, attempt=3)
    assert (watched.see(done), watched.progress.rows[ROOT, "a#1"].note) == ([], "")
    ended = StepDone(run="a#1"), NextEvaluated(run="a#1")
    assert watched.see(*ended) == ["✓ a  2.00 s  2 retried"]


def test_a_loop_is_counted_and_its_rate_comes_from_two_looks() -> None:
    watched = WatchedExecution()
    watched.see(scheduled("a#1", loop=True))
    row = watched.progress.rows[ROOT, "a#1"]
    row.total = 10_000
    watched.progress.sample()
    watched.see(*(IterationDone(run="a#1", index=index) for index in range(2_499)))
    assert watched.see(IterationFailed(run="a#1", index=2_499, error=NOT_YET), retried("a#1[9]", attempt=1)) == []
    watched.clock.advance(2)
    watched.progress.sample()
    assert loop_text(row) == "2,500/10,000 iterations, 1,250/s, 1 failed, 1 retried"
    lines = watched.see(LoopDone(run="a#1", output=Output()), NextEvaluated(run="a#1"))
    assert lines[0].endswith("  2,500 iterations, 1 failed, 1 retried")


def test_a_run_that_is_found_running_begins_with_what_its_loop_has_done() -> None:
    """D69."""
    watched = WatchedExecution()
    live = LiveExecution(ROOT, watched.program, 1, State(execution_id=ROOT))
    begun = (
        scheduled("a#1", loop=True),
        LoopStarted(run="a#1", count=3, items=[1, 2, 3], width=3, parallel=True),
    )
    for fact in begun:
        apply(live.state, fact, AT)
    loop = live.state.runs["a#1"].loop
    assert loop is not None
    loop.succeeded, loop.failed = 1, 1
    watched.progress.seed(live)
    row = watched.progress.rows[ROOT, "a#1"]
    assert (row.total, row.done, row.failed) == (3, 2, 1)


def test_what_a_run_waits_for_is_told_when_we_begin_to_look() -> None:
    watched = WatchedExecution()
    live = LiveExecution(CHILD, watched.program, 1, State(execution_id=CHILD))
    live.state.parent = f"{ROOT}/b#1@1"
    parked = FrameParked(frame="x#1", call=1, until=ForSignal(name="go"))
    for fact in (scheduled("x#1"), parked):
        apply(live.state, fact, AT)
    watched.progress.seed(live)
    assert watched.lines() == ['… x  waits for the signal "go": noetl signal 5f0c1df7-57c7-5914 go']
    assert (watched.progress.rows[CHILD, "x#1"].depth, watched.started()) == (1, [])


def test_waits_say_for_what_and_how_to_make_it_come() -> None:
    watched = WatchedExecution()
    watched.see(scheduled("a#1"), scheduled("b#1"), scheduled("c#1"))
    signal = FrameParked(frame="a#1", call=1, until=ForSignal(name="approved"))
    assert watched.see(signal) == ['… a  waits for the signal "approved": noetl signal 01a1df73-f57c-7914 approved']
    assert watched.see(FrameResumed(frame="a#1")) == []
    assert watched.progress.rows[ROOT, "a#1"].waits == ""
    signal = FrameParked(frame="a#1", call=2, until=ForSignal(name="x; rm *"))
    assert watched.see(signal)[0].endswith("noetl signal 01a1df73-f57c-7914 'x; rm *'")
    child = ForChild(execution_id=CHILD, path="other.yaml")
    assert watched.see(FrameParked(frame="b#1", call=1, until=child)) == ["… b  runs other.yaml (5f0c1df7-57c7-5914)"]
    (line,) = watched.see(FrameParked(frame="c#1", call=1, until=ForTime(at=AT)))
    assert line.startswith("… c  waits until 2026-01-0")


def test_steps_of_children_make_rows_but_no_lines_except_for_signals() -> None:
    watched = WatchedExecution()
    requested = Requested(path="other", digest="d", parent=f"{ROOT}/b#1@1")
    assert watched.see(requested, scheduled("x#1"), scheduled("y#1"), id=CHILD) == []
    assert [(row.id, row.depth) for row in watched.progress.rows.values()] == [("x#1", 1), ("y#1", 1)]
    assert watched.see(FrameParked(frame="x#1", call=1, until=ForSignal(name="go")), id=CHILD) == [
        '… x  waits for the signal "go": noetl signal 5f0c1df7-57c7-5914 go'
    ]
    assert watched.see(StepDone(run="x#1"), Finished(status="ok"), id=CHILD) == []
    assert (watched.progress.rows, watched.started()) == ({}, [])


def test_blocks_are_rows_below_the_run_that_calls_them() -> None:
    watched = WatchedExecution()
    watched.see(scheduled("a#1"), scheduled("a#1/part#1", parent="a#1"))
    assert [(row.id, row.depth) for row in watched.progress.rows.values()] == [("a#1", 0), ("a#1/part#1", 1)]
    assert watched.see(StepDone(run="a#1/part#1")) == []


def test_a_list_of_loops_tells_how_many_iterations_its_last_one_had_and_what_was_retried_there() -> None:
    watched = WatchedExecution()
    body, inner = "a#1[0]/body.#1", "a#1[0]/body.#1[0]/body#1"
    watched.see(
        scheduled("a#1", loop=True),
        StepScheduled(run=body, step="a/body.", loop=True, parent="a#1[0]"),
        StepScheduled(run=inner, step="a/body", loop=True, parent=f"{body}[0]"),
        TaskDone(frame=f"{inner}[0]", call=1, task="t", directive="retry", next=0),
        IterationDone(run=inner, index=0),
        IterationFailed(run=inner, index=1, error=NOT_YET),
        LoopDone(run=inner, output=Output()),
        IterationDone(run=body, index=0),
        LoopDone(run=body, output=Output()),
        IterationDone(run="a#1", index=0),
    )
    watched.progress.rows[ROOT, "a#1"].total = 1
    assert loop_text(watched.progress.rows[ROOT, "a#1"]) == "1/1 iterations, 2 inside, 1 retried"
    assert watched.see(LoopDone(run="a#1", output=Output()), NextEvaluated(run="a#1")) == [
        "✓ a  5.00 s  1 iteration, 2 inside, 1 retried"
    ]


def test_pausing_and_cancelling_are_told() -> None:
    watched = WatchedExecution()
    assert watched.see(Paused(), Cancelled(reason="wrong\naccount")) == [
        "pausing: running calls finish first",
        "cancelling (wrong account): running calls have 10 s",
    ]


def test_lines_that_nobody_could_read_are_counted_and_not_kept() -> None:
    watched = WatchedExecution()
    for number in range(1, PENDING_MAX + 4):
        watched.seq += 2
        run = f"a#{number}"
        facts: list[Fact] = [scheduled(run), StepDone(run=run), NextEvaluated(run=run)]
        events = [Event(place, AT, fact) for place, fact in enumerate(facts, 1)]
        watched.progress.watch(LiveExecution(ROOT, watched.program, 1, State(execution_id=ROOT)), events)
    assert (len(watched.lines()), watched.progress.left_out) == (PENDING_MAX, 3)


def test_rates_have_the_digits_that_matter() -> None:
    assert [per_second(rate) for rate in (12_345.6, 12, 2.55, 0.5, 0.2)] == [
        "12,346/s", "12/s", "2.5/s", "0.5/s", "12.0/min",
    ]  # fmt: skip


def test_a_task_that_takes_long_is_named_while_it_runs_and_a_lost_worker_is_told_d94() -> None:
    watched = WatchedExecution()
    running = TaskStarted(frame="a#1", call=2, task="fetch", started_at=AT, worker="w")
    watched.see(scheduled("a#1"), StepStarted(run="a#1"), running)
    assert watched.progress.rows[ROOT, "a#1"].task == "fetch"
    assert watched.see(FrameLost(frame="a#1", call=2, task="fetch", worker="w")) == ['! a  w was lost in task "fetch"']
    assert watched.progress.rows[ROOT, "a#1"].task == ""
    watched.see(running, TaskDone(frame="a#1", call=2, task="fetch", directive="continue", next=-1, output=Output()))
    assert watched.progress.rows[ROOT, "a#1"].task == ""
