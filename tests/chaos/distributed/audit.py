"""The audit of a cluster after faults, from PostgreSQL alone: no fact is lost or doubled, every log is valid.

It folds every log, and compares it with the snapshot of the server and with the effects that callers saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import quantiles
from typing import NamedTuple

from noetl.adapters.postgres.database import open_postgres
from noetl.adapters.postgres.store import PostgresStore
from noetl.control.deps import ControlSettings
from noetl.control.live_execution import fold
from noetl.control.snapshots import read_snapshot
from noetl.engine import Event, facts
from noetl.engine.state import State
from noetl.views.audit import findings
from noetl.views.log import events_of, folded
from noetl.views.replay import differences
from tests.chaos.distributed.cluster import BUSY_S, CLOCK, RECOVERY_S, ChaosCluster
from tests.chaos.distributed.load import WIDTH, Load


class Verdict(NamedTuple):
    states: dict[str, State]
    logs: dict[str, list[Event]]
    stuck_s: dict[str, float]  # execution → the longest time without progress
    instants: dict[str, list[datetime]]  # execution → of its commits

    @property
    def ok(self) -> list[str]:
        return [id for id, state in self.states.items() if state.status == "ok"]

    def worst_stuck_s(self) -> float:
        return max(self.stuck_s.values(), default=0.0)

    def recovered_s(self, faults: Sequence[datetime]) -> dict[str, float]:
        """Execution → the longest time from the end of a fault until it went on, or until the next fault had ended."""
        return {
            id: max((_recovered_s(before, after, faults) for before, after in pairwise(instants)), default=0.0)
            for id, instants in self.instants.items()
        }

    def check_recovery(self, faults: Sequence[datetime], within_s: float = RECOVERY_S + BUSY_S) -> float:
        """The longest time of all executions. Raises AssertionError if it is longer than the limit."""
        recovered = self.recovered_s(faults)
        assert faults
        late = {id: seconds for id, seconds in recovered.items() if seconds > within_s}
        assert late == {}, f"these executions went on later than {within_s:.0f} s after the end of a fault"
        return max(recovered.values(), default=0.0)


def _recovered_s(before: datetime, after: datetime, faults: Sequence[datetime]) -> float:
    """The longest time without a commit and without the end of another fault; 0: no fault has ended between them."""
    ends = sorted(ended for ended in faults if before < ended < after)
    return max(((later - ended).total_seconds() for ended, later in pairwise([*ends, after])), default=0.0)


async def retry_quarantined(load: Load) -> Counter[str]:
    """Retry every call that is blamed for lost workers: by chance, three random kills may hit the same call.

    Returns the greatest number of calls with a second key, by execution: `retry` repeats the blamed call, and those
    that were running beside it in a loop.
    """
    known = Counter[str]()
    while True:
        logs = (await read(load.cluster)).logs
        found = Counter(id for id, log in logs.items() for _ in _blamed(log))
        if found == known:
            return Counter({id: count * WIDTH for id, count in known.items()})
        for id in found - known:
            await load.cluster.clients[0].retry(id)
        await load.cluster.until_all_ended()
        known = found


def _blamed(log: list[Event]) -> list[facts.TaskDone]:
    lost = Counter(event.fact.frame for event in log if isinstance(event.fact, facts.FrameLost))
    done = [event.fact for event in log if isinstance(event.fact, facts.TaskDone)]
    blamed = [each for each in done if each.output and each.output.error and each.output.error.kind == "poison"]
    assert all(lost[each.frame] >= ControlSettings().lost_max for each in blamed)
    return blamed


async def audited(load: Load, *, may_fail: Collection[str] = (), retried: Counter[str] | None = None) -> Verdict:
    """Audit every log of the cluster.

    `may_fail`: executions that may end with an error. `retried`: the result of `retry_quarantined`.
    """
    verdict = await read(load.cluster)
    problems = {id: found for id, log in verdict.logs.items() if (found := findings(log))}
    assert problems == {}
    missing = [id for id in load.acked if id not in verdict.states]
    assert missing == [], "an acknowledged execution is not in the log"
    failed = {
        id: (state.status, _why(verdict.logs[id]))
        for id, state in verdict.states.items()
        if state.status != "ok" and id not in may_fail
    }
    assert failed == {}, f"{len(failed)} of {len(verdict.states)} ended with an error: {failed}"
    _compare_seen(load, verdict)
    _compare_effects(load, verdict, Counter() if retried is None else retried)
    return verdict


async def read(cluster: ChaosCluster) -> Verdict:
    """Fold each log, and compare the state with the snapshot."""
    database = open_postgres(cluster.database, CLOCK)
    store = PostgresStore(database)
    verdict = Verdict({}, {}, {}, {})
    try:
        for (id,) in await database.fetch("SELECT execution_id FROM noetl.heads ORDER BY started_at"):
            rows = await store.read(id)
            log = verdict.logs[id] = list(events_of(rows))
            state = verdict.states[id] = folded(id, log)
            thawed, after, _ = await read_snapshot(store, id)
            if thawed is not None:
                fold(thawed, after)
                assert differences(state, thawed) == []
            ats = verdict.instants[id] = [row.at for row in rows]
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
    """Every fact that a server returned is in the log."""
    for (id, seq), fact in load.seen.items():
        log = verdict.logs[id]
        assert seq <= len(log), f"a server returned fact {seq} of {id}, and the log has {len(log)}"
        assert log[seq - 1].fact == fact


def _compare_effects(load: Load, verdict: Verdict, retried: Counter[str]) -> None:
    """Each result in the log is from another call, and each effect has one key, unless it was retried."""
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
    assert [serial for serial, times in used.items() if times > 1] == [], "a result is in the log twice"
    for id, keys in effects.paths.items():
        assert len(keys) - len(set(keys.values())) <= retried[id], f"an effect of {id} had two keys"


def p99(numbers: Collection[float]) -> float:
    if len(numbers) < 2:
        return max(numbers, default=0.0)
    return quantiles(numbers, n=100, method="inclusive")[98]


def report(what: str, **figures: float) -> None:
    """Print the figures of a test on one line."""
    said = ", ".join(
        f"{name.replace('_', ' ')} {value:.2f}" if isinstance(value, float) else f"{name.replace('_', ' ')} {value}"
        for name, value in figures.items()
    )
    print(f"\nchaos: {what}: {said}", flush=True)
