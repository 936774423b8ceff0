"""A fact as one line of a list: its entity and a short description. It does not fold the log."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from noetl.engine import Event, facts
from noetl.engine.facts import Fact
from noetl.ids import call_id, frame_id, frame_parts
from noetl.output import Failure
from noetl.playbook.model import END
from noetl.views.log import instant
from noetl.views.runs import waits_for
from noetl.views.timeline import name_of

WORDS_MAX = 240
_BAD = frozenset({"error", "cancelled"})


class FactLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    seq: int
    at: str
    name: str
    about: str = ""  # a run, a frame, a call or a token
    step: str | None = None  # or a block; None: the fact is not about a step
    task: str | None = None
    attempt: int = 1
    ms: float | None = None
    words: str = ""
    bad: bool = False  # the fact reports a failure


def line(event: Event, steps_of: Mapping[str, str]) -> FactLine:
    """`steps_of`: run → its step."""
    fact = event.fact
    about, run = _about(fact)
    task = fact if isinstance(fact, facts.TaskDone) else None
    return FactLine(
        seq=event.seq,
        at=instant(event.at),
        name=name_of(fact),
        about=about,
        step=steps_of.get(run) if run is not None else None,
        task=None if task is None else task.task,
        attempt=1 if task is None else task.attempt,
        ms=task.ms if task is not None and task.started_at is not None else None,
        words=_words(fact)[:WORDS_MAX],
        bad=_is_bad(fact),
    )


def _about(fact: Fact) -> tuple[str, str | None]:
    """The entity that the fact is about, and its run."""
    match fact:
        case facts.TaskDone(frame=frame, call=call):
            return call_id(frame, call), frame_parts(frame)[0]
        case facts.FrameParked(frame=frame) | facts.FrameResumed(frame=frame):
            return frame, frame_parts(frame)[0]
        case facts.IterationDone(run=run, index=index) | facts.IterationFailed(run=run, index=index):
            return frame_id(run, index), run
        case facts.StepWaiting(token=token):
            return token, None
        case facts.StepFailed(run=None, tokens=tokens):
            return ", ".join(tokens), None
    named = getattr(fact, "run", None)
    return (named, named) if isinstance(named, str) else ("", None)


def _words(fact: Fact) -> str:
    match fact:
        case facts.Requested(path=path, by=by):
            return f"{path}, by {by}" if by else path
        case facts.Started(token=token):
            return f"→ {token.step}"
        case facts.StepWaiting(join=join, reads=reads):
            paths = ", ".join(".".join(("ctx", *read)) for read in reads)
            return "has arrived at a join" if join else f"is not admitted; it reads {paths}"
        case facts.StepScheduled(input=given, retry_of=retry_of):
            again = f"retries {retry_of}; " if retry_of else ""
            return f"{again}{_input(given)}".rstrip("; ")
        case facts.TaskDone():
            return _task(fact)
        case facts.FrameParked(until=until):
            return f"waits {waits_for(until)}"
        case facts.LoopStarted(count=count, width=width, parallel=parallel):
            return f"{count:,} iterations, {width:,} at a time" if parallel else f"{count:,} iterations"
        case facts.NextEvaluated():
            return _routed(fact)
        case facts.Cancelled(reason=reason, by=by):
            return ", ".join(filter(None, (reason, f"by {by}" if by else "")))
        case facts.Paused(by=by) | facts.Resumed(by=by) | facts.Retried(by=by):
            return f"by {by}" if by else ""
        case facts.Finished(status=status, error=error):
            return f"{status}: {error.message}" if error is not None else status
        case facts.Processed(status=status):
            return status
    error = getattr(fact, "error", None)
    return error.message if isinstance(error, Failure) else _writes(getattr(fact, "set", {}))


def _input(given: Mapping[str, object]) -> str:
    return f"input {', '.join(given)}" if given else ""


def _task(fact: facts.TaskDone) -> str:
    error = fact.error or (fact.output.error if fact.output is not None else None)
    again = f", attempt {fact.attempt}" if fact.attempt > 1 else ""
    said = f"{fact.task}: {fact.status}, {fact.directive}{again}"
    told = f": {error.message}" if error is not None else ""
    return "; ".join(filter(None, (said + told, _writes(fact.set))))


def _routed(fact: facts.NextEvaluated) -> str:
    if fact.error is not None:
        return fact.error.message
    targets = [token.step for token in fact.tokens] + [END] * fact.ended
    arcs = ", ".join(f"→ {step}" for step in targets) or "no arc holds"
    return "; ".join(filter(None, (arcs, _writes(fact.set))))


def _writes(written: Mapping[str, object]) -> str:
    return f"sets {', '.join(written)}" if written else ""


def _is_bad(fact: Fact) -> bool:
    match fact:
        case facts.TaskDone(status="error"):
            return fact.directive in ("fail", "retry")
        case facts.TaskDone(directive="fail") | facts.StepFailed() | facts.IterationFailed():
            return True
        case facts.Finished(status=status) | facts.Processed(status=status):
            return status in _BAD
    return getattr(fact, "error", None) is not None
