"""Signals that are sent while the owner of their execution is killed: each is in the log, or it was refused."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import cycle
from typing import Literal, NamedTuple

from noetl.engine.facts import Fact, FrameParked, FrameResumed
from noetl.errors import NotFound, Rejected, Unavailable
from tests.chaos.distributed.audit import audited, report
from tests.chaos.distributed.cluster import CLOCK, PATIENCE_S, ChaosCluster, Plan, kill_again_and_again, opened, until
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.load import Chance, Load, head

KILLS_EACH = 15
BURST = 8  # executions whose signals are sent at the same time, shortly before a kill
RIVALS = 2  # signals for the same wait, from different clients: one of them ends it
EARLY_EVERY = 4  # every fourth execution receives a signal as soon as it has started
START_EVERY_S = 0.1
REQUEST_S = 15.0  # longer than a server waits for an owner
APPROVAL = (
    head("approval")
    + """\
workload: {url: "", ms: 0}
workflow:
- step: start
  tool: {kind: wait, signal: approval}
  next: {arcs: [{step: after}]}
- step: after
  tool: {kind: http, method: POST, url: "{{ workload.url }}/after?of={{ execution_id }}&ms={{ workload.ms }}"}
"""
)

Answer = Literal["accepted", "refused", "unknown"]


class Sent(NamedTuple):
    execution_id: str
    number: int  # its data: each signal of an execution has another one


class Signals:
    """Sends the signals of a load, and records every answer."""

    def __init__(self, cluster: ChaosCluster, load: Load) -> None:
        self.cluster, self.load = cluster, load
        self.accepted: set[Sent] = set()
        self.refused: set[Sent] = set()  # at the first attempt
        self.repeated = 0  # attempts after an answer that left it open whether the signal is in the log
        self.repeats_refused = 0
        self.premature: list[str] = []  # executions of refusals that the log does not explain: it had no signal
        self._seen: set[str] = set()
        self._ready: list[str] = []  # executions that wait and have received no signal
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers = cycle(range(cluster.plan.servers))
        self._chance = Chance("signals")

    async def keep_looking(self) -> None:
        """Find new executions, and record which of them wait."""
        while True:
            for execution_id in [id for id in self.load.acked if id not in self._seen]:
                self._seen.add(execution_id)
                self._spawn(self._send_early(execution_id))
            await CLOCK.sleep(0.05)

    async def burst(self) -> bool:
        """Send the signals of some executions; return while servers handle them."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: len(self._ready) >= BURST)
            chosen, self._ready = self._ready[:BURST], self._ready[BURST:]
        for execution_id in chosen:
            self._send_rivals(execution_id)
        await CLOCK.sleep(self._chance(0.0, 0.04))
        return True

    async def finish(self) -> None:
        """Send signals to all that still wait, and wait for all answers."""
        while self._tasks or self._ready:
            for execution_id in self._ready:
                self._send_rivals(execution_id)
            self._ready = []
            running = list(self._tasks)
            await asyncio.gather(*running)
            self._tasks.difference_update(running)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        self._tasks.add(asyncio.ensure_future(work))

    async def _send_early(self, execution_id: str) -> None:
        """The first signal of some may arrive before they wait: then it is refused, and others follow."""
        if len(self._seen) % EARLY_EVERY == 0:
            sent = Sent(execution_id, 0)
            self._record(sent, await self._attempt(sent, next(self._servers)))
        await until(lambda: self._is_parked(execution_id))
        if await self.signal_in_log(execution_id) is None:
            async with self._changed:
                self._ready.append(execution_id)
                self._changed.notify_all()

    def _send_rivals(self, execution_id: str) -> None:
        for number in range(1, RIVALS + 1):
            self._spawn(self._send(Sent(execution_id, number)))

    async def _send(self, sent: Sent) -> None:
        """Send a signal again until an answer is certain. The execution waits, or has received a signal."""
        async with asyncio.timeout(PATIENCE_S):
            answer = await self._attempt(sent, next(self._servers))
            self._record(sent, answer)
            while answer == "unknown":
                self.repeated += 1
                await CLOCK.sleep(self._chance(0.0, 0.3))
                answer = await self._attempt(sent, next(self._servers))
                if answer == "accepted":
                    self.accepted.add(sent)
                self.repeats_refused += answer == "refused"
        if answer == "refused" and await self.signal_in_log(sent.execution_id) is None:
            self.premature.append(sent.execution_id)

    def _record(self, sent: Sent, answer: Answer) -> None:
        if answer == "accepted":
            self.accepted.add(sent)
        if answer == "refused":
            self.refused.add(sent)

    async def _attempt(self, sent: Sent, server: int) -> Answer:
        try:
            async with asyncio.timeout(REQUEST_S):
                await self.cluster.clients[server].signal(sent.execution_id, "approval", {"number": sent.number})
        except Rejected as error:
            if error.code not in ("nobody-waits", "execution-over"):
                raise
            return "refused"
        except NotFound:
            raise AssertionError(f"{sent.execution_id} was acknowledged, and is not found") from None
        except (Unavailable, TimeoutError):
            return "unknown"
        return "accepted"

    async def _is_parked(self, execution_id: str) -> bool:
        return any(isinstance(fact, FrameParked) for fact in await self._facts(execution_id))

    async def signal_in_log(self, execution_id: str) -> int | None:
        """The number of the signal that has ended the wait; None: there is none."""
        return number_of(await self._facts(execution_id))

    async def _facts(self, execution_id: str) -> list[Fact]:
        return await self.cluster.log(execution_id)

    async def has_seen_all(self) -> bool:
        return self._seen == self.load.acked.keys()


def number_of(log: list[Fact]) -> int | None:
    """Raises AssertionError if two signals have ended the same wait."""
    found = [fact.output.data["number"] for fact in log if isinstance(fact, FrameResumed) and fact.output]
    assert len(found) <= 1, "two signals have ended one wait"
    return found[0] if found else None


def test_a_signal_that_is_sent_while_servers_are_killed_is_in_the_log_or_refused() -> None:
    asyncio.run(_kill_owners())


async def _kill_owners() -> None:
    async with opened(Plan(named=True)) as cluster, serving() as effects:
        load = Load(cluster, effects)
        await load.register(APPROVAL)
        signals, over, begun = Signals(cluster, load), asyncio.Event(), CLOCK.monotonic()
        looking = asyncio.ensure_future(signals.keep_looking())
        starting = asyncio.ensure_future(load.keep_starting_until(over, "chaos/approval", START_EVERY_S))
        async with asyncio.TaskGroup() as tasks:
            for name in cluster.servers:
                life_s = Chance(name).between(0.1, 1.5)
                tasks.create_task(kill_again_and_again(cluster, name, KILLS_EACH, life_s, signals.burst))
        over.set()
        await starting
        await until(signals.has_seen_all)
        looking.cancel()
        await signals.finish()
        await cluster.until_all_ended()
        verdict = await audited(load)
        winners = {id: number_of([event.fact for event in log]) for id, log in verdict.logs.items()}
        lost = [each for each in signals.accepted if winners[each.execution_id] != each.number]
        unexpected = [each for each in signals.refused if winners[each.execution_id] == each.number]
        report(
            "signals while servers were killed",
            kills=2 * KILLS_EACH,
            executions=len(load.acked),
            accepted=len(signals.accepted),
            refused=len(signals.refused),
            sent_again=signals.repeated,
            sent_again_and_refused=signals.repeats_refused,
            repeats=effects.repeats,
            stuck_most_s=verdict.worst_stuck_s(),
            seconds=CLOCK.monotonic() - begun,
        )
        assert lost == [], "a signal was accepted, and is not in the log"
        assert unexpected == [], "a signal was refused, and is in the log"
        assert signals.premature == [], "a signal was refused, and the log had none"
        assert len(verdict.ok) == len(load.acked)
        assert signals.repeated > KILLS_EACH, "the kills interrupted requests"
