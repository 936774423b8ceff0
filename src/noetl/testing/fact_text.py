"""Facts as lines of a transcript: the name, the subject, and the decision."""

from __future__ import annotations

import json

from noetl.engine import facts
from noetl.engine.facts import Fact, Token
from noetl.output import JSON, Failure, Output


def describe_fact(fact: Fact) -> tuple[str, str, str]:
    """Return (name, subject, particulars)."""
    name = fact.__struct_config__.tag
    assert isinstance(name, str)
    match fact:
        case facts.Requested(workload=workload):
            return name, "", _shown(workload) if workload else ""
        case facts.Evaluated(error=error):
            return name, "", _failure(error)
        case facts.Started(token=token):
            return name, "", _token(token)
        case facts.StepWaiting(token=token_id, join=join, reads=reads):
            why = "for the others" if join else "until " + ", ".join("ctx." + ".".join(each) for each in reads)
            return name, token_id, why if join or reads else "forever"
        case facts.StepScheduled(run=run, tokens=tokens, input=input, parent=parent, deadline_at=deadline):
            words = [f"by {', '.join(tokens)}"] if tokens else []
            words += [f"called by {parent}"] if parent else []
            words += [f"retries {fact.retry_of}"] if fact.retry_of else []
            words += ["from the start"] if fact.from_start else []
            words += [f"input {_shown(input)}"] if input else []
            words += [f"deadline {deadline:%H:%M:%S}"] if deadline else []
            return name, run, "; ".join(words)
        case facts.StepStarted(run=run, timeout_at=timeout):
            return name, run, f"timeout {timeout:%H:%M:%S}" if timeout else ""
        case facts.TaskDone():
            return name, f"{fact.frame}/{fact.call}", _task(fact)
        case facts.FrameParked(frame=frame, until=until):
            return name, frame, _until(until)
        case facts.FrameResumed(frame=frame, output=output, set=written):
            words = [_output(output)] if output else []
            words += [f"set {_shown(written)}"] if written else []
            return name, frame, "; ".join(words)
        case facts.LoopStarted(run=run, count=count, width=width, parallel=parallel):
            return name, run, f"{count} items, {f'{width} at a time' if parallel else 'one by one'}"
        case facts.IterationDone(run=run, index=index):
            return name, f"{run}[{index}]", ""
        case facts.IterationFailed(run=run, index=index, error=error, stop=stop):
            return name, f"{run}[{index}]", _failure(error) + ("; no more" if stop else "")
        case facts.LoopDone(run=run, output=output, set=written):
            words = [_output(output), _shown(output.meta)]
            words += [f"set {_shown(written)}"] if written else []
            return name, run, "; ".join(words)
        case facts.StepDone(run=run, output=output):
            return name, run, _output(output) if output else ""
        case facts.StepFailed(run=failed_run, tokens=spent, error=error):
            return name, failed_run or ", ".join(spent), _failure(error)
        case facts.NextEvaluated(run=run):
            return name, run, _next(fact)
        case facts.Cancelled(reason=reason):
            return name, "", reason
        case facts.Retried(runs=runs, tokens=spent):
            return name, "", ", ".join((*runs, *spent))
        case facts.Finished(status=status, output=output, error=error, waiting=waiting):
            words = [status, _failure(error), _output(output) if output else ""]
            words += [f"never admitted: {', '.join(waiting)}"] if waiting else []
            return name, "", "; ".join(filter(None, words))
        case facts.Processed(status=status):
            return name, "", status
        case _:
            return name, "", ""


def _task(fact: facts.TaskDone) -> str:
    words = [f"{fact.task} {fact.status}"]
    if fact.output is not None and fact.output.data is not None:
        words[0] += f" {_shown(fact.output.data)}"
    rule = "" if fact.rule is None else f" by rule {fact.rule}"
    to = f" to {fact.next}" if fact.directive == "jump" else ""
    words.append(f"{fact.directive}{to}{rule}" + (f" #{fact.attempt}" if fact.attempt > 1 else ""))
    words += [f"not before {fact.until:%H:%M:%S.%f}"[:-3]] if fact.until else []
    words += [_failure(fact.error)] if fact.error else []
    words += [f"set {_shown(fact.set)}"] if fact.set else []
    return "; ".join(words)


def _next(fact: facts.NextEvaluated) -> str:
    words = [f"set {_shown(fact.set)}"] if fact.set else []
    words += [f"asked {', '.join(f'{place} {_yes(held)}' for place, held in fact.asked)}"] if fact.asked else []
    words += [_token(token) for token in fact.tokens]
    words += ["→ end"] * fact.ended
    words += [_failure(fact.error)] if fact.error else []
    return "; ".join(words)


def _yes(held: bool) -> str:
    return "yes" if held else "no"


def _token(token: Token) -> str:
    return f"{token.id} → {token.step}" + (f" {_shown(token.input)}" if token.input else "")


def _until(until: facts.Until) -> str:
    match until:
        case facts.ForTime(at=at):
            return f"until {at:%H:%M:%S}"
        case facts.ForSignal(name=name):
            return f"for signal {name}"
        case facts.ForBlock(block=block, input=input):
            return f"calls {block}" + (f" {_shown(input)}" if input else "")
        case facts.ForChild(path=path, workload=workload):
            return f"calls playbook {path}" + (f" {_shown(workload)}" if workload else "")


def _output(output: Output) -> str:
    words: list[str] = [output.status]
    if output.data is not None:
        words.append(_shown(output.data))
    if output.ref is not None:
        words.append("by reference")
    if output.error is not None:
        words.append(_failure(output.error))
    return " ".join(words)


def _failure(error: Failure | None) -> str:
    return f"{error.kind}: {error.message}" if error else ""


def _shown(value: JSON) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:119] + "…"
