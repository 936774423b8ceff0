"""Outages that outlast a lease: after their end, all work that is due continues within one lease and 5 s."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from weakref import WeakKeyDictionary

import pytest

from noetl.control.dispatch import Outbox
from noetl.control.executions import Control
from noetl.control.sweeper import sweep
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.ports import Claim
from noetl.testing.simulator.cluster import TTL_S, SimCluster, SimComponents
from noetl.testing.simulator.network import Outage, one_way, store_outage
from noetl.worker.worker import Worker
from tests.simulation.test_simulation import final_states, programs
from tests.sizes import seeds

SEEDS = seeds(1_400, least=70)
SEEDS_MAX = 400  # until a bug is found
BEGIN_S, END_S = 3.0, 3.0 + 4 * TTL_S

REQUESTS = one_way(BEGIN_S, END_S, [("w", "s0"), ("w", "s1")])
ANSWERS = one_way(BEGIN_S, END_S, [("s0", "w"), ("s1", "w")])
POINTERS = one_way(BEGIN_S, END_S, [("s0", "queue"), ("s1", "queue")])
CLAIMS = one_way(BEGIN_S, END_S, [("queue", "w")])
SENDER = one_way(BEGIN_S, END_S, [("s1", other) for other in ("s0", "w", "queue")])
STORE = store_outage(BEGIN_S, END_S, 1.0)
SILENT_STORE = store_outage(BEGIN_S, END_S, 1.0, refuses=False)
OUTAGES = {
    "requests of workers are lost": REQUESTS,
    "answers to workers are lost": ANSWERS,
    "pointers are not published": POINTERS,
    "pointers do not reach the workers": CLAIMS,
    "nothing that a server sends arrives": SENDER,
    "the store refuses connections": STORE,
    "the store does not answer": SILENT_STORE,
}


CRASHES = ("", "s0", "s1", "w0", "s0")

STARTS: dict[str, tuple[str, dict[str, object]]] = {f"e{number}": ("mix", {}) for number in range(6)}  # a busy pool


@cache
def undisturbed() -> dict[str, object]:
    return final_states(SimCluster(0, programs(), calm=True).run(STARTS))


def endure(seed: int, outage: Outage, components: SimComponents | None = None) -> SimCluster:
    """Run a cluster with this fault and no other. Raises AssertionError if work that is due does not continue."""
    cluster = SimCluster(seed, programs(), calm=True, outages=(outage,), components=components)
    assert final_states(cluster.run(STARTS)) == undisturbed()
    return cluster


@pytest.mark.parametrize("name", OUTAGES)
def test_work_continues_after_an_outage(name: str) -> None:
    """In some clusters a server or a worker crashes meanwhile."""
    for seed in range(list(OUTAGES).index(name), SEEDS, len(OUTAGES)):
        crash, crash_s = CRASHES[seed % len(CRASHES)], BEGIN_S + seed % 20
        try:
            cluster = endure(seed, OUTAGES[name]._replace(crash=crash, crash_s=crash_s))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert cluster.network.lost > 0, f"seed {seed}"
        assert cluster.loop.time() > END_S, f"seed {seed}: it ended during the outage"


class DropsUnsent(Outbox):
    """Pointers whose write failed are left to the sweeper, which takes them for waiting ones in a busy pool."""

    async def _send(self) -> None:
        try:
            while self._unsent:
                sent, self._unsent = self._unsent, {}
                with suppress(Unavailable):
                    await self._queue.put(list(sent.values()))
        finally:
            self._sending = None


class PatientWorker(Worker):
    """A slot asks again for the frame of its claim, after a delay that doubles."""

    async def _run_claim(self, claim: Claim) -> None:
        held, delay_s = (claim.pointer.execution_id, claim.pointer.frame), 1.0
        while delay_s < 64:
            try:
                await self.link.begin(*held, self.name)
                break
            except (NotFound, Rejected):
                return
            except Unavailable:
                await self.clock.sleep(delay_s)
                delay_s *= 2
        await super()._run_claim(claim)


failures: WeakKeyDictionary[Control, int] = WeakKeyDictionary()


async def patient_sweep(control: Control) -> None:
    """While the store fails, the time to the next sweep doubles."""
    try:
        await control.store.status("")
    except Unavailable:
        failures[control] = failures.get(control, 0) + 1
        await control.clock.sleep(2.0 ** failures[control])
        return
    failures.pop(control, None)
    await sweep(control)


BUGS = {
    "pointers are dropped": (SENDER, SimComponents(outbox=DropsUnsent)),
    "a slot waits for its owner": (ANSWERS, SimComponents(worker=PatientWorker)),
    "sweeps back off": (STORE, SimComponents(sweep=patient_sweep)),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    outage, components = BUGS[bug]
    for seed in range(SEEDS_MAX):
        try:
            endure(seed, outage, components)
        except AssertionError as error:
            if not str(error).startswith("liveness: "):
                raise
            return
    pytest.fail(f"{bug}: not found in {SEEDS_MAX} seeds")
