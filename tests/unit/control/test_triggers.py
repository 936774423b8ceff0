"""Triggers on a virtual clock: every firing starts one execution, even if servers stop in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random  # noqa: TID251  # with a seed

import pytest

from noetl.adapters.memory_triggers import MemoryTriggers
from noetl.control.triggers import Triggers, execution_of
from noetl.engine.facts import Requested
from noetl.errors import Unavailable
from noetl.ports import Firing, StoredTrigger
from noetl.testing.fake_clock import FakeClock
from noetl.testing.memory_runtime import MemoryRuntime, runtime
from noetl.views.log import instant
from tests.playbooks import HEAD

PLAYBOOK = (
    HEAD
    + "workload: {day: '', at: ''}\n"
    + "triggers:\n"
    + "{TRIGGERS}"
    + "workflow:\n- step: start\n  tool: {kind: noop, input: {at: '{{ workload.at }}'}}\n"
)
AT = "workload: {at: '{{ trigger.scheduled_at }}', day: \"{{ trigger.local_at | date('%Y-%m-%d') }}\"}"


class FaultyTriggers(MemoryTriggers):
    """Some writes fail, before or after they happened."""

    def __init__(self, random: Random) -> None:
        super().__init__(lambda _path: "t")
        self._random = random

    async def advance(
        self, trigger: StoredTrigger, scheduled_at: datetime, due_at: datetime, firings: Sequence[Firing]
    ) -> bool:
        chance = self._random.random()
        if chance < 0.2:
            raise Unavailable("before")
        done = await super().advance(trigger, scheduled_at, due_at, firings)
        if chance < 0.4:
            raise Unavailable("after")
        return done


def service(memory: MemoryRuntime, store: MemoryTriggers, owns: float = 1.0, random: Random | None = None) -> Triggers:
    """`owns`: the probability that this server thinks it fires a trigger, as during a change of owners."""
    chance = random or Random(0)
    ports = (store, memory.programs, memory.control, memory.store)
    return Triggers(*ports, memory.clock, now=memory.clock.now, owns=lambda _id: chance.random() < owns)


def started(memory: MemoryRuntime) -> list[Requested]:
    return [each.fact for each in memory.events if isinstance(each.fact, Requested)]


def text(*triggers: str) -> str:
    return PLAYBOOK.replace("{TRIGGERS}", "".join(f"- {{{each}}}\n" for each in triggers))


def test_a_trigger_starts_executions_at_its_times() -> None:
    async def work() -> None:
        clock = FakeClock()
        async with runtime(clock=clock) as memory:
            store = MemoryTriggers(lambda _path: "t")
            triggers = service(memory, store)
            zurich = "timezone: Europe/Zurich"
            memory.programs.add(text(f'name: nightly, kind: cron, cron: "30 0 * * *", {zurich}, {AT}'))
            await triggers.declare("t")
            for _ in range(48):
                clock.advance(3_600)
                await triggers.fire_due()
            found = started(memory)
            # 00:30 in Zurich is 23:30 in UTC, and the day is the one in Zurich.
            assert [each.workload for each in found] == [
                {"at": "2026-01-01T23:30:00Z", "day": "2026-01-02"},
                {"at": "2026-01-02T23:30:00Z", "day": "2026-01-03"},
            ]
            assert {each.by for each in found} == {"trigger t:nightly"}
            history = await store.history("t", "nightly")
            assert [(each.firing.status, each.firing.key) for each in history] == [
                ("started", "2026-01-02T23:30:00Z"), ("started", "2026-01-01T23:30:00Z"),
            ]  # fmt: skip
            assert history[0].firing.execution_id == execution_of("t", "nightly", "2026-01-02T23:30:00Z")

    asyncio.run(work())


@pytest.mark.parametrize("down", [(), range(9, 13)], ids=["running", "down during the change"])
@pytest.mark.parametrize(
    ("begin", "daily", "hourly"),
    [
        # 02:00 to 03:00 does not exist: 02:30 is due at 03:00, and a day has 23 hours.
        ("2026-03-28T16:00:00Z", ["2026-03-29T03:00:00"], 23),
        # 02:00 to 03:00 exists twice: 02:30 is due the first time, and a day has 25 hours.
        ("2026-10-24T15:00:00Z", ["2026-10-25T02:30:00"], 25),
    ],
    ids=["to summer time", "to winter time"],
)
def test_changes_of_the_clock_start_what_the_documentation_says(
    begin: str, daily: list[str], hourly: int, down: Sequence[int]
) -> None:
    """A day from 17:00 to 17:00 in Zurich. `down`: the hours in which no server runs."""

    async def work() -> None:
        clock = FakeClock(datetime.fromisoformat(begin))
        async with runtime(clock=clock) as memory:
            store = MemoryTriggers(lambda _path: "t")
            triggers = service(memory, store)
            zone = "timezone: Europe/Zurich, catchup: all, workload: {at: '{{ trigger.local_at }}'}"
            rows = {"daily": "30 2 * * *", "hourly": "0 * * * *", "even": "0 */2 * * *", "quarters": "*/15 2 * * *"}
            memory.programs.add(
                text(*(f'name: {name}, kind: cron, cron: "{cron}", {zone}' for name, cron in rows.items()))
            )
            await triggers.declare("t")
            for hour in range(hourly):
                for _ in range(60):
                    clock.advance(60)
                    if hour not in down:
                        await triggers.fire_due()
            found: dict[str, list[str]] = {name: [] for name in rows}
            for each in started(memory):
                found[str(each.by).removeprefix("trigger t:")].append(str(each.workload["at"]))
            assert found["daily"] == daily
            assert len(found["hourly"]) == hourly
            local = [at[11:13] for at in found["hourly"]]
            assert local.count("02") == hourly - 23
            assert len(found["quarters"]) == 4 * (hourly - 23)  # every minute and hour of the clock that exists
            assert all(int(at[11:13]) % 2 == 0 for at in found["even"])

    asyncio.run(work())


def test_every_firing_starts_one_execution_with_faults_and_two_servers() -> None:
    async def work(seed: int) -> None:
        clock, random = FakeClock(), Random(seed)
        async with runtime(clock=clock) as memory:
            store = FaultyTriggers(random)
            names = [f"t{number}" for number in range(5)]
            rows = [f'name: {name}, kind: cron, cron: "* * * * *", jitter_s: 20, catchup: all, {AT}' for name in names]
            memory.programs.add(text(*rows))
            servers = [service(memory, store, 0.7, random) for _ in range(2)]
            await servers[0].declare("t")
            begin = clock.now()
            for _ in range(150):
                clock.advance(random.choice((1, 1, 5, 30, 90, 600)))  # the last ones: no server ran
                rounds = (server.fire_due() for server in servers if random.random() < 0.8)
                await asyncio.gather(*rounds, return_exceptions=True)
            while await store.due(clock.now(), 100):
                await servers[0].fire_due()
            counted = Counter((str(each.by), each.workload["at"]) for each in started(memory))
            assert set(counted.values()) == {1}
            for name in names:
                until = (await store.get("t", name)).scheduled_at
                assert until is not None
                times = {at for by, at in counted if by == f"trigger t:{name}"}
                minutes = int((until - begin) / timedelta(minutes=1)) - 1
                assert times == {instant(begin + timedelta(minutes=minute)) for minute in range(1, minutes + 1)}
                assert minutes > 100

    asyncio.run(work(0))


def test_a_pause_skips_times_and_fire_ignores_the_schedule() -> None:
    async def work() -> None:
        clock = FakeClock()
        async with runtime(clock=clock) as memory:
            store = MemoryTriggers(lambda _path: "t")
            triggers = service(memory, store)
            memory.programs.add(text("name: poll, kind: interval, every_s: 60, catchup: all, " + AT))
            await triggers.declare("t")
            assert (await triggers.set_paused("t", "poll", paused=True)).paused
            clock.advance(3_600)
            await triggers.fire_due()
            assert started(memory) == []
            fired = await triggers.fire("t", "poll")
            assert (fired.status, len(started(memory))) == ("started", 1)
            resumed = await triggers.set_paused("t", "poll", paused=False)
            assert resumed.scheduled_at == clock.now() + timedelta(seconds=60)
            clock.advance(60)
            await triggers.fire_due()
            assert len(started(memory)) == 2

    asyncio.run(work())


def test_refused_requests_have_one_entry_per_second() -> None:
    async def work() -> None:
        clock = FakeClock()
        async with runtime(clock=clock) as memory:
            store = MemoryTriggers(lambda _path: "t")
            triggers = service(memory, store)
            memory.programs.add(text("name: order, kind: webhook, path: orders"))
            await triggers.declare("t")
            row = await store.get("t", "order")
            for _ in range(10):
                await triggers.record_refused(row, "wrong")
                clock.advance(0.25)
            assert [each.firing.status for each in await store.history("t", "order")] == ["refused"] * 3

    asyncio.run(work())


def test_what_cannot_start_is_in_the_history() -> None:
    async def work() -> None:
        clock = FakeClock()
        async with runtime(clock=clock) as memory:
            store = MemoryTriggers(lambda _path: "t")
            triggers = service(memory, store)
            bad = "workload: {at: '{{ trigger.scheduled_at + 1 }}'}"
            memory.programs.add(
                text(f"name: bad, kind: interval, every_s: 60, {bad}", "name: b, kind: interval, every_s: 60")
            )
            await triggers.declare("t")
            clock.advance(60)
            await triggers.fire_due()
            [entry] = await store.history("t", "bad")
            assert (entry.firing.status, entry.firing.execution_id) == ("failed", None)
            assert "a template of the trigger failed" in entry.firing.detail
            del memory.programs.programs["t"]
            clock.advance(60)
            await triggers.fire_due()
            [entry, *_] = await store.history("t", "b")
            assert (entry.firing.status, "archived" in entry.firing.detail) == ("failed", True)

    asyncio.run(work())
