"""An independent look at a log: what must hold whatever happened on the way. It reads nothing but the facts.

It has its own small books and does not fold: what the engine believes of itself is no evidence here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from noetl.engine import Event, facts
from noetl.engine.facts import Fact, Token
from noetl.ids import frame_parts
from noetl.views.audit.frames import FrameAudit
from noetl.views.audit.loops import LoopAudit

FINDINGS_MAX = 1_000  # a log that is broken from end to end needs no more to be told so


class AuditFinding(Struct, frozen=True, kw_only=True):
    """Something in a log that must not be."""

    seq: int
    code: str  # kebab-case, stable: "ended-twice"
    message: str


class _Run:
    """What the books hold of a run."""

    def __init__(self, parent: str | None) -> None:
        self.parent = parent  # of a block: the frame that called it
        self.started = self.ended = self.failed = False


_Check: TypeAlias = Callable[..., None]  # each takes its own fact
# While it is paused or being cancelled, what was done is recorded and nothing new begins (D67, D68).
_NEW = (facts.StepScheduled, facts.StepWaiting, facts.LoopStarted, facts.LoopDone, facts.NextEvaluated)


def findings(events: Iterable[Event]) -> list[AuditFinding]:
    """Everything that is wrong with a log, in its order; nothing: it is sound as far as it goes."""
    auditor = _Auditor()
    for event in events:
        auditor.see(event)
        if len(auditor.found) >= FINDINGS_MAX:
            return auditor.found
    auditor.close()
    return auditor.found


class _Auditor:
    def __init__(self) -> None:
        self.found: list[AuditFinding] = []
        self.seq = 0
        self.phase = "new"  # then requested, running, paused, cancelling, finished, over
        self.ends_in: str | None = None  # the status that workflow.finished gave
        self.runs: dict[str, _Run] = {}
        self.tokens: dict[str, str] = {}  # live → its step
        self.made: set[str] = set()
        self.waiting: set[str] = set()
        self.spoiled: dict[str, str] = {}
        self.due: list[str] = []  # runs that execution.retried has named and that are taken up next
        self.frames = FrameAudit(self.say)
        self.loops = LoopAudit(self.say)
        self.checks: dict[type, _Check] = {
            facts.Requested: self._requested, facts.Evaluated: self._evaluated,
            facts.Started: self._workflow_started, facts.StepWaiting: self._waiting,
            facts.StepScheduled: self._scheduled, facts.StepStarted: self._started,
            facts.TaskDone: self._task_done, facts.FrameParked: self._parked,
            facts.FrameResumed: self._resumed, facts.LoopStarted: self._loop_started,
            facts.IterationDone: self._iteration, facts.IterationFailed: self._iteration,
            facts.LoopDone: self._loop_done, facts.StepDone: self._done, facts.StepFailed: self._failed,
            facts.NextEvaluated: self._routed, facts.Paused: self._command, facts.Resumed: self._command,
            facts.Cancelled: self._command, facts.Retried: self._retried,
            facts.Finished: self._finished, facts.Processed: self._processed,
        }  # fmt: skip

    def say(self, code: str, message: str) -> None:
        self.found.append(AuditFinding(seq=self.seq, code=code, message=message))

    def see(self, event: Event) -> None:
        seq, _, fact = event
        if seq != self.seq + 1:
            expected, self.seq = self.seq + 1, seq
            self.say("gap", f"fact {seq} stands where {expected} should")
        self.seq = seq
        self._in_time(fact)
        self.checks[type(fact)](fact)

    def close(self) -> None:
        """The log stops here. Facts that are recorded together must all be there."""
        if self.phase in ("requested", "evaluated", "finished") or self.due:
            self.say("torn", "the log stops in the middle of what is recorded at once")

    def _in_time(self, fact: Fact) -> None:
        """May there be such a fact now?"""
        name = _name(fact)
        if self.phase == "over" and not isinstance(fact, facts.Retried):
            self.say("after-end", f"{name} after playbook.processed")
        elif self.phase == "finished" and not isinstance(fact, facts.Processed):
            self.say("after-end", f"{name} after workflow.finished")
        elif self.phase == "new" and not isinstance(fact, facts.Requested):
            self.say("begin", f"{name} before playbook.execution.requested")
        elif self.phase in ("paused", "cancelling") and isinstance(fact, _NEW):
            self.say("not-running", f"{name} while the execution is {self.phase}")
        if self.due and not isinstance(fact, facts.StepScheduled):
            self.say("retry", f"{', '.join(self.due)} should be taken up before {name}")
            self.due = []

    # The execution

    def _requested(self, _fact: facts.Requested) -> None:
        if self.phase != "new":
            self.say("begin", "playbook.execution.requested is not the first fact, or not the only one")
        self.phase = "requested"

    def _evaluated(self, fact: facts.Evaluated) -> None:
        if self.phase != "requested":
            self.say("begin", "playbook.request.evaluated does not follow the request")
        self.phase, self.ends_in = ("finished", "error") if fact.error is not None else ("evaluated", None)

    def _workflow_started(self, fact: facts.Started) -> None:
        if self.phase != "evaluated":
            self.say("begin", "workflow.started does not follow an evaluation that went well")
        self.phase = "running"
        self._make(fact.token)

    def _command(self, fact: facts.Paused | facts.Resumed | facts.Cancelled) -> None:
        before, after = {
            facts.Paused: (("running",), "paused"),
            facts.Resumed: (("paused",), "running"),
            facts.Cancelled: (("running", "paused"), "cancelling"),
        }[type(fact)]
        if self.phase not in (*before, "over", "finished"):
            self.say("command", f"{_name(fact)} while the execution is {self.phase}")
        self.phase = after

    def _retried(self, fact: facts.Retried) -> None:
        if self.phase != "over":
            self.say("command", f"{_name(fact)} while the execution is {self.phase}")
        self.phase, self.ends_in = "running", None
        self.due = list(fact.runs)
        for token in fact.tokens:
            if token in self.spoiled:
                self.tokens[token] = self.spoiled.pop(token)
            else:
                self.say("token", f"{token} is tried again, and its admission had not failed")

    def _finished(self, fact: facts.Finished) -> None:
        wanted = self.phase == "cancelling"
        if (fact.status == "cancelled") != wanted or self.phase in ("requested", "evaluated", "paused"):
            self.say("command", f"workflow.finished {fact.status} while the execution is {self.phase}")
        limited = fact.error is not None and fact.error.kind == "limit"
        for id, run in self.runs.items():
            if not run.ended and not limited:
                self.say("left-running", f"the execution ends, and {id} has not")
            elif not (limited or wanted or self._caller_is_over(run)):
                self.say("left-unrouted", f"the execution ends, and {id} was never routed")
        if not limited and not wanted:
            lost, extra = self.tokens.keys() - set(fact.waiting), set(fact.waiting) - self.tokens.keys()
            if lost or extra:
                self.say("lost-token", f"tokens at the end: {_list(lost)} untold, {_list(extra)} not there")
        # What went well and was not routed is routed when the execution goes on (D69).
        self.runs = {
            id: run for id, run in self.runs.items() if run.parent is None and run.ended and not run.failed
        }
        self.phase, self.ends_in = "finished", fact.status

    def _processed(self, fact: facts.Processed) -> None:
        if self.phase != "finished":
            self.say("end", f"playbook.processed while the execution is {self.phase}")
        elif fact.status != self.ends_in:
            self.say("end", f"playbook.processed says {fact.status}, and it had finished {self.ends_in}")
        self.phase = "over"

    # Tokens

    def _make(self, token: Token) -> None:
        if token.id in self.made:
            self.say("token", f"{token.id} is made twice")
        self.made.add(token.id)
        self.tokens[token.id] = token.step

    def _spend(self, token: str, step: str | None) -> str:
        self.waiting.discard(token)
        of = self.tokens.pop(token, None)
        if of is None:
            self.say("token", f"{token} is spent {'twice' if token in self.made else 'and was never made'}")
        elif step is not None and of != step:
            self.say("token", f"{token} leads to {of}, and {step} spends it")
        return of or ""

    def _waiting(self, fact: facts.StepWaiting) -> None:
        if fact.token not in self.tokens:
            self.say("token", f"{fact.token} waits and is not there")
        elif fact.token in self.waiting:
            self.say("waiting-twice", f"{fact.token} says a second time that it waits")
        self.waiting.add(fact.token)

    # Runs

    def _scheduled(self, fact: facts.StepScheduled) -> None:
        if fact.run in self.runs or fact.run in self.frames.runs:
            self.say("scheduled-twice", f"{fact.run} is scheduled twice")
        for token in fact.tokens:
            self._spend(token, fact.step)
        if fact.parent is None:
            self._taken_up(fact)
        elif self.frames.called(fact.parent) != fact.step:
            self.say("block", f"{fact.run} is scheduled, and {fact.parent} has not called {fact.step}")
        self.runs[fact.run] = _Run(fact.parent)
        self.frames.begin(fact.run)
        self.loops.inherit(fact.run, fact.retry_of)

    def _taken_up(self, fact: facts.StepScheduled) -> None:
        if fact.retry_of in self.due:
            self.due.remove(fact.retry_of)
        elif fact.retry_of is not None:
            self.say("retry", f"{fact.run} takes up {fact.retry_of}, and nobody asked for it")
        elif not fact.tokens:
            self.say("token", f"{fact.run} is scheduled without a token")

    def _started(self, fact: facts.StepStarted) -> None:
        run = self._live(fact.run, fact)
        if run is not None and run.started:
            self.say("started-twice", f"{fact.run} is started twice")
        if run is not None:
            run.started = True

    def _live(self, id: str, fact: Fact) -> _Run | None:
        """The run, if something may still happen to it."""
        run = self.runs.get(id)
        if run is None:
            self.say("unknown-run", f"{_name(fact)} of {id}, which is not scheduled")
        elif run.ended:
            ends = isinstance(fact, facts.StepDone | facts.StepFailed | facts.LoopDone)
            if ends:
                self.say("ended-twice", f"{id} has ended already, and ends again by {_name(fact)}")
            else:
                self.say("late", f"{_name(fact)} of {id}, which has ended")
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
            self.frames.end(id)

    def _routed(self, fact: facts.NextEvaluated) -> None:
        run = self.runs.get(fact.run)
        if run is None or not run.ended or run.parent is not None:
            self.say("routing", f"{fact.run} is routed, and {_unroutable(run)}")
        self.runs.pop(fact.run, None)
        for token in fact.tokens:
            self._make(token)

    def _caller_is_over(self, run: _Run) -> bool:
        caller = self.runs.get(frame_parts(run.parent)[0]) if run.parent is not None else None
        return run.parent is not None and (caller is None or caller.ended)

    # Frames and loops

    def _task_done(self, fact: facts.TaskDone) -> None:
        run, index = frame_parts(fact.frame)
        if self._live(run, fact) is not None:
            self.loops.touched(run, index)
            self.frames.called_task(fact)

    def _parked(self, fact: facts.FrameParked) -> None:
        run, index = frame_parts(fact.frame)
        if self._live(run, fact) is not None:
            self.loops.touched(run, index)
            self.frames.parked(fact)

    def _resumed(self, fact: facts.FrameResumed) -> None:
        run, _ = frame_parts(fact.frame)
        if self._live(run, fact) is None:
            return
        self.frames.resumed(fact)
        if fact.run is not None:
            block = self.runs.pop(fact.run, None)
            if block is None or not block.ended or block.parent != fact.frame:
                self.say("block", f"{fact.frame} is answered by {fact.run}, which is no ended call of it")

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


def _name(fact: Fact) -> str:
    return str(fact.__struct_config__.tag)


def _unroutable(run: _Run | None) -> str:
    if run is None:
        return "it is not there, or was routed before"
    if run.parent is not None:
        return "it is a block's: it answers its caller"
    return "it has not ended"


def _list(tokens: Iterable[str]) -> str:
    return ", ".join(sorted(tokens)) or "none"
