"""Cron triggers for days of virtual time, with servers that crash, stall and are cut off: every firing is one execution.

TRIGGERS and DAYS set the size. `TRIGGERS=1000 DAYS=10 sh scripts/test simulation/test_triggers.py -- -k faults -n 0 -s`
takes about half an hour of CPU and prints each hour that it has checked. FIRST_HOUR=127 leaves out the hours before.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest

from noetl.adapters.memory_triggers import MemoryTriggers
from noetl.control.triggers import DueTrigger, Triggers, declared_triggers, due_times
from noetl.errors import Conflict, Fenced, Unavailable
from noetl.net.triggers import Schedule, trigger_of
from noetl.output import JSON
from noetl.ports import Firing, StoredTrigger
from noetl.testing.fake_clock import START
from noetl.testing.memory_runtime import MemoryPrograms
from noetl.testing.simulator.triggers import SimTriggers, StartedExecutions, TriggerFaults
from noetl.views.log import instant
from tests.playbooks import HEAD, kinds
from tests.sizes import FULL

COUNT = int(os.environ.get("TRIGGERS", 50 if FULL else 20))
DAYS = float(os.environ.get("DAYS", 0.5 if FULL else 0.1))
FIRST_HOUR = int(os.environ.get("FIRST_HOUR", 0))  # of the DAYS; each hour has a seed of its own
PART_S = 3_600.0
PER_PLAYBOOK = 50
MINUTE = timedelta(minutes=1)
CALM_S = 630.0  # firings are at :00, :20 and :40 of a minute
CALM = TriggerFaults(every_s=1e9, all_down=0.0, lost=0.0)


class SkipTriggers(MemoryTriggers):
    """Notes the times that a trigger skipped."""

    def __init__(self) -> None:
        super().__init__(lambda path: path, history_max=1)
        self.skipped: dict[tuple[str, str], set[datetime]] = {}
        self.checked: dict[str, datetime] = {}  # by trigger: the first time that has not been compared with the log

    async def advance(
        self, trigger: StoredTrigger, scheduled_at: datetime, due_at: datetime, firings: Sequence[Firing]
    ) -> bool:
        done = await super().advance(trigger, scheduled_at, due_at, firings)
        for each in firings if done else ():
            assert each.status in ("started", "skipped"), each
            if each.status == "skipped":
                at, last = trigger.scheduled_at, each.scheduled_at
                assert at is not None
                assert last is not None
                while at <= last:
                    self.skipped.setdefault((trigger.path, trigger.name), set()).add(at)
                    at += MINUTE
        return done


class Outcome(NamedTuple):
    """What happened to all firings."""

    firings: int
    started: int
    skipped: int
    faults: int
    latest: float


def catchup_of(number: int) -> str:
    return {0: "none", 1: "last"}.get(number % 10, "all")


def playbooks(count: int) -> MemoryPrograms:
    """So many triggers that fire every minute, in several playbooks."""
    programs = MemoryPrograms({}, kinds())
    for first in range(0, count, PER_PLAYBOOK):
        rows = "".join(
            f'- {{name: t{number}, kind: cron, cron: "* * * * *", jitter_s: {number % 3 * 20}, catchup: '
            f"{catchup_of(number)}, workload: {{at: '{{{{ trigger.scheduled_at }}}}'}}}}\n"
            for number in range(first, min(first + PER_PLAYBOOK, count))
        )
        head = HEAD.replace("path: t", f"path: p{first}") + "workload: {at: ''}\ntriggers:\n"
        programs.add(f"{head}{rows}workflow:\n- step: start\n  tool: {{kind: noop}}\n", f"p{first}")
    return programs


def simulate(
    seed: int,
    count: int,
    seconds: float,
    service: type[Triggers] = Triggers,
    faults: TriggerFaults | None = None,
    *,
    first: int = 0,
) -> Outcome:
    """`first`: the hour that it begins with. Raises AssertionError if a firing has another number of executions than one."""
    programs, store, log = playbooks(count), SkipTriggers(), StartedExecutions()
    begin = START + timedelta(seconds=first * PART_S)
    for path, program in programs.programs.items():
        _declare(store, path, declared_triggers(program, begin))
    cluster = SimTriggers(programs, store, log, faults=faults, service=service)
    found, elapsed, part = Counter[str](), 0.0, first
    while elapsed < seconds:
        cluster.run(seed * 100_000 + part, begin + timedelta(seconds=elapsed), min(PART_S, seconds - elapsed))
        elapsed, part = elapsed + PART_S, part + 1
        found += _check(store, log, begin, settled=False)
        print(f"hour {part}: {dict(found)}, {cluster.faults} faults", flush=True)
    calm = SimTriggers(programs, store, log, faults=CALM, service=service)
    # What is overdue is caught up. It ends between two firings: one that has just started is not handled yet.
    calm.run(seed * 100_000 + part, begin + timedelta(seconds=elapsed), CALM_S)
    found += _check(store, log, begin, settled=True)
    latest = max(_first_open(store).values())
    return Outcome(found["firings"], found["started"], found["skipped"], cluster.faults, (latest - begin) / MINUTE)


def _declare(store: MemoryTriggers, path: str, rows: Sequence[StoredTrigger]) -> None:
    work = store.declare(path, path, rows)
    with pytest.raises(StopIteration):
        work.send(None)


def _first_open(store: MemoryTriggers) -> dict[str, datetime]:
    """By trigger: the first time that is not handled."""
    found = {}
    for (path, name), row in store.rows.items():
        assert row.scheduled_at is not None
        found[f"trigger {path}:{name}"] = row.scheduled_at
    return found


def _check(store: SkipTriggers, log: StartedExecutions, begin: datetime, *, settled: bool) -> Counter[str]:
    """Compare the log with the times that have been handled, and forget them."""
    found: Counter[str] = Counter()
    for (path, name), row in store.rows.items():
        by, skipped = f"trigger {path}:{name}", store.skipped.pop((path, name), set())
        assert row.scheduled_at is not None
        first = store.checked.get(by, begin + MINUTE)
        at = first
        while at < row.scheduled_at:
            count = log.counts.pop((by, instant(at)), 0)
            may_skip = at in skipped and trigger_of(row.declaration).catchup != "all"
            assert count == 1 or (count == 0 and may_skip), f"{by} at {instant(at)}: {count} executions"
            found["firings"] += 1
            found["started" if count else "skipped"] += 1
            at += MINUTE
        store.checked[by] = at
    if settled:
        assert not log.counts, f"executions that no trigger accounts for: {list(log.counts)[:3]}"
    return found


def test_every_firing_is_one_execution_with_faults() -> None:
    began = time.process_time()
    hours = DAYS * 24 - FIRST_HOUR
    outcome = simulate(1, COUNT, hours * 3_600, first=FIRST_HOUR)
    print(f"{outcome} in {time.process_time() - began:.0f} s of CPU")
    assert outcome.firings >= COUNT * hours * 60
    assert outcome.started > outcome.firings * 0.9
    assert outcome.skipped > 0
    assert outcome.faults > hours * 40


def test_without_faults_nothing_is_skipped() -> None:
    outcome = simulate(2, 10, 3_600, faults=CALM)
    assert (outcome.skipped, outcome.started) == (0, outcome.firings)


class AdvancesFirst(Triggers):
    """The next time is committed before the start: a crash in between loses a firing."""

    async def _fire_scheduled(self, row: StoredTrigger) -> None:
        assert row.scheduled_at is not None
        schedule = Schedule(trigger_of(row.declaration), row.since)
        due = due_times(schedule, row.path, row.scheduled_at, self._now())
        with suppress(Unavailable):
            await self.store.advance(row, due.next, due.next + schedule.jitter(row.path, due.next), [])
            await super()._fire_scheduled(row)


class RandomKey(Triggers):
    """The id of the execution is a new one each time."""

    async def start(
        self, row: StoredTrigger, key: str, scope: dict[str, JSON], scheduled_at: datetime | None = None
    ) -> Firing:
        return await super().start(row, f"{key} {self._clock.chance()}", scope, scheduled_at)


class IgnoresOutages(Triggers):
    """A start that failed counts as done."""

    async def start(
        self, row: StoredTrigger, key: str, scope: dict[str, JSON], scheduled_at: datetime | None = None
    ) -> Firing:
        try:
            return await super().start(row, key, scope, scheduled_at)
        except (Unavailable, Conflict, Fenced):
            return Firing(self._now(), "started", key, scheduled_at)


class ForgetsMissed(Triggers):
    """After an outage, only the last time starts an execution, with any `catchup`."""

    def _due(self, schedule: Schedule, path: str, first: datetime) -> DueTrigger:
        due = super()._due(schedule, path, first)
        return due._replace(times=due.times[-1:])


@pytest.mark.parametrize("bug", [AdvancesFirst, RandomKey, IgnoresOutages, ForgetsMissed])
def test_a_planted_bug_is_found(bug: type[Triggers]) -> None:
    assert any(_misses(seed, bug) for seed in range(10))


def _misses(seed: int, bug: type[Triggers]) -> bool:
    """Whether a firing has another number of executions than one."""
    try:
        simulate(seed, 20, 1_800, bug)
    except AssertionError as error:
        if " executions" not in str(error):
            raise
        return True
    return False
