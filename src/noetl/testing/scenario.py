"""Scenarios: a playbook, commands and all facts that follow, as text; `--rewrite` updates the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from textwrap import dedent

import msgspec
from msgspec.structs import replace

from noetl.checks.checker import check
from noetl.control.children import refused_document, without_document
from noetl.control.playbooks import document_problems
from noetl.engine import Agenda, Event, Recorded, apply, facts, handle
from noetl.engine.apply import advance
from noetl.engine.commands import (
    LEVEL,
    Cancel,
    Change,
    ClearBreakpoint,
    Close,
    Command,
    Exceed,
    Expire,
    Lose,
    Pause,
    Permitted,
    Release,
    Report,
    Resume,
    Retry,
    SetBreakpoint,
    Signal,
    Start,
    Wake,
)
from noetl.engine.facts import Fact, ForTime, FrameParked, TaskDone, TaskStarted, Token
from noetl.engine.moves import Answered, Decided, Park, RunTask, due, work_of
from noetl.engine.pipeline import next_move, take
from noetl.engine.state import State
from noetl.errors import PlaybookError, Rejected
from noetl.ids import frame_parts
from noetl.net.program import Program
from noetl.output import JSON, Failure, Output, tries_of
from noetl.playbook.kinds import Kinds
from noetl.ports import LogRow
from noetl.views.audit import findings
from noetl.views.log import events_of, folded
from noetl.worker.tries import noted


def describe_fact(fact: Fact) -> tuple[str, str, str]:
    """Return (name, subject, particulars)."""
    name = fact.__struct_config__.tag
    assert isinstance(name, str)
    match fact:
        case facts.Requested(workload=workload, ctx=ctx, labels=labels):
            shown = [_shown(workload)] if workload else []
            shown += [f"ctx {_shown(ctx)}"] if ctx else []
            return name, "", "; ".join([*shown, *([f"labels {_shown(labels)}"] if labels else [])])
        case facts.Evaluated(error=error):
            return name, "", _failure(error)
        case facts.Started(token=token, saved=saved):
            return name, "", _token(token) + (f"; saved {_shown(saved)}" if saved else "")
        case facts.StepWaiting(token=token_id, limit=str(limit), key=key, run=waiting_run):
            return name, waiting_run or token_id, f"for {limit} of {_shown(key)}"
        case facts.PermitGranted(run=permitted):
            return name, permitted or "", ""
        case facts.StepWaiting(token=token_id, join=join, reads=reads):
            why = "for the others" if join else "until " + ", ".join("ctx." + ".".join(each) for each in reads)
            return name, token_id, why if join or reads else "forever"
        case facts.StepScheduled(run=run, tokens=tokens, input=input, parent=parent, deadline_at=deadline):
            words = [f"by {', '.join(tokens)}"] if tokens else []
            words += [f"called by {parent}"] if parent else []
            words += [f"compensates {fact.compensates}"] if fact.compensates else []
            words += [f"retries {fact.retry_of}"] if fact.retry_of else []
            words += [f"only {', '.join(map(str, fact.iterations))}"] if fact.iterations else []
            words += ["from the start"] if fact.from_start else []
            words += [f"input {_shown(input)}"] if input else []
            words += [f"deadline {deadline:%H:%M:%S}"] if deadline else []
            words += [_until(fact.hold)] if fact.hold else []
            return name, run, "; ".join(words)
        case facts.StepStarted(run=run, timeout_at=timeout):
            return name, run, f"timeout {timeout:%H:%M:%S}" if timeout else ""
        case facts.TaskStarted(frame=frame, call=call, task=task, attempt=attempt, started_at=started_at):
            again = f" #{attempt}" if attempt > 1 else ""
            return name, f"{frame}/{call}", f"{task}{again} since {started_at:%H:%M:%S}" + _on(fact.worker, fact.epoch)
        case facts.FrameLost(frame=frame, call=call, task=task, started_at=started):
            since = f" since {started:%H:%M:%S}" if started else ""
            return name, f"{frame}/{call}", f"{task}{since}" + _on(fact.worker, fact.epoch)
        case facts.TaskDone():
            return name, f"{fact.frame}/{fact.call}", _task(fact)
        case facts.FrameParked(frame=frame, until=until, tries=tries):
            return name, frame, _until(until) + (f"; after try {tries[-1]['try']}" if tries else "")
        case facts.FrameResumed(frame=frame, output=output, set=written):
            words = [_output_text(output)] if output else []
            words += [f"set {_shown(written)}"] if written else []
            return name, frame, "; ".join(words)
        case facts.LoopStarted(run=run, count=count, width=width, parallel=parallel):
            return name, run, f"{count} items, {f'{width} at a time' if parallel else 'one by one'}"
        case facts.IterationDone(run=run, index=index):
            return name, f"{run}[{index}]", ""
        case facts.IterationFailed(run=run, index=index, error=error, stop=stop):
            return name, f"{run}[{index}]", _failure(error) + ("; no more" if stop else "")
        case facts.LoopDone(run=run, output=output, set=written):
            words = [_output_text(output), _shown(output.meta)]
            words += [f"set {_shown(written)}"] if written else []
            return name, run, "; ".join(words)
        case facts.StepDone(run=run, output=output):
            return name, run, _output_text(output) if output else ""
        case facts.StepFailed(run=failed_run, tokens=spent, error=error):
            return name, failed_run or ", ".join(spent), _failure(error)
        case facts.NextEvaluated(run=run):
            return name, run, _next(fact)
        case facts.BreakpointSet(place=place, when=when, once=once, error=wrong):
            return name, place, "; ".join(filter(None, (when, "once" if once else "", wrong)))
        case facts.BreakpointCleared(place=place):
            return name, place, ""
        case facts.HoldReleased(at=at, step=step):
            return name, at, "for one step" if step else ""
        case facts.ScopeChanged(at=at, set=written):
            return name, at, f"set {_shown(written)}"
        case facts.Cancelled(reason=reason, compensate=compensate):
            return name, "", "; ".join(filter(None, (reason, "compensate" if compensate else "")))
        case facts.Compensating(status=status, error=error, runs=runs):
            return name, "", f"{', '.join(runs)}; then {status}; {_failure(error)}"
        case facts.Retried(runs=runs, tokens=spent, compensations=compensations):
            return name, "", ", ".join((*runs, *spent, *compensations))
        case facts.Finished(status=status, output=output, error=error, waiting=waiting):
            words = [status, _failure(error), _output_text(output) if output else ""]
            words += [f"never admitted: {', '.join(waiting)}"] if waiting else []
            words += [f"not compensated: {', '.join(fact.uncompensated)}"] if fact.uncompensated else []
            return name, "", "; ".join(filter(None, words))
        case facts.Processed(status=status):
            return name, "", status
        case _:
            return name, "", ""


def _on(worker: str, epoch: tuple[int, int] | None) -> str:
    return f"; on {worker}" + (f", epoch {epoch[0]}.{epoch[1]}" if epoch else "")


def _task(fact: facts.TaskDone) -> str:
    words = [f"{fact.task} {fact.status}"]
    if fact.output is not None and fact.output.data is not None:
        words[0] += f" {_shown(fact.output.data)}"
    rule = "" if fact.rule is None else f" by rule {fact.rule}"
    to = f" to {fact.next}" if fact.directive == "jump" else ""
    words.append(f"{fact.directive}{to}{rule}" + (f" #{fact.attempt}" if fact.attempt > 1 else ""))
    words += [f"{tries} tries"] if (tries := tries_of(fact.output)) > 1 else []
    words += [f"not before {fact.until:%H:%M:%S.%f}"[:-3]] if fact.until else []
    words += [_failure(fact.error)] if fact.error else []
    words += [f"set {_shown(fact.set)}"] if fact.set else []
    return "; ".join(words)


def _next(fact: facts.NextEvaluated) -> str:
    words = [f"set {_shown(fact.set)}"] if fact.set else []
    asked = ", ".join(f"{place} {'yes' if held else 'no'}" for place, held in fact.asked)
    words += [f"asked {asked}"] if asked else []
    words += [_token(token) for token in fact.tokens]
    words += ["→ end"] * fact.ended
    words += [_failure(fact.error)] if fact.error else []
    return "; ".join(words)


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
        case facts.ForChild(path=path, digest=digest, workload=workload):
            named = path or f"document {(digest or '')[:8]}"
            return f"calls playbook {named}" + (f" {_shown(workload)}" if workload else "")
        case facts.ForPermit(limit=limit, key=key):
            return f"for {limit} of {_shown(key)}"
        case facts.ForDocument(digest=digest):
            return f"refuses document {digest[:8]}"
        case facts.ForDebugger(place=place, breakpoint=breakpoint, error=error):
            by = f"breakpoint {breakpoint}" if breakpoint else "a step"
            return f"held before {place} by {by}" + (f": {error}" if error else "")


def _output_text(output: Output) -> str:
    words: list[str] = [output.status]
    if output.data is not None:
        words.append(_shown(output.data))
    if output.ref is not None:
        words.append("by reference")
    if output.error is not None:
        words.append(_failure(output.error))
    return " ".join(words)


def _failure(error: Failure | None) -> str:
    if error is None:
        return ""
    details = f" {_shown(error.details)}" if error.kind == "rule" and error.details else ""
    cause = f" (cause: {_failure(error.cause)})" if error.cause else ""
    return f"{error.kind}: {error.message}{details}{cause}"


def _shown(value: JSON) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:119] + "…"


def audit(execution_id: str, rows: list[LogRow]) -> State:
    """The state that the log folds to. Raises AssertionError with the findings of the audit."""
    found = findings(events_of(rows))
    assert not found, f"{execution_id}: " + "; ".join(f"{each.seq} {each.code}: {each.message}" for each in found)
    return folded(execution_id, events_of(rows))


HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: scenario, path: scenario}\n"
ANSWER = "----"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Player:
    """One execution, driven by the commands of a scenario."""

    def __init__(self, text: str, kinds: Kinds) -> None:
        checked = check(HEAD + dedent(text), kinds, "scenario")
        if checked.errors or checked.program is None:
            raise PlaybookError(checked.errors)
        self.kinds = kinds
        self.program: Program = checked.program._replace(digest="digest")
        self.state = State(execution_id="e")
        self.log: list[Event] = []
        self.agenda: Agenda = {}
        self.at = START
        self.grants = 0
        self.held: dict[str, tuple[int, int]] = {}  # frame → the epoch of the worker that has begun it

    def play(self, line: str) -> list[str]:
        """Run one command; returns the resulting facts, one per line."""
        lines: list[str] = []
        try:
            command = self._command(line)
            if command is not None:
                lines += self._handle(command)
            lines += self._run_by_itself()
        except Rejected as error:
            lines.append(f"rejected {error}")
        except Recorded:
            lines.append("already recorded")
        self._compare()
        waiting = list(due(self.state))
        if waiting:
            lines.append(f"work: {', '.join(waiting)}")
        return lines

    def _command(self, line: str) -> Command | None:
        verb, _, rest = line.partition(" ")
        word, _, more = rest.partition(" ")
        match verb:
            case "start":
                return _start(word, more, rest)
            case "report":
                return self._call(word, more)
            case "after":
                self.at += timedelta(seconds=float(rest))
                return None
            case "wake":
                return Wake(frame=word, output=_output(more) if more else None)
            case "signal":
                return Signal(name=word, data=json.loads(more or "null"))
            case "begin":
                return Report(frame=word, position=0, epoch=self._grant(word), started_at=self.at)
            case "try":
                seconds, _, answer = more.partition(" ")
                return self._tried(word, float(seconds), answer)
            case "running":
                return self._running(word, float(more or 0))
            case "lose":
                worker, _, grant = more.partition(" ")
                epoch = (1, int(grant)) if grant else self.held.pop(word, (1, self.grants))
                return Lose(frame=word, worker=worker, epoch=epoch)
            case "expire":
                return self._expire(word)
            case "permit":
                return Permitted(permit=rest)
            case "pause":
                return Pause()
            case "resume":
                return Resume()
            case "cancel":
                compensate = word == "--compensate"
                return Cancel(reason=more if compensate else rest, compensate=compensate)
            case "close":
                return Close()
            case "exceed":
                return Exceed(error=Failure(kind="limit", message=rest))
            case "retry":
                return self._retry(rest.split())
            case "break" | "clear" | "release" | "step" | "change":
                return debug_command(verb, word, more)
            case "refuse":
                return Start(error=Failure(kind=word, message=more))
        raise AssertionError(f"no such command: {line}")

    def _retry(self, words: list[str]) -> Retry:
        if words[:1] == ["--held"]:
            return Retry(held=words[1], permit=f"@{self.state.seq}")
        return retry_of(words)

    def _handle(self, command: Command) -> list[str]:
        events = handle(self.program, self.state, command, self.at, self.agenda)
        self.log += events
        return [_line(event) for event in events]

    def _grant(self, frame: str) -> tuple[int, int]:
        """The epoch of the worker that holds the frame."""
        if frame not in self.held:
            self.grants += 1
            self.held[frame] = (1, self.grants)
        return self.held[frame]

    def _running(self, frame: str, seconds: float) -> Report:
        """The next call of the frame has run for this many seconds."""
        work = work_of(self.program, self.state, frame)
        move, call = next_move(work, self.at), work.frame.calls + 1
        assert isinstance(move, RunTask), f"{frame} makes no call now: {move}"
        at = self.at - timedelta(seconds=seconds)
        running = TaskStarted(
            frame=frame, call=call, task=move.task.name, attempt=move.attempt, started_at=at, worker="w"
        )
        return Report(frame=frame, position=call - 1, epoch=self._grant(frame), started_at=at, running=running)

    def _tried(self, frame: str, seconds: float, answer: str) -> Report:
        """A try of the next call has failed, and spec.retry repeats it after this many seconds (D92)."""
        work = work_of(self.program, self.state, frame)
        assert isinstance(next_move(work, self.at), RunTask), f"{frame} makes no call now"
        until = ForTime(at=self.at + timedelta(seconds=seconds))
        tries = noted(work.frame.tries, _output(answer), 0.0)
        parked = FrameParked(frame=frame, call=work.frame.calls + 1, until=until, tries=tries)
        epoch = self._grant(frame)
        del self.held[frame]
        return Report(frame=frame, position=work.frame.calls, parked=parked, epoch=epoch)

    def _expire(self, id: str) -> Expire:
        run = self.state.runs.get(id)
        if run is None:
            return Expire(run=id)
        pipeline = self.program.pipeline(run.step, block=run.block)
        return Expire(run=id, timeout_s=pipeline.timeout_s, deadline_s=pipeline.deadline_s)

    def _call(self, frame: str, answer: str) -> Report:
        """The report of the call that the frame waits for, with this answer."""
        run = self.state.runs.get(frame_parts(frame)[0])
        if run is None or run.output is not None:
            raise Recorded
        work = work_of(self.program, self.state, frame)
        epoch = self._grant(frame)
        del self.held[frame]
        position = work.frame.calls
        made: list[TaskDone] = []
        while True:
            move = next_move(work, self.at)
            if isinstance(move, Decided):
                fact = move.fact
            elif isinstance(move, RunTask):
                output = _output(answer)
                if tries := work.frame.tries:
                    output = replace(output, meta={"tries": list(noted(tries, output, 0.0))})
                fact = take(work, move, output, self.at)
            else:
                raise AssertionError(f"{frame} makes no call now: {move}")
            made.append(fact)
            advance(work.frame, fact)
            if isinstance(move, RunTask):
                return Report(frame=frame, position=position, facts=tuple(made), epoch=epoch)

    def _run_by_itself(self) -> list[str]:
        """Run all frames up to their next call."""
        lines: list[str] = []
        while (report := next(self._reports(), None)) is not None:
            lines += self._handle(report)
        return lines

    def _reports(self) -> Iterator[Report]:
        for frame in list(due(self.state)):
            work = work_of(self.program, self.state, frame)
            position = work.frame.calls
            made: list[TaskDone] = []
            parked: FrameParked | None = None
            document: str | None = None
            while True:
                move = next_move(work, self.at)
                if isinstance(move, Decided):
                    fact = move.fact
                elif isinstance(move, Answered):
                    fact = take(work, move, move.output, self.at)
                elif isinstance(move, RunTask) and move.task.kind == "noop":
                    data = move.input or work.frame.prev
                    fact = take(work, move, Output(data=data), self.at)
                else:
                    parked, document = (move.fact, move.document) if isinstance(move, Park) else (None, None)
                    break
                made.append(fact)
                advance(work.frame, fact)
            if made or parked:
                self.grants += 1
                report = Report(
                    frame=frame,
                    position=position,
                    facts=tuple(made),
                    parked=parked,
                    document=document,
                    epoch=(1, self.grants),
                )
                yield report if document is None else self._checked(report, document)

    def _checked(self, report: Report, document: str) -> Report:
        """What control does with the playbook that a task has made."""
        checked = check(document, self.kinds, "document")
        problems = document_problems(checked, self.program)
        if problems or checked.playbook is None:
            return without_document(report, refused_document(problems, document))
        return without_document(report, checked.playbook.path)

    def _compare(self) -> None:
        """Replay equals live: the log folds to the state."""
        folded = State(execution_id="e")
        for event in self.log:
            apply(folded, event.fact, event.at)
        assert msgspec.to_builtins(folded) == msgspec.to_builtins(self.state)


def retry_of(words: Sequence[str]) -> Retry:
    """`start 3 7 --from-start`: the step, and the iterations of it."""
    steps = [each for each in words if each != "--from-start" and not each.isdecimal()]
    return Retry(
        step=steps[0] if steps else None,
        iterations=tuple(int(each) for each in words if each.isdecimal()),
        from_start="--from-start" in words,
    )


def debug_command(verb: str, word: str, more: str) -> SetBreakpoint | ClearBreakpoint | Change | Release:
    match verb:
        case "break":
            once = more.startswith("once")
            return SetBreakpoint(place=word, when=more.removeprefix("once").strip() or None, once=once)
        case "clear":
            return ClearBreakpoint(place=word or None)
        case "change":
            return Change(at=word, set=json.loads(more))
    return Release(at=word or None, step=verb == "step")


def _start(word: str, more: str, rest: str) -> Start:
    match word:
        case "--child":
            word, _, rest = more.partition(" ")
            start = _start(word, rest, more)
            return replace(start, parent="parent/call#1@1", depth=1)
        case "--held":
            key, _, more = more.partition(" ")
            return Start(workload=json.loads(more or "{}"), held=key, level=LEVEL)
        case "--break":
            place, _, more = more.partition(" ")
            return Start(workload=json.loads(more or "{}"), level=LEVEL, breakpoints=(SetBreakpoint(place=place),))
        case "--ctx":
            return Start(ctx=json.loads(more), level=LEVEL)
        case "--saved":
            return Start(saved=json.loads(more), level=LEVEL)
    return Start(workload=json.loads(rest or "{}"), level=LEVEL)


def _output(text: str) -> Output:
    status, _, rest = text.partition(" ")
    if status == "ok":
        return Output(data=json.loads(rest) if rest else None)
    assert status == "error", text
    kind, _, rest = rest.partition(" ")
    own: dict[str, JSON] = json.loads(rest) if rest else {}
    return Output(status="error", error=Failure(kind=kind or "http", message="it did not work"), own=own)


def _line(event: Event) -> str:
    name, subject, particulars = describe_fact(event.fact)
    return f"{event.seq:<3} {name:<28} {subject:<14} {particulars}".rstrip()


def played(text: str, kinds: Kinds) -> Player:
    """The player, after all commands of a scenario."""
    _, playbook, commands = _parts(text)
    player = Player(playbook, kinds)
    for _, command in commands:
        player.play(command)
    return player


def replay(text: str, kinds: Kinds) -> str:
    """The scenario with the answers that the engine gives now."""
    head, playbook, commands = _parts(text)
    player = Player(playbook, kinds)
    lines = [*head, "playbook", *(f"  {line}".rstrip() for line in playbook.splitlines())]
    for comments, command in commands:
        lines += ["", *comments, command, ANSWER, *player.play(command)]
    return "\n".join(lines) + "\n"


def _parts(text: str) -> tuple[list[str], str, list[tuple[list[str], str]]]:
    lines = text.splitlines()
    place = lines.index("playbook")
    head = lines[:place]
    body: list[str] = []
    place += 1
    while place < len(lines) and (lines[place].startswith("  ") or not lines[place]):
        body.append(lines[place][2:])
        place += 1
    commands: list[tuple[list[str], str]] = []
    comments: list[str] = []
    answering = False
    for line in lines[place:]:
        if line == ANSWER:
            answering = True
        elif not line:
            answering = False
        elif not answering:
            if line.startswith("#"):
                comments.append(line)
            else:
                commands.append((comments, line))
                comments = []
    return head, "\n".join(body).rstrip() + "\n", commands
