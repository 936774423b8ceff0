"""A simulation of many servers and 1,000 workers, from the measured CPU time of each message.

Nothing here is measured: the costs were, on one machine (docs/explanation/scaling.md). A server is one core that
handles its messages one after the other. Its appends wait for the statement that runs, and share the next one.
"""

from __future__ import annotations

import random  # noqa: TID251  # with a seed
from collections.abc import Iterator
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

from benchmarks.sizes import scaled

Row = tuple[str, float, str]


class Cost(NamedTuple):
    """Microseconds of CPU time."""

    server: float
    nats: float = 0.0
    postgres: float = 0.0


# What                        server  NATS   PostgreSQL  Source
STEP: Final = Cost(810, 215, 290)  #                     "Measured": a step of a chain, the middle of the range
ITEM: Final = Cost(118, 16, 17)  #                       "Measured": an item of a wide loop
EXECUTION: Final = Cost(2_140 / 3, 695 / 3, 445 / 3)  #  "Measured": of three steps, started and awaited over HTTP
BEAT: Final = Cost(50, 8.75)  #                          a sealed heartbeat request (64 for 64 partitions, in turns)
HELD: Final = Cost(8.8)  #                               each frame in it (64 against 1 in one request)
ANNOUNCEMENT: Final = Cost(20, 12)  #                    at each server that receives it
PULL: Final = Cost(0, 40)  #                             with its two heartbeats and its end
LOAD: Final = Cost(390)  #                               of an execution: performance.md, 100,000 taken over in 39 s
STATEMENT_US: Final = ITEM.postgres  # of a row in a shared statement; the rest of STEP.postgres is for each statement

# Assumptions
STATEMENT_S: Final = 0.003  # network and a replicated disk: 2–5 ms
HANDOVER_S: Final = 0.05  # "When a server joins or leaves", the median
RETRY_S: Final = 1.0  # a request without an owner is repeated after this time at most
POLLS_S: Final = 1.0  # new owners poll the workers within this time: servers renew their shares every second
ANSWERS_MAX: Final = 5  # of a worker to these polls: one every 0.25 s
STEPS: Final = 20  # of one execution, then its slot takes another one

PARTITIONS: Final = 64
WORKERS: Final = scaled(1_000, 50)
SLOTS: Final = 64
LEASE_S: Final = 30.0
BEAT_S: Final = LEASE_S / 3
ANNOUNCE_S: Final = 5.0
WARM_UP_S: Final = 5.0
MEASURED_S: Final = scaled(10, 2)


class Result(NamedTuple):
    busy: list[float]  # share of each server's time
    delays: list[tuple[float, float]]  # when a report arrived, and how long it waited for the server, in seconds
    reports: float  # per second, here and below
    statements: float
    beats: float
    beat_us: float  # of all servers

    def delay_ms(self, share: float, begin: float = WARM_UP_S, end: float = float("inf")) -> float:
        found = sorted(delay for at, delay in self.delays if begin <= at < end)
        return 1_000 * found[int(share * (len(found) - 1))] if found else 0.0


class Cluster:
    """Servers with their partitions, workers with their slots, and one queue of events."""

    def __init__(self, servers: int, *, work: Cost, task_s: float, grouped: bool) -> None:
        self.random = random.Random(1)
        self.work, self.task_s, self.grouped = work, task_s, grouped
        self.live = list(range(servers))
        self.owners = owners_of(self.live)
        self.open_at = [0.0] * PARTITIONS  # from then on, each partition has an owner
        self.free = [0.0] * servers  # when each server has handled all that has arrived
        self.busy = [0.0] * servers
        self.batch = [0.0] * servers  # when the last statement of each server begins
        self.statements, self.beats, self.beat_us = 0, 0, 0.0
        self.delays: list[tuple[float, float]] = []
        count = WORKERS * SLOTS
        self.partition = [self.random.randrange(PARTITIONS) for _ in range(count)]  # of the frame in each slot
        self.left = [self.random.randrange(STEPS) for _ in range(count)]
        # Events: when, and who: a slot, then workers with a heartbeat, then workers with an announcement.
        self.events = [(self.random.expovariate(1 / task_s), slot) for slot in range(count)]
        self.events += [(self.random.uniform(0, BEAT_S), count + worker) for worker in range(WORKERS)]
        self.events += [(self.random.uniform(0, ANNOUNCE_S), count + WORKERS + worker) for worker in range(WORKERS)]
        heapify(self.events)

    def run(self, until: float) -> None:
        slots, events = len(self.partition), self.events
        while (at := events[0][0]) < until:
            who = events[0][1]
            if who < slots:
                heapreplace(events, (self.report(who, at), who))
            elif who < slots + WORKERS:
                self.beat(who - slots, at, grouped=self.grouped)
                heapreplace(events, (at + BEAT_S, who))
            else:
                self.announce(at)
                heapreplace(events, (at + ANNOUNCE_S, who))

    def handle(self, server: int, at: float, us: float) -> float:
        """When the server begins. It handles messages in the order of their arrival."""
        begin = max(at, self.free[server])
        self.free[server] = begin + us / 1e6
        self.busy[server] += us / 1e6
        return begin

    def report(self, slot: int, at: float) -> float:
        """When the next task of the slot ends."""
        partition = self.partition[slot]
        if at < self.open_at[partition]:
            return self.open_at[partition] + self.random.uniform(0, RETRY_S)
        server = self.owners[partition]
        self.delays.append((at, self.handle(server, at, self.work.server) - at))
        ready = self.free[server]
        if ready > self.batch[server]:  # otherwise it shares the statement that waits
            self.batch[server] = max(ready, self.batch[server] + STATEMENT_S)
            self.statements += 1
        self.left[slot] -= 1
        if self.left[slot] < 0:
            self.partition[slot], self.left[slot] = self.start(at), STEPS - 1
        return self.batch[server] + STATEMENT_S + self.random.expovariate(1 / self.task_s)

    def start(self, at: float) -> int:
        """The partition of another execution: only owners dispatch frames."""
        while at < self.open_at[partition := self.random.randrange(PARTITIONS)]:
            pass
        return partition

    def beat(self, worker: int, at: float, *, grouped: bool) -> None:
        requests: dict[tuple[int, int], int] = {}  # (server, partition or 0) → frames
        for partition in self.partition[worker * SLOTS : (worker + 1) * SLOTS]:
            if at >= self.open_at[partition]:
                request = self.owners[partition], 0 if grouped else partition
                requests[request] = requests.get(request, 0) + 1
        for (server, _), frames in requests.items():
            us = BEAT.server + frames * HELD.server
            self.handle(server, at, us)
            self.beat_us += us
        self.beats += len(requests)

    def announce(self, at: float) -> None:
        for server in self.live:
            self.handle(server, at, ANNOUNCEMENT.server)

    def kill(self, server: int, *, all_move: bool, polls_max: int) -> int:
        """The server dies now. The number of partitions that have another owner when its lease has expired.

        `all_move`: the owner of a partition depends on the number of servers, as it does today; otherwise only the
        partitions of the dead server move. New owners load executions, and each polls all workers, which answer
        `polls_max` of these polls.
        """
        before, died_at = self.owners, self.events[0][0]
        own = [number for number in range(PARTITIONS) if before[number] == server]
        for number in own:
            self.open_at[number] = died_at + LEASE_S
        self.run(died_at + LEASE_S)
        self.live.remove(server)
        after = owners_of(self.live)
        if not all_move:
            others = iter(sorted(self.live, key=before.count))
            after = [next(others) if each == server else each for each in before]
        moved = [number for number in range(PARTITIONS) if after[number] != before[number]]
        self.owners = after
        now = died_at + LEASE_S
        for number in moved:
            self.open_at[number] = now + HANDOVER_S
        for number in moved:
            self.handle(after[number], now + HANDOVER_S, LOAD.server * self.partition.count(number))
        polls = min(polls_max, len({after[number] for number in moved}))
        for poll in range(polls):
            polled_at = now + HANDOVER_S + POLLS_S * poll / polls
            self.run(polled_at)
            for worker in range(WORKERS):
                self.beat(worker, polled_at, grouped=False)  # workers do not know the new owners
                self.announce(polled_at)
        return len(moved)

    def result(self, seconds: float) -> Result:
        rates = len(self.delays) / seconds, self.statements / seconds, self.beats / seconds, self.beat_us / seconds
        return Result([each / seconds for each in self.busy], self.delays, *rates)


def owners_of(live: list[int]) -> list[int]:
    """As `PartitionOwners`."""
    return [live[number % len(live)] for number in range(PARTITIONS)]


def simulate(servers: int, work: Cost, task_s: float, *, grouped: bool = True) -> Result:
    cluster = Cluster(servers, work=work, task_s=task_s, grouped=grouped)
    cluster.run(WARM_UP_S + MEASURED_S)
    return cluster.result(WARM_UP_S + MEASURED_S)


def measure() -> Iterator[Row]:
    for kind, work, task_s in (
        ("chains, tasks of 2 s", STEP, 2.0),
        ("chains, tasks of 1.25 s", STEP, 1.25),
        ("items, tasks of 1 s", ITEM, 1.0),
        ("executions over HTTP, tasks of 2 s", EXECUTION, 2.0),
    ):
        yield from _load(f"scaling model: 64 servers, {kind}", simulate(64, work, task_s), work)
    for servers in (4, 16, 64):
        for grouped in (False, True):
            found = simulate(servers, ITEM, 10.0, grouped=grouped)
            name = f"scaling model: {servers} servers, heartbeats {'grouped' if grouped else 'by partition'}"
            yield f"{name}, requests", found.beats, "/s"
            yield f"{name}, CPU of a server", found.beat_us / servers / 10_000, "%"
            yield f"{name}, NATS", found.beats * BEAT.nats / 10_000, "%"
    yield from _death("today", all_move=True, polls_max=ANSWERS_MAX)
    yield from _death("if workers answered each poll", all_move=True, polls_max=64)
    yield from _death("if only its partitions moved", all_move=False, polls_max=ANSWERS_MAX)


def _load(name: str, found: Result, work: Cost) -> Iterator[Row]:
    mean = sum(found.busy) / len(found.busy)
    yield f"{name}, reports", found.reports, "/s"
    yield f"{name}, a server is busy", 100 * mean, "%"
    yield f"{name}, the busiest", 100 * max(found.busy), "%"
    yield f"{name}, a report waits, p50", found.delay_ms(0.5), "ms"
    yield f"{name}, a report waits, p99", found.delay_ms(0.99), "ms"
    rows_us = found.reports * STATEMENT_US + found.statements * (STEP.postgres - STATEMENT_US)
    yield f"{name}, cores of PostgreSQL", rows_us / 1e6, ""
    fixed_us = found.beats * BEAT.nats + WORKERS * (64 * ANNOUNCEMENT.nats + PULL.nats) / ANNOUNCE_S
    yield f"{name}, cores of NATS, wake-ups shared", (found.reports * ITEM.nats + fixed_us) / 1e6, ""
    yield f"{name}, cores of NATS, at most", (found.reports * work.nats + fixed_us) / 1e6, ""


def _death(case: str, *, all_move: bool, polls_max: int) -> Iterator[Row]:
    cluster = Cluster(64, work=STEP, task_s=2.0, grouped=True)
    cluster.run(WARM_UP_S)
    moved = cluster.kill(31, all_move=all_move, polls_max=polls_max)
    expired, end = WARM_UP_S + LEASE_S, WARM_UP_S + LEASE_S + 30
    cluster.run(end - 10)
    cluster.busy = [0.0] * 64
    cluster.run(end)
    found = cluster.result(10)
    name = f"scaling model: a server dies, {case}"
    yield f"{name}, partitions with another owner", moved, ""
    yield f"{name}, the busiest server 20 s later", 100 * max(found.busy), "%"
    yield f"{name}, a report waits, p99, until its lease expires", found.delay_ms(0.99, WARM_UP_S, expired), "ms"
    for after_s, until_s in ((0, 1), (1, 5), (5, 10), (20, 30)):
        waits = found.delay_ms(0.99, expired + after_s, expired + until_s)
        yield f"{name}, a report waits, p99, {after_s}–{until_s} s after that", waits, "ms"
