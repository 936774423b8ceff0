"""An independent audit of a log: the rules that every log keeps. It reads only the facts.

It keeps its own records and does not fold the log, so that it does not repeat errors of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from noetl.engine import Event, facts
from noetl.engine.facts import Fact, ForBlock, ForDebugger, Token, Until
from noetl.ids import frame_id, frame_parts
from noetl.output import Failure
from noetl.views.compensation_audit import CompensationAudit, listed
from noetl.views.hold_audit import HoldAudit
from noetl.views.log import name_of
from noetl.views.loop_audit import LoopAudit

FINDINGS_MAX = 1_000  # enough for a log that is broken from end to end


class AuditFinding(Struct, frozen=True, kw_only=True):
    """Something in a log that must not happen."""

    seq: int
    code: str  # kebab-case, stable: "ended-twice"
    message: str


class _Run:
    def __init__(self, parent: str | None, *, compensation: bool = False) -> None:
        self.parent = parent  # of a block: the frame that called it
        self.compensation = compensation  # it undoes another run, and is not routed (D116)
        self.started = self.ended = self.failed = False


_Check: TypeAlias = Callable[..., None]  # each takes one type of fact
# In a pause and after a cancel, completed work is recorded and no new work begins (D67, D68).
_NEW = (facts.StepScheduled, facts.StepWaiting, facts.LoopStarted, facts.LoopDone, facts.NextEvaluated)


def findings(events: Iterable[Event]) -> list[AuditFinding]:
    """Everything that is wrong with a log, in its order. An empty list: the log is sound up to its end."""
    audit = LogAudit()
    for event in events:
        audit.feed(event)
    return audit.result()


class LogAudit:
    """Checks a log, one event at a time."""

    def __init__(self) -> None:
        self.found: list[AuditFinding] = []
        self.seq = 0
        self.phase = "new"  # then requested, running, paused, cancelling, finished, over
        self.ends_in: str | None = None  # the status in workflow.finished
        self.runs: dict[str, _Run] = {}
        self.tokens: dict[str, str] = {}  # live → its step
        self.made: set[str] = set()
        self.waiting: set[str] = set()
        self.unpermitted: set[str] = set()  # runs that wait for a permit; "": the execution does
        self.spoiled: dict[str, str] = {}
        self.due: list[str] = []  # runs named by execution.retried, which must be retried next
        self.frames = _FrameAudit(self.report)
        self.loops = LoopAudit(self.report)
        self.compensations = CompensationAudit(self.report)
        self.holds = HoldAudit(self.report)
        self.checks: dict[type, _Check] = {
            facts.Requested: self._requested, facts.Evaluated: self._evaluated,
            facts.Started: self._workflow_started, facts.StepWaiting: self._waiting,
            facts.StepScheduled: self._scheduled, facts.StepStarted: self._started,
            facts.PermitGranted: self._permitted,
            facts.TaskStarted: self._of_frame(self.frames.started_task),
            facts.TaskDone: self._of_frame(self.frames.called_task),
            facts.FrameParked: self._of_frame(self.frames.parked), facts.FrameResumed: self._resumed,
            facts.FrameLost: self._of_frame(self.frames.lost), facts.LoopStarted: self._loop_started,
            facts.IterationDone: self._iteration, facts.IterationFailed: self._iteration,
            facts.LoopDone: self._loop_done, facts.StepDone: self._done, facts.StepFailed: self._failed,
            facts.NextEvaluated: self._routed, facts.Paused: self._command, facts.Resumed: self._command,
            facts.BreakpointSet: self.holds.breakpoint_set, facts.BreakpointCleared: self.holds.breakpoint_cleared,
            facts.HoldReleased: self._of_hold(self.holds.released),
            facts.ScopeChanged: self._of_hold(self.holds.changed),
            facts.Cancelled: self._command, facts.Compensating: self._compensating, facts.Retried: self._retried,
            facts.Finished: self._finished, facts.Processed: self._processed,
        }  # fmt: skip

    def report(self, code: str, message: str) -> None:
        self.found.append(AuditFinding(seq=self.seq, code=code, message=message))

    def feed(self, event: Event) -> None:
        if self._is_full:
            return
        seq, fact = event.seq, event.fact
        if seq != self.seq + 1:
            expected, self.seq = self.seq + 1, seq
            self.report("gap", f"fact {seq} is where fact {expected} should be")
        self.seq = seq
        self._in_time(fact)
        self.checks[type(fact)](fact)

    @property
    def _is_full(self) -> bool:
        return len(self.found) >= FINDINGS_MAX

    def result(self) -> list[AuditFinding]:
        """The log ends here. Facts that are recorded together must all be in it."""
        if not self._is_full and (self.phase in ("requested", "evaluated", "finished") or self.due):
            self.report("torn", "the log ends between facts that are recorded together")
        return self.found

    def _in_time(self, fact: Fact) -> None:
        """Is such a fact allowed now?"""
        name = name_of(fact)
        if self.phase == "over" and not isinstance(fact, facts.Retried):
            self.report("after-end", f"{name} after playbook.processed")
        elif self.phase == "finished" and not isinstance(fact, facts.Processed):
            self.report("after-end", f"{name} after workflow.finished")
        elif self.phase == "new" and not isinstance(fact, facts.Requested):
            self.report("begin", f"{name} before playbook.execution.requested")
        elif self.phase in ("paused", "cancelling") and isinstance(fact, _NEW):
            self.report("not-running", f"{name} while the execution is {self.phase}")
        if self.due and not isinstance(fact, facts.StepScheduled):
            self.report("retry", f"{', '.join(self.due)} should be retried before {name}")
            self.due = []

    # The execution

    def _requested(self, _fact: facts.Requested) -> None:
        if self.phase != "new":
            self.report("begin", "playbook.execution.requested is not the first fact, or not the only one")
        self.phase = "requested"

    def _evaluated(self, fact: facts.Evaluated) -> None:
        if self.phase != "requested":
            self.report("begin", "playbook.request.evaluated does not follow the request")
        self.phase, self.ends_in = ("finished", "error") if fact.error is not None else ("evaluated", None)

    def _workflow_started(self, fact: facts.Started) -> None:
        if self.phase != "evaluated":
            self.report("begin", "workflow.started does not follow a successful evaluation")
        self.phase = "running"
        self._make(fact.token)

    def _command(self, fact: facts.Paused | facts.Resumed | facts.Cancelled) -> None:
        before, after = {
            facts.Paused: (("running",), "paused"),
            facts.Resumed: (("paused",), "running"),
            facts.Cancelled: (("running", "paused"), "cancelling"),
        }[type(fact)]
        if self.phase not in (*before, "over", "finished"):
            self.report("command", f"{name_of(fact)} while the execution is {self.phase}")
        self.phase = after

    def _retried(self, fact: facts.Retried) -> None:
        if self.phase != "over":
            self.report("command", f"{name_of(fact)} while the execution is {self.phase}")
        self.phase, self.ends_in = "running", None
        self.due = list(fact.runs)
        self.compensations.retried(fact)
        for token in fact.tokens:
            if token in self.spoiled:
                self.tokens[token] = self.spoiled.pop(token)
            else:
                self.report("token", f"{token} is tried again, but its admission had not failed")

    def _compensating(self, fact: facts.Compensating) -> None:
        wanted = self.phase == "cancelling"
        if (fact.status == "cancelled") != wanted or self.phase not in ("running", "cancelling"):
            self.report("command", f"{name_of(fact)} {fact.status} while the execution is {self.phase}")
        self._check_left(fact.error, wanted)
        self.runs, self.phase = {}, "running"
        self.compensations.begin(fact)

    def _check_left(self, error: Failure | None, wanted: bool) -> bool:
        """Report runs that the end leaves open. Returns whether a limit has ended the execution."""
        limited = error is not None and error.kind == "limit"
        for id, run in self.runs.items():
            if not run.ended and not limited:
                self.report("left-running", f"the execution ends, but {id} has not ended")
            elif not (limited or wanted or self._caller_is_over(run)):
                self.report("left-unrouted", f"the execution ends, but {id} was never routed")
        return limited

    def _finished(self, fact: facts.Finished) -> None:
        wanted = self.phase == "cancelling" or self.compensations.status == "cancelled"
        if (fact.status == "cancelled") != wanted or self.phase in ("requested", "evaluated", "paused"):
            self.report("command", f"workflow.finished {fact.status} while the execution is {self.phase}")
        limited = self._check_left(fact.error, wanted)
        self.compensations.finished(fact, limited=limited)
        if not limited and not wanted:
            lost, extra = self.tokens.keys() - set(fact.waiting), set(fact.waiting) - self.tokens.keys()
            if lost or extra:
                self.report(
                    "lost-token", f"tokens at the end: {listed(lost)} not listed, {listed(extra)} listed but unknown"
                )
        # Successful runs that were not routed are routed when the execution continues (D69).
        self.runs = {id: run for id, run in self.runs.items() if run.parent is None and run.ended and not run.failed}
        self.unpermitted.clear()
        self.phase, self.ends_in = "finished", fact.status

    def _processed(self, fact: facts.Processed) -> None:
        if self.phase != "finished":
            self.report("end", f"playbook.processed while the execution is {self.phase}")
        elif fact.status != self.ends_in:
            self.report("end", f"playbook.processed says {fact.status}, but workflow.finished said {self.ends_in}")
        self.phase = "over"

    # Tokens

    def _make(self, token: Token) -> None:
        if token.id in self.made:
            self.report("token", f"{token.id} is made twice")
        self.made.add(token.id)
        self.tokens[token.id] = token.step

    def _spend(self, token: str, step: str | None) -> str:
        self.waiting.discard(token)
        of = self.tokens.pop(token, None)
        if of is None:
            self.report("token", f"{token} is consumed {'twice' if token in self.made else 'but was never made'}")
        elif step is not None and of != step:
            self.report("token", f"{token} leads to {of}, but {step} consumes it")
        return of or ""

    def _permitted(self, fact: facts.PermitGranted) -> None:
        if (fact.run or "") not in self.unpermitted:
            self.report("permit", f"{fact.run or 'the execution'} gets a permit, but does not wait for one")
        self.unpermitted.discard(fact.run or "")

    def _waiting(self, fact: facts.StepWaiting) -> None:
        if fact.limit is not None:
            if (fact.run or "") in self.unpermitted:
                self.report("waiting-twice", f"{fact.run or 'the execution'} waits for a permit already")
            self.unpermitted.add(fact.run or "")
            return
        if fact.token not in self.tokens:
            self.report("token", f"{fact.token} waits but does not exist")
        elif fact.token in self.waiting:
            self.report("waiting-twice", f"{fact.token} waits already")
        self.waiting.add(fact.token)

    # Runs

    def _scheduled(self, fact: facts.StepScheduled) -> None:
        if fact.run in self.runs or fact.run in self.frames.runs:
            self.report("scheduled-twice", f"{fact.run} is scheduled twice")
        for token in fact.tokens:
            self._spend(token, fact.step)
        if fact.compensates is not None:
            self.compensations.scheduled(fact)
        elif fact.parent is None:
            self._check_retry(fact)
            if fact.compensable:
                self.compensations.compensable.add(fact.run)
        elif self.frames.called(fact.parent) != fact.step:
            self.report("block", f"{fact.run} is scheduled, but {fact.parent} has not called {fact.step}")
        self.runs[fact.run] = _Run(fact.parent, compensation=fact.compensates is not None)
        if fact.hold is not None:
            self.holds.runs.add(fact.run)
        self.frames.begin(fact.run)
        self.loops.inherit(fact.run, fact.retry_of, fact.iterations)

    def _check_retry(self, fact: facts.StepScheduled) -> None:
        if fact.retry_of in self.due:
            self.due.remove(fact.retry_of)
        elif fact.retry_of is not None:
            self.report("retry", f"{fact.run} retries {fact.retry_of}, but no command requested it")
        elif not fact.tokens:
            self.report("token", f"{fact.run} is scheduled without a token")

    def _started(self, fact: facts.StepStarted) -> None:
        run = self._live(fact.run, fact)
        if fact.run in self.unpermitted:
            self.report("permit", f"{fact.run} is started without its permit")
        if fact.run in self.holds.runs:
            self.report("held", f"{fact.run} is started while it is held")
        if run is not None and run.started:
            self.report("started-twice", f"{fact.run} is started twice")
        if run is not None:
            run.started = True

    def _live(self, id: str, fact: Fact) -> _Run | None:
        """The run, if it has not ended."""
        run = self.runs.get(id)
        if run is None:
            self.report("unknown-run", f"{name_of(fact)} of {id}, which is not scheduled")
        elif run.ended:
            ends = isinstance(fact, facts.StepDone | facts.StepFailed | facts.LoopDone)
            if ends:
                self.report("ended-twice", f"{id} has already ended and ends again with {name_of(fact)}")
            else:
                self.report("late", f"{name_of(fact)} of {id}, which has ended")
            return None
        return run

    def _done(self, fact: facts.StepDone) -> None:
        self._end(fact.run, fact)

    def _failed(self, fact: facts.StepFailed) -> None:
        if fact.run is not None:
            self._end(fact.run, fact)
            return
        for token in fact.tokens:
            self.spoiled[token] = self._spend(token, None)

    def _end(self, id: str, fact: Fact) -> None:
        run = self._live(id, fact)
        if run is not None:
            run.ended, run.failed = True, isinstance(fact, facts.StepFailed)
            self.holds.runs.discard(id)
            self.frames.end(id)
            if run.compensation:
                del self.runs[id]
                self.compensations.ended(id, failed=run.failed)

    def _routed(self, fact: facts.NextEvaluated) -> None:
        run = self.runs.get(fact.run)
        if run is None or not run.ended or run.parent is not None:
            self.report("routing", f"{fact.run} is routed, but {_unroutable(run)}")
        self.runs.pop(fact.run, None)
        for token in fact.tokens:
            self._make(token)

    def _caller_is_over(self, run: _Run) -> bool:
        caller = self.runs.get(frame_parts(run.parent)[0]) if run.parent is not None else None
        return run.parent is not None and (caller is None or caller.ended)

    # Breakpoints

    def _of_hold(self, check: _Check) -> _Check:
        """The check of a fact about a live run, or a frame of one, that is held."""

        def checked(fact: facts.HoldReleased | facts.ScopeChanged) -> None:
            if self._live(frame_parts(fact.at)[0], fact) is not None:
                check(fact, is_frame_held=self.frames.is_held(fact.at))
                if isinstance(fact, facts.HoldReleased):
                    self.frames.released(fact.at)

        return checked

    # Frames and loops

    def _of_frame(self, check: _Check) -> _Check:
        """The check of a fact about a frame of a live run."""

        def checked(fact: facts.TaskStarted | facts.TaskDone | facts.FrameParked | facts.FrameLost) -> None:
            run, index = frame_parts(fact.frame)
            if self._live(run, fact) is not None:
                self.loops.touched(run, index)
                check(fact)

        return checked

    def _resumed(self, fact: facts.FrameResumed) -> None:
        run, _ = frame_parts(fact.frame)
        if self._live(run, fact) is None:
            return
        self.frames.resumed(fact)
        if fact.run is not None:
            block = self.runs.pop(fact.run, None)
            if block is None or not block.ended or block.parent != fact.frame:
                self.report("block", f"{fact.run} resumes {fact.frame}, but is not an ended call of it")

    def _loop_started(self, fact: facts.LoopStarted) -> None:
        if self._live(fact.run, fact) is not None:
            self.loops.started(fact)

    def _iteration(self, fact: facts.IterationDone | facts.IterationFailed) -> None:
        if self._live(fact.run, fact) is not None:
            self.loops.landed(fact)
            self.frames.landed(fact.run, fact.index)

    def _loop_done(self, fact: facts.LoopDone) -> None:
        self.loops.done(fact)
        self._end(fact.run, fact)


def _unroutable(run: _Run | None) -> str:
    if run is None:
        return "it does not exist, or was routed before"
    if run.parent is not None:
        return "it belongs to a block, which resumes its caller"
    return "it has not ended"


Epoch: TypeAlias = tuple[int, int]


class _Frame:
    def __init__(self) -> None:
        self.calls = 0
        self.attempt = 1
        self.over = False
        self.running = False  # the next call is known to run
        self.parked: Until | None = None
        self.epoch: Epoch | None = None


class _FrameAudit:
    """Frames: every call has its own position, and no older grant writes.

    `runs` are all ids ever scheduled.
    """

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self.report = report
        self.runs: set[str] = set()
        self._frames: dict[str, dict[str, _Frame]] = {}

    def begin(self, run: str) -> None:
        self.runs.add(run)
        self._frames[run] = {}

    def end(self, run: str) -> None:
        self._frames.pop(run, None)

    def landed(self, run: str, index: int) -> None:
        """An iteration is over, and so is its frame."""
        id = frame_id(run, index)
        frame = self._frames.get(run, {}).pop(id, None)
        if frame is not None and not frame.over:
            self.report("position", f"{id} has ended, but its last task was not done")

    def called(self, id: str) -> str | None:
        """The block that a frame waits for; None: it waits for none."""
        frame = self._frames.get(frame_parts(id)[0], {}).get(id)
        return frame.parked.block if frame is not None and isinstance(frame.parked, ForBlock) else None

    def is_held(self, id: str) -> bool:
        frame = self._frames.get(frame_parts(id)[0], {}).get(id)
        return frame is not None and isinstance(frame.parked, ForDebugger)

    def released(self, id: str) -> None:
        if self.is_held(id):
            self._frame(id).parked = None

    def started_task(self, fact: facts.TaskStarted) -> None:
        frame = self._next_call(fact)
        if frame.running and fact.epoch is None:
            self.report("started-twice", f"{fact.frame}: call {fact.call} is started twice by one worker")
        frame.running = True

    def lost(self, fact: facts.FrameLost) -> None:
        frame = self._frame(fact.frame)
        self._position(frame, fact.frame, fact.call)
        if frame.parked is not None:
            self.report("parked", f"the worker of {fact.frame} is lost while no worker holds it")
        if fact.epoch is not None and frame.epoch is not None and fact.epoch < frame.epoch:
            self.report("stale-epoch", f"{fact.frame}: the worker of epoch {fact.epoch} is lost after {frame.epoch}")
        frame.running = False

    def called_task(self, fact: facts.TaskDone) -> None:
        frame = self._next_call(fact)
        frame.running = False
        again = fact.directive == "retry" and fact.next >= 0
        frame.calls, frame.attempt = fact.call, fact.attempt + 1 if again else 1
        frame.over, frame.parked = fact.next < 0, None

    def _next_call(self, fact: facts.TaskStarted | facts.TaskDone) -> _Frame:
        """The frame, after a check that this is its next call."""
        frame = self._frame(fact.frame)
        self._position(frame, fact.frame, fact.call)
        if frame.parked is not None:
            self.report("parked", f"{fact.frame} makes call {fact.call} while it is parked")
        if fact.attempt != frame.attempt:
            self.report("attempt", f"{fact.frame}: attempt {fact.attempt} where {frame.attempt} is next")
        if fact.epoch is not None:
            self._epoch(frame, fact.frame, fact.epoch)
        return frame

    def parked(self, fact: facts.FrameParked) -> None:
        frame = self._frame(fact.frame)
        self._position(frame, fact.frame, fact.call)
        if frame.parked is not None:
            self.report("parked", f"{fact.frame} is parked twice")
        if fact.epoch is not None:
            self._epoch(frame, fact.frame, fact.epoch)
        frame.parked, frame.running = fact.until, False

    def resumed(self, fact: facts.FrameResumed) -> None:
        frame = self._frame(fact.frame)
        if frame.parked is None:
            self.report("parked", f"{fact.frame} is resumed, but was not parked")
        elif isinstance(frame.parked, ForDebugger):
            self.report("held", f"{fact.frame} is resumed while it is held")
        frame.parked = None

    def _frame(self, id: str) -> _Frame:
        frames = self._frames.setdefault(frame_parts(id)[0], {})
        if id not in frames:
            frames[id] = _Frame()
        return frames[id]

    def _position(self, frame: _Frame, id: str, call: int) -> None:
        if call <= frame.calls:
            self.report("call-twice", f"{id}: call {call} is in the log already")
        elif call > frame.calls + 1:
            self.report("call-gap", f"{id}: call {call} after {frame.calls}")
        if frame.over:
            self.report("position", f"{id}: call {call}, but its last task is done")

    def _epoch(self, frame: _Frame, id: str, epoch: Epoch) -> None:
        if frame.epoch is not None and epoch < frame.epoch:
            self.report("stale-epoch", f"{id}: epoch {epoch} after {frame.epoch}")
        frame.epoch = epoch
