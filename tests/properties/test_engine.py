"""The engine with random playbooks and schedules: executions end, replay exactly, and lose no token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from noetl.engine import Event, accept, apply, facts, handle
from noetl.engine.apply import put
from noetl.engine.commands import Command
from noetl.engine.facts import Fact, TaskDone, Token
from noetl.engine.loops import iteration_outputs
from noetl.engine.snapshot import freeze, thaw
from noetl.engine.state import State
from noetl.ids import START_TOKEN, frame_parts
from noetl.net.program import Program
from noetl.output import JSON
from noetl.template.compile import Template
from noetl.views.audit import findings
from tests.properties.driving import Drive, compiled, folded, plain, read_back
from tests.properties.executable import CALL_OUTPUTS, CallOutputs, Executable, executables
from tests.sizes import examples

ENDS = facts.StepDone | facts.StepFailed | facts.LoopDone
SCHEDULES = st.integers(0, 2**16)
SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


class Follower:
    """Reads the log of a drive while it grows: it folds to the same state, and a copy continues in the same way."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.state = State(execution_id="e")
        drive.listeners.append(self.follow)

    def follow(self, command: Command, events: list[Event]) -> None:
        program, live = self.drive.program, plain(self.drive.state)
        at = events[0].at
        accepted = len(accept(program, self.state, command, at))
        for place, each in enumerate(map(read_back, events), 1):
            fact = each.fact
            joins_in_time(program, self.state, fact)
            apply(self.state, fact, at)
            finished = isinstance(fact, facts.Finished)  # playbook.processed follows in the same batch
            if place >= accepted and not finished:
                other = thaw(freeze(self.state))
                assert other == self.state
                assert handle(program, other, None, at) == events[place:]
                assert plain(other) == live
        assert plain(self.state) == live
        assert [each.seq for each in events] == list(range(live["seq"] - len(events) + 1, live["seq"] + 1))
        sound(program, self.drive.state)
        self.drive.look()


def joins_in_time(program: Program, state: State, fact: Fact) -> None:
    """No join fires while a live token or a failed run can still reach it (D36)."""
    if isinstance(fact, facts.Finished) and fact.status != "cancelled":
        assert all(leads(program, state.broken, name) for name in state.joins)
    if not isinstance(fact, facts.StepScheduled) or fact.parent is not None or fact.compensates is not None:
        return
    if not program.steps[fact.step].join:
        return
    moving = {run.step for run in state.runs.values() if run.parent is None}
    moving |= {state.tokens[token].step for token in state.fresh}
    assert not leads(program, moving | set(state.broken), fact.step)


def leads(program: Program, steps: Iterable[str], target: str) -> bool:
    return any(program.reach[step] & program.bits[target] for step in steps)


def sound(program: Program, state: State) -> None:
    """The invariants of the net when nothing can fire."""
    assert {token.step for token in state.tokens.values()} <= set(program.steps)
    assert {run.step for run in state.runs.values() if not run.block} <= set(program.steps)
    assert {run.step for run in state.runs.values() if run.block} <= set(program.blocks)
    homes = [*state.fresh, *state.waiting, *(token for tokens in state.joins.values() for token in tokens)]
    assert sorted(homes) == sorted(state.tokens)
    frames = {frame.id for run in state.runs.values() for frame in run.frames.values()}
    for run in state.runs.values():
        assert run.parent is None or run.parent in frames
        if (loop := run.loop) is not None:
            left = loop.count - loop.succeeded - loop.failed
            assert len(loop.flying) <= loop.width
            assert loop.stopped or len(loop.flying) == min(loop.width, left), "max_in_flight is exact (D49)"
            assert set(run.frames) <= set(loop.flying)
    if state.compensation is not None:
        assert sum(run.parent is None for run in state.runs.values()) <= 1, "one compensation at a time (D116)"
    elif state.status == "running":
        assert not state.fresh
        assert [token for token in state.waiting if admissible(program, state, state.tokens[token])] == []


def admissible(program: Program, state: State, token: Token) -> bool:
    """Whether the step of a token admits it now: then it must not wait (D35)."""
    place = {"workload": state.workload, "ctx": state.ctx, "execution_id": state.execution_id}
    scope: dict[str, JSON] = {**place, "input": token.input, "event": token.event or {}}
    for guard in program.steps[token.step].admit or ():
        if guard.when is True or (isinstance(guard.when, Template) and guard.when.holds(scope)):
            return guard.allow
    return False


def audit(events: list[Event]) -> None:
    """Check the log alone: no token is lost, and nothing happens twice."""
    log = [each.fact for each in events]
    ends = [place for place, fact in enumerate(log) if isinstance(fact, facts.Finished)]
    assert ends[-1] == len(log) - 2
    assert all(isinstance(log[place + 1], facts.Processed) for place in ends)
    assert all(isinstance(log[place + 2], facts.Retried) for place in ends[:-1])
    assert sum(isinstance(fact, facts.Processed) for fact in log) == len(ends)
    scheduled = Counter(fact.run for fact in log if isinstance(fact, facts.StepScheduled))
    ended = Counter(fact.run for fact in log if isinstance(fact, ENDS) and fact.run is not None)
    assert set(scheduled.values()) <= {1}
    assert ended == scheduled
    finished = [fact for fact in log if isinstance(fact, facts.Finished)]
    if all(each.status != "cancelled" for each in finished):
        assert spent(log) + Counter(finished[-1].waiting) == made(log)
        routed = Counter(fact.run for fact in log if isinstance(fact, facts.NextEvaluated))
        routed.update(fact.run for fact in log if isinstance(fact, facts.FrameResumed) and fact.run is not None)
        assert set(routed.values()) <= {1}
        assert all("/" in run for run in scheduled if run not in routed), "a run outside of blocks was not routed"
    calls: dict[str, int] = {}
    for fact in log:
        if isinstance(fact, TaskDone):
            assert fact.call == calls.get(fact.frame, 0) + 1
            calls[fact.frame] = fact.call
    landed = [fact for fact in log if isinstance(fact, facts.IterationDone | facts.IterationFailed)]
    assert len({(fact.run, fact.index) for fact in landed}) == len(landed)


def undone(log: list[Fact]) -> None:
    """Completed runs are undone in reverse order of completion, each once, or listed at the end (D116)."""
    wanted = [fact.runs for fact in log if isinstance(fact, facts.Compensating)]
    assert len(wanted) <= 1
    tries = [fact for fact in log if isinstance(fact, facts.StepScheduled) and fact.compensates is not None]
    if not wanted:
        assert tries == []
        return
    ends = [fact.run for fact in log if isinstance(fact, ENDS) and fact.run in wanted[0]]
    assert tuple(ends[::-1]) == wanted[0], "the last to complete is the first"
    firsts = [each.compensates for each in tries if each.retry_of is None]
    assert firsts == list(wanted[0])[: len(firsts)]
    succeeded = {fact.run for fact in log if isinstance(fact, facts.StepDone)}
    done = [each.compensates for each in tries if each.run in succeeded]
    (finished,) = [fact for fact in log if isinstance(fact, facts.Finished)][-1:]
    assert sorted([*map(str, done), *finished.uncompensated]) == sorted(wanted[0])


def made(log: list[Fact]) -> Counter[str]:
    """The number of times that each token was made: once, and once more for a retry."""
    found = [token.id for fact in log if isinstance(fact, facts.NextEvaluated) for token in fact.tokens]
    assert len(set(found)) == len(found)
    found += [token for fact in log if isinstance(fact, facts.Retried) for token in fact.tokens]
    return Counter([START_TOKEN, *found])


def spent(log: Iterable[Fact]) -> Counter[str]:
    return Counter(
        token for fact in log if isinstance(fact, facts.StepScheduled | facts.StepFailed) for token in fact.tokens
    )


class Ledger:
    """Computes ctx and loop results from the log alone, by D28a, D30, D47 and D86."""

    def __init__(self) -> None:
        self.ctx: dict[str, JSON] = {}
        self.loops: dict[str, facts.LoopStarted] = {}
        self.parents: dict[str, str | None] = {}  # run → the frame that called it
        self.retried: set[str] = set()  # runs that inherit iterations
        self.starts: dict[str, dict[str, JSON]] = {}  # run → ctx when it was scheduled
        self.last: dict[str, JSON] = {}  # frame → data of the last task that ran
        self.writes: dict[str, dict[str, JSON]] = {}  # frame → its writes to ctx
        self.own: dict[str, dict[str, JSON]] = {}  # run of a nested loop → path that both loops fold → its start value

    def read(self, log: Iterable[Fact]) -> dict[str, JSON]:
        for fact in log:
            match fact:
                case facts.StepScheduled():
                    self.parents[fact.run], self.starts[fact.run] = fact.parent, self.ctx
                    if fact.retry_of in self.loops:  # it may continue the loop of the failed run
                        self.loops[fact.run] = self.loops[fact.retry_of]
                        self.retried.add(fact.run)
                case facts.LoopStarted():
                    self.loops[fact.run] = fact
                    self.own[fact.run] = self.starts_around(fact)
                case TaskDone():
                    if fact.output is not None and fact.directive != "retry":
                        self.last[fact.frame] = fact.output.data
                    self.write(fact.frame, fact.set)
                case facts.IterationFailed():
                    self.last.pop(f"{fact.run}[{fact.index}]", None)
                    self.writes.pop(f"{fact.run}[{fact.index}]", None)
                case facts.LoopDone():
                    self.loop(fact)
                    self.write(self.parents[fact.run], fact.set)
                case facts.FrameResumed() if fact.run is not None:
                    self.write(self.parents[fact.run], fact.set)
                case facts.NextEvaluated():
                    self.write(None, fact.set)
        return self.ctx

    def loop(self, fact: facts.LoopDone) -> None:
        if fact.run in self.retried:
            return
        loop = self.loops[fact.run]
        frames = [f"{fact.run}[{index}]" for index in range(loop.count)]
        if fact.output.ref is None:
            assert fact.output.data == [self.last.get(frame) for frame in frames]
        if not loop.parallel:
            return
        nested = self.parents[fact.run] is not None
        written = [(path, value) for frame in frames for path, value in self.writes.get(frame, {}).items()]
        expected: dict[str, JSON] = {}
        for path in dict(written):
            values = [value for each, value in written if each == path]
            name = path.removeprefix("ctx.")
            if not nested or name in self.own[fact.run]:
                start = self.own[fact.run][name] if nested else self.starts[fact.run].get(name)
                expected[path] = reduced(loop.reduce.get(name), start, values)
        assert {path: value for path, value in fact.set.items() if not nested or path in expected} == expected

    def starts_around(self, loop: facts.LoopStarted) -> dict[str, JSON]:
        """The writes of the outer iteration to paths that its loop folds, too: its loop counts them (D86)."""
        found: dict[str, JSON] = {}
        frame, seen = self.parents[loop.run], dict[str, JSON]()
        while frame is not None:
            run, index = frame_parts(frame)
            if index is not None and self.loops[run].parallel:
                seen = {**self.writes.get(frame, {}), **seen}
                for path in self.loops[run].reduce.keys() & loop.reduce.keys() - found.keys():
                    found[path] = seen.get(f"ctx.{path}")
            frame = self.parents[run]
        return found

    def write(self, frame: str | None, writes: dict[str, JSON]) -> None:
        """A write takes effect at once, except in an iteration of a parallel loop (D47)."""
        below = {target: value for target, value in writes.items() if target.startswith("ctx.")}
        while frame is not None:
            run, index = frame_parts(frame)
            if index is not None and self.loops[run].parallel:
                self.writes[frame] = {**self.writes.get(frame, {}), **below}
                return
            frame = self.parents[run]
        for target, value in below.items():
            self.ctx = put(self.ctx, tuple(target.split(".")[1:]), value)


def reduced(reducer: str | None, start: JSON, values: list[JSON]) -> JSON:
    """The result of a reducer for values in order, and a start value (D47, D86)."""
    numbers = [*([] if start is None else [start]), *values]
    match reducer:
        case "sum":
            return sum(numbers)
        case "min":
            return min(numbers)
        case "max":
            return max(numbers)
        case "count":
            return (start or 0) + len(values)
        case "append":
            return [*(start or []), *values]
        case "extend":
            return [*(start or []), *(each for value in values for each in value)]
        case "merge":
            return {key: each for value in numbers for key, each in value.items()}
        case "union":
            found: list[JSON] = list(start or [])
            for value in values:
                found += [each for each in (value if isinstance(value, list) else [value]) if each not in found]
            return found
        case "any":
            return any(numbers)
        case "all":
            return all(numbers)
        case "first":
            return numbers[0]
    assert reducer == "last" or all(value == values[0] for value in values), "a conflict was not reported"
    return values[-1]


def results_are_in_the_log(log: list[Fact]) -> None:
    """A ref to the results of a loop points to the same data that is inline while it is small (D30, D69)."""
    for fact in log:
        if isinstance(fact, facts.LoopDone) and fact.output.ref is None:
            found = [(output and output.data) for _, output in iteration_outputs(log, fact.run)]
            assert found == fact.output.data


def tallies(log: Iterable[Fact]) -> dict[str, list[int]]:
    """Run → the counts that its iterations passed on to each other."""
    found: dict[str, list[int]] = {}
    for fact in log:
        if isinstance(fact, TaskDone):
            counts = [value for target, value in fact.set.items() if target.endswith("_tally")]
            found.setdefault(frame_parts(fact.frame)[0], []).extend(counts)
    return found


@settings(SLOW, max_examples=examples(200))
@given(executables(calm=False), CALL_OUTPUTS, SCHEDULES)
def test_replay_equals_live_after_every_event_and_no_token_is_lost(
    executable: Executable, outputs: CallOutputs, schedule: int
) -> None:
    """D28a, D30, D34, D35, D36, D42, D47, D49: invariants of the idle net, and of the complete log."""
    drive = Drive(compiled(executable.document), outputs, schedule, wild=True)
    Follower(drive)
    drive.run()
    audit(drive.log)
    undone([each.fact for each in drive.log])
    assert findings(drive.log) == []
    assert Ledger().read(each.fact for each in drive.log) == drive.state.ctx
    results_are_in_the_log([each.fact for each in drive.log])
    event(f"{drive.state.status}, {len(drive.log) // 50 * 50}+ facts")


@settings(SLOW, max_examples=examples(150))
@given(executables(calm=False), CALL_OUTPUTS, SCHEDULES, st.integers(1, 9))
def test_an_interrupted_execution_ends_like_an_uninterrupted_one(
    executable: Executable, outputs: CallOutputs, schedule: int, every: int
) -> None:
    program = compiled(executable.document)
    whole = Drive(program, outputs, schedule, wild=True).run()
    broken = Drive(program, outputs, schedule, wild=True)

    def forget(_command: Command, _events: list[Event]) -> None:
        if broken.pick(every, "crash") == 0:
            broken.state, broken.agenda = folded(broken.log), None

    broken.listeners.append(forget)
    assert broken.run().log == whole.log


@settings(SLOW, max_examples=examples(150))
@given(executables(calm=True), CALL_OUTPUTS, st.lists(SCHEDULES, min_size=2, max_size=3, unique=True))
def test_without_races_the_order_of_reports_changes_nothing(
    executable: Executable, outputs: CallOutputs, schedules: list[int]
) -> None:
    """D47: status, ctx and output do not depend on the order of reports; sequential iterations share ctx (D28a)."""
    program = compiled(executable.document)
    ends = []
    for schedule in schedules:
        drive = Drive(program, outputs, schedule).run()
        state = drive.state
        for counts in tallies(each.fact for each in drive.log).values():
            assert counts == list(range(counts[0], counts[0] + len(counts))) if counts else True
        output = msgspec.to_builtins(state.end_output) if executable.steady else None
        ends.append((state.status, state.ctx, output))
    assert ends[1:] == ends[:-1]
