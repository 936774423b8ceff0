"""The speed of decisions and folds, the size of logs, and whether the cost grows with the history (D50).

Run it with `python -m benchmarks engine`; `python -m benchmarks.engine` adds a profile.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from time import perf_counter
from typing import NamedTuple

import msgspec

from benchmarks.sizes import scaled
from noetl.checks.checker import check
from noetl.engine import Agenda, Event, apply, handle
from noetl.engine.apply import advance
from noetl.engine.commands import Command, Report, Start
from noetl.engine.facts import Fact
from noetl.engine.moves import RunTask, due_of, work_of
from noetl.engine.pipeline import next_move, take
from noetl.engine.state import State
from noetl.net.program import Program
from noetl.output import JSON, Output
from noetl.tool import Tools

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench}\nworkflow:\n"
STEP = "- step: {name}\n  tool: {{kind: noop}}\n  next: {{arcs: [{{step: {after}}}]}}\n"
LOOP = """\
- step: start
  loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 100}}
  tool: {kind: http, url: "https://example.org/{{ iter.item }}"}
"""
FOLDING = """\
- step: start
  loop:
    in: "{{ workload.items }}"
    iterator: item
    spec: {mode: parallel, max_in_flight: 10, policy: {reduce: {ctx.total: sum, ctx.most: max}}}
  tool: {kind: http, url: x, set: {ctx.total: "{{ iter.item }}", ctx.most: "{{ iter.item }}"}}
"""
CYCLE = """\
- step: start
  tool: {kind: noop}
  set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
  next: {arcs: [{step: back, when: "{{ ctx.n < workload.laps }}"}]}
- step: back
  tool: {kind: noop}
  next: {arcs: [{step: start}]}
"""
STEPS = scaled(1_000, 100)
ITEMS = scaled(10_000, 500)
AT = datetime(2026, 1, 1, tzinfo=UTC)
DATA = Output(data={"id": 17, "name": "a room with a view"})


class Story(NamedTuple):
    """One execution: its commands and its log."""

    program: Program
    commands: list[Command]
    log: list[Event]


def compiled(body: str) -> Program:
    kinds = Tools.installed().kinds()
    checked = check(HEAD + body, kinds, "bench")
    assert checked.program is not None
    assert not checked.errors, checked.errors
    return checked.program._replace(digest="digest")


def chain(steps: int) -> Program:
    names = ["start", *(f"step_{number}" for number in range(1, steps))]
    pairs = zip(names, [*names[1:], "end"], strict=True)
    return compiled("".join(STEP.format(name=name, after=after) for name, after in pairs))


class Worker:
    """Run the call of the oldest frame and report it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.state = State(execution_id="0199b3c2-7f00-7000-8000-000000000000")
        self.agenda: Agenda = {}
        self.epoch = 0

    def handle(self, command: Command) -> list[Event]:
        return handle(self.program, self.state, command, AT, self.agenda)

    def report(self, skip: int = 0) -> Report | None:
        """None: nothing is due. `skip`: the number of frames to leave out."""
        frames = (frame for run in self.state.runs.values() for frame in due_of(run))
        frame = next(islice(frames, skip, None), None)
        if frame is None:
            return None
        work = work_of(self.program, self.state, frame)
        move = next_move(work, AT)
        assert isinstance(move, RunTask)
        self.epoch += 1
        fact = msgspec.structs.replace(take(work, move, DATA, AT), started_at=AT, ms=12.5, epoch=(1, self.epoch))
        advance(work.frame, fact)
        return Report(frame=frame, position=fact.call - 1, facts=(fact,), epoch=(1, self.epoch))

    def commands(self, workload: dict[str, JSON]) -> Iterator[Command]:
        yield Start(workload=workload)
        while (report := self.report()) is not None:
            yield report


def play(program: Program, workload: dict[str, JSON]) -> Story:
    worker = Worker(program)
    commands: list[Command] = []
    log: list[Event] = []
    for command in worker.commands(workload):
        commands.append(command)
        log += worker.handle(command)
    assert not worker.state.live
    return Story(program, commands, log)


def decide(story: Story) -> None:
    worker = Worker(story.program)
    for command in story.commands:
        worker.handle(command)
    assert not worker.state.live


def fold(story: Story) -> None:
    state = State(execution_id="e")
    for event in story.log:
        apply(state, event.fact, event.at)


def read_and_fold(lines: list[bytes]) -> None:
    state = State(execution_id="e")
    read = msgspec.json.Decoder(Fact).decode
    for line in lines:
        apply(state, read(line), AT)


def best(work: object, *arguments: object) -> float:
    assert callable(work)
    taken = []
    for _ in range(3):
        begun = perf_counter()
        work(*arguments)
        taken.append(perf_counter() - begun)
    return min(taken)


def told(name: str, story: Story, count: int, unit: str) -> Iterator[tuple[str, float, str]]:
    lines = [msgspec.json.encode(event.fact) for event in story.log]
    facts = len(lines)
    yield f"engine: decide {name}", facts / best(decide, story), "facts/s"
    yield f"engine: fold {name}", facts / best(fold, story), "facts/s"
    yield f"engine: read and fold {name}", facts / best(read_and_fold, lines), "facts/s"
    # Items and results are in one fact each; the figure is the cost of one more.
    yield (
        f"engine: log of one {unit}",
        sum(len(line) for line in lines if len(line) < 10_000) / count,
        "bytes",
    )


def long_cycle(laps: int) -> Iterator[tuple[str, float, str]]:
    """Two steps in a cycle: the cost of a step early and late."""
    worker = Worker(compiled(CYCLE))
    early, late = [], []
    for place, command in enumerate(worker.commands({"laps": laps // 2})):
        begun = perf_counter()
        worker.handle(command)
        taken = perf_counter() - begun
        if 100 <= place < 1_100:
            early.append(taken)
        elif place >= laps - 1_000:
            late.append(taken)
    yield "engine: a step, after 100 steps", sorted(early)[len(early) // 2] * 1e6, "µs"
    yield f"engine: a step, after {laps:,} steps", sorted(late)[len(late) // 2] * 1e6, "µs"


def long_loop(count: int) -> Iterator[tuple[str, float, str]]:
    """The state just before the last iterations of a long loop."""
    worker = Worker(compiled(LOOP))
    early, late = [], []
    for place, command in enumerate(worker.commands({"items": list(range(count))})):
        if place > count - 100:
            break
        begun = perf_counter()
        worker.handle(command)
        taken = perf_counter() - begun
        if 100 <= place < 1_100:
            early.append(taken)
        elif place > count - 1_100:
            late.append(taken)
    state = worker.state
    whole = len(msgspec.msgpack.encode(state))
    (run,) = state.runs.values()
    assert run.loop is not None
    run.loop.items, state.workload = None, {}
    yield "engine: an iteration, after 100", sorted(early)[len(early) // 2] * 1e6, "µs"
    yield f"engine: an iteration, after {count:,}", sorted(late)[len(late) // 2] * 1e6, "µs"
    yield f"engine: state after {count:,} iterations", whole / 1024, "KiB"
    yield "… without the items themselves", len(msgspec.msgpack.encode(state)) / 1024, "KiB"


def held_loop(count: int) -> Iterator[tuple[str, float, str]]:
    """The first iteration ends last: results that wait for it must not accumulate."""
    worker = Worker(compiled(FOLDING))
    worker.handle(Start(workload={"items": list(range(count))}))
    first = worker.report()
    assert first is not None
    run = worker.state.runs["start#1"]
    assert run.loop is not None
    taken = []
    while len(run.loop.flying) > 1:
        report = worker.report(skip=1)
        assert report is not None
        begun = perf_counter()
        worker.handle(report)
        taken.append(perf_counter() - begun)
    run.loop.items, worker.state.workload = None, {}
    early, late = sorted(taken[100:1_100])[500], sorted(taken[-1_000:])[500]
    yield "engine: an iteration behind a slow one, after 100", early * 1e6, "µs"
    yield f"engine: an iteration behind a slow one, after {count:,}", late * 1e6, "µs"
    yield "… its state without the items", len(msgspec.msgpack.encode(worker.state)) / 1024, "KiB"


def measure() -> list[tuple[str, float, str]]:
    rows = [*told("a chain of 1,000 steps", play(chain(STEPS), {}), STEPS, "step")]
    loop = play(compiled(LOOP), {"items": list(range(ITEMS))})
    rows += told("a loop of 10,000, 100 at once", loop, ITEMS, "iteration")
    rows += long_cycle(scaled(100_000, 3_000))
    rows += long_loop(scaled(100_000, 3_000))
    rows += held_loop(scaled(20_000, 3_000))
    return rows


def profile() -> None:
    """Print a profile."""
    stories = {
        "chain": play(chain(1_000), {}),
        "loop": play(compiled(LOOP), {"items": list(range(10_000))}),
    }
    for name, story in stories.items():
        for work in (decide, fold):
            print(f"\n{name}: {work.__name__}, {len(story.log):,} facts")
            profiler = cProfile.Profile()
            profiler.runcall(work, story)
            pstats.Stats(profiler).sort_stats("tottime").print_stats(14)


if __name__ == "__main__":
    for what, value, unit in measure():
        print(f"{what:<50} {value:>14,.1f} {unit}")
    profile()
