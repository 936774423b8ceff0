"""A fact as one line of a list, for people. The log is not folded."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from noetl.engine import Event, facts
from noetl.engine.facts import Fact
from noetl.ids import call_id, frame_id, frame_parts
from noetl.output import Failure, tries_of
from noetl.playbook.model import END
from noetl.views.log import instant, name_of
from noetl.views.runs import change_words, held_words, lost_words, permit_words, waits_for

LINE_CHARS_MAX = 240
ITERATIONS_SHOWN_MAX = 10  # that a retry names
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


def fact_line(event: Event, steps_of: Mapping[str, str]) -> FactLine:
    """`steps_of`: run, or token that waits → its step."""
    fact = event.fact
    about, run = _about(fact)
    task = fact if isinstance(fact, facts.TaskStarted | facts.TaskDone) else None
    return FactLine(
        seq=event.seq,
        at=instant(event.at),
        name=name_of(fact),
        about=about,
        step=steps_of.get(run) if run is not None else None,
        task=None if task is None else task.task,
        attempt=1 if task is None else task.attempt,
        ms=task.ms if isinstance(task, facts.TaskDone) and task.started_at is not None else None,
        words=_words(fact)[:LINE_CHARS_MAX],
        bad=_is_bad(fact),
    )


def _about(fact: Fact) -> tuple[str, str | None]:
    """The entity that the fact is about, and its run or waiting token."""
    match fact:
        case facts.TaskStarted(frame=frame, call=call) | facts.TaskDone(frame=frame, call=call):
            return call_id(frame, call), frame_parts(frame)[0]
        case facts.FrameLost(frame=frame):
            return frame, frame_parts(frame)[0]
        case facts.FrameParked(frame=frame) | facts.FrameResumed(frame=frame):
            return frame, frame_parts(frame)[0]
        case facts.IterationDone(run=run, index=index) | facts.IterationFailed(run=run, index=index):
            return frame_id(run, index), run
        case facts.StepWaiting(token=token, limit=None):
            return token, token
        case facts.HoldReleased(at=at) | facts.ScopeChanged(at=at):
            return at, frame_parts(at)[0]
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
        case facts.StepWaiting(limit=str(limit), key=key):
            return f"waits {permit_words(limit, key)}"
        case facts.StepWaiting(join=join, reads=reads):
            paths = ", ".join(".".join(("ctx", *read)) for read in reads)
            return "has arrived at a join" if join else f"is not admitted; it reads {paths}"
        case facts.StepScheduled(input=given, retry_of=retry_of, compensates=undone):
            again = f"undoes {undone}; " if undone else ""
            again += f"retries {retry_of}{_iterations(fact.iterations)}; " if retry_of else ""
            again += f"waits {held_words(fact.hold)}; " if fact.hold else ""
            return f"{again}{_input(given)}".rstrip("; ")
        case facts.TaskDone():
            return _task(fact)
        case facts.TaskStarted(task=name, attempt=attempt, worker=worker):
            again = f", attempt {attempt}" if attempt > 1 else ""
            return f"{name}: running{again}" + (f" on {worker}" if worker else "")
        case facts.FrameLost():
            return lost_words(fact)
        case facts.FrameParked():
            return f"waits {waits_for(fact)}"
        case facts.LoopStarted(count=count, width=width, parallel=parallel):
            return f"{count:,} iterations, {width:,} at a time" if parallel else f"{count:,} iterations"
        case facts.NextEvaluated():
            return _routed(fact)
        case facts.Cancelled(reason=reason, by=by, compensate=compensate):
            words = (reason, f"by {by}" if by else "", "with compensation" if compensate else "")
            return ", ".join(filter(None, words))
        case facts.Compensating(runs=runs, error=error):
            return f"undoes {', '.join(runs)}, after {error.kind}: {error.message}"
        case facts.Paused(by=by) | facts.Resumed(by=by) | facts.Retried(by=by):
            return f"by {by}" if by else ""
        case facts.Finished(status=status, error=error):
            return f"{status}: {error.message}" if error is not None else status
        case facts.Processed(status=status):
            return status
    if (said := _debug_words(fact)) is not None:
        return said
    error = getattr(fact, "error", None)
    return error.message if isinstance(error, Failure) else _writes(getattr(fact, "set", {}))


def _debug_words(fact: Fact) -> str | None:
    match fact:
        case facts.BreakpointSet(place=place, when=when, once=once, by=by, error=error):
            condition = f"when {when}" if when else ""
            words = (place, condition, "once" if once else "", f"by {by}" if by else "", error)
            return ", ".join(filter(None, words))
        case facts.BreakpointCleared(place=place, by=by):
            return f"{place}, by {by}" if by else place
        case facts.HoldReleased(step=step, by=by):
            return ", ".join(filter(None, ("for one step" if step else "continues", f"by {by}" if by else "")))
        case facts.ScopeChanged():
            return change_words(fact)
    return None


def _iterations(named: tuple[int, ...]) -> str:
    """`, only [2], [5]`; "": a retry names none."""
    shown = ", ".join(f"[{index}]" for index in named[:ITERATIONS_SHOWN_MAX])
    return f", only {shown}{', …' if len(named) > ITERATIONS_SHOWN_MAX else ''}" if named else ""


def _input(given: Mapping[str, object]) -> str:
    return f"input {', '.join(given)}" if given else ""


def _task(fact: facts.TaskDone) -> str:
    error = fact.error or (fact.output.error if fact.output is not None else None)
    again = f", attempt {fact.attempt}" if fact.attempt > 1 else ""
    again += f", {tries} tries" if (tries := tries_of(fact.output)) > 1 else ""
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
        case facts.TaskDone(directive="fail") | facts.StepFailed() | facts.IterationFailed() | facts.FrameLost():
            return True
        case facts.Finished(status=status) | facts.Processed(status=status):
            return status in _BAD
    return getattr(fact, "error", None) is not None
