"""The verdict on a house that was hurt, from PostgreSQL alone: nothing lost, nothing doubled, every log sound.

It folds every log, compares it with the snapshot that a server left, and with what the world saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import pairwise
from statistics import quantiles
from typing import NamedTuple

from noetl.adapters.postgres.database import open_postgres
from noetl.adapters.postgres.store import PostgresStore
from noetl.control.snapshots import fold, read_snapshot
from noetl.engine import Event, facts
from noetl.engine.state import State
from noetl.views.audit.findings import findings
from noetl.views.log import events_of, folded
from noetl.views.replay import differences
from tests.chaos.distributed.house import CLOCK, House
from tests.chaos.distributed.load import Load


class Verdict(NamedTuple):
    states: dict[str, State]
    logs: dict[str, list[Event]]
    stuck_s: dict[str, float]  # execution → the longest time in which nothing happened

    @property
    def ok(self) -> list[str]:
        return [id for id, state in self.states.items() if state.status == "ok"]

    def worst_stuck_s(self) -> float:
        return max(self.stuck_s.values(), default=0.0)


async def audited(load: Load, *, may_fail: Collection[str] = ()) -> Verdict:
    """Every log of the house. `may_fail`: executions that need not end well."""
    verdict = await read(load.house)
    problems = {id: found for id, log in verdict.logs.items() if (found := findings(log))}
    assert problems == {}
    missing = [id for id in load.acked if id not in verdict.states]
    assert missing == [], "acknowledged, and not on record"
    failed = {
        id: (state.status, _why(verdict.logs[id]))
        for id, state in verdict.states.items()
        if state.status != "ok" and id not in may_fail
    }
    assert failed == {}, f"{len(failed)} of {len(verdict.states)} did not end well: {failed}"
    _compare_seen(load, verdict)
    _compare_effects(load, verdict)
    return verdict


async def read(house: House) -> Verdict:
    """Each log folded, and compared with the snapshot beside it."""
    database = open_postgres(house.database, CLOCK)
    store = PostgresStore(database)
    verdict = Verdict({}, {}, {})
    try:
        for (id,) in await database.fetch("SELECT execution_id FROM noetl.heads ORDER BY started_at"):
            rows = await store.read(id)
            log = verdict.logs[id] = list(events_of(rows))
            state = verdict.states[id] = folded(id, log)
            thawed, after = await read_snapshot(store, id)
            if thawed is not None:
                fold(thawed, after)
                assert differences(state, thawed) == []
            ats = [row.at for row in rows]
            gaps = [(b - a).total_seconds() for a, b in pairwise(ats)]
            verdict.stuck_s[id] = max(gaps, default=0.0)
        ((size,),) = await database.fetch("SELECT count(*) FROM noetl.heads")
        assert size == len(verdict.states)
    finally:
        await store.close()
        await database.close()
    return verdict


def _why(log: list[Event]) -> str:
    ends = [event.fact for event in log if isinstance(event.fact, facts.StepFailed)]
    return ends[0].error.message if ends else ""


def _compare_seen(load: Load, verdict: Verdict) -> None:
    """Nothing was shown that is not on record."""
    for (id, seq), fact in load.seen.items():
        log = verdict.logs[id]
        assert seq <= len(log), f"a server has shown fact {seq} of {id}, and the log has {len(log)}"
        assert log[seq - 1].fact == fact


def _compare_effects(load: Load, verdict: Verdict) -> None:
    """Each result on record is from a call of its own, and each effect has one key."""
    effects, used = load.effects, Counter[int]()
    for id, log in verdict.logs.items():
        for event in log:
            fact = event.fact
            if isinstance(fact, facts.TaskDone) and fact.output is not None:
                data = fact.output.data
                if isinstance(data, dict) and "serial" in data:
                    used[data["serial"]] += 1
                    assert data["of"] == id
                    assert effects.serials[data["serial"]] in effects.paths[id]
    assert [serial for serial, times in used.items() if times > 1] == [], "a result is on record twice"
    for id, keys in effects.paths.items():
        assert len(keys) == len(set(keys.values())), f"an effect of {id} had two keys"


def p99(numbers: Collection[float]) -> float:
    if len(numbers) < 2:
        return max(numbers, default=0.0)
    return quantiles(numbers, n=100, method="inclusive")[98]


def told(what: str, **figures: float) -> None:
    """For whoever runs it: the figures of a test, on one line."""
    said = ", ".join(
        f"{name.replace('_', ' ')} {value:.2f}"
        if isinstance(value, float)
        else f"{name.replace('_', ' ')} {value}"
        for name, value in figures.items()
    )
    print(f"\nchaos: {what}: {said}", flush=True)
