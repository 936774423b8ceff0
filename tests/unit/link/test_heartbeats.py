"""Heartbeats are one request for each server, also while partitions change their owner."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import NamedTuple

import pytest

from noetl.adapters.memory import MemoryBus, MemoryMessage, MemoryStore, MemoryTransport
from noetl.clock import SystemClock
from noetl.control.executions import Control
from noetl.engine.commands import Report, Start
from noetl.errors import Rejected, Unavailable
from noetl.ids import partition_of
from noetl.link.client import OWNER_SUBJECT, LinkClient
from noetl.link.keys import LinkIdentity, LinkKey
from noetl.link.messages import PARTITIONS, BeatRequest, decode_request, encode_reply
from noetl.link.server import _check_subject
from noetl.output import Output
from noetl.ports import REPLY_TIMEOUT_S, Collect, Epoch, Message, ReplyTimeout, first_reply
from noetl.testing.contracts.link import ONE, task_done
from tests.contracts.link_servers import LinkedServer, Playbooks, Programs

POOL_KEY = LinkKey(bytes(range(1, 33)))
POOLED = "workflow:\n- {step: start, spec: {pool: a}, tool: {kind: http, url: 'http://x'}}\n"
Hold = tuple[str, str, Epoch]


def id_in(partition: int) -> str:
    return next(name for name in (f"e{n}" for n in range(10_000)) if partition_of(name, PARTITIONS) == partition)


class Counted(MemoryTransport):
    """Keeps the subjects of the requests that it sends, and times out those to servers that hang."""

    def __init__(self, bus: MemoryBus) -> None:
        super().__init__(bus)
        self.subjects: list[str] = []
        self.waits: list[float] = []
        self.hanging: Callable[[str], bool] = lambda _subject: False

    async def request(
        self,
        subject: str,
        messages: Sequence[bytes],
        collect: Collect = first_reply,
        *,
        timeout_s: float = REPLY_TIMEOUT_S,
    ) -> bytes:
        self.subjects.append(subject)
        self.waits.append(timeout_s)
        if self.hanging(subject):
            raise ReplyTimeout("no answer")
        return await super().request(subject, messages, collect, timeout_s=timeout_s)

    def sent(self) -> list[int]:
        """The partitions to which requests were sent since the last call."""
        numbers = sorted(int(each.removeprefix(f"{OWNER_SUBJECT}.").split(".")[0]) for each in self.subjects)
        self.subjects, self.waits = [], []
        return numbers


class Recorded(Control):
    """Keeps the executions whose leases were renewed."""

    def __init__(self, *args, **kwargs) -> None:  # type: ignore[no-untyped-def]
        super().__init__(*args, **kwargs)
        self.beats: Counter[str] = Counter()
        self.broken: set[str] = set()

    async def beat(self, worker: str, holds: Sequence[Hold]) -> list[tuple[str, str]]:
        if self.broken & {each[0] for each in holds}:
            raise Unavailable("the request failed")
        self.beats.update(each[0] for each in holds)
        return await super().beat(worker, holds)


class Cluster(NamedTuple):
    servers: list[LinkedServer[MemoryTransport]]
    transport: Counted
    link: LinkClient
    holds: list[Hold]

    async def beat(self) -> list[str]:
        """The executions that the heartbeat stops."""
        return sorted(each for each, _ in await self.link.beat("w", self.holds))

    async def end(self, partition: int) -> str:
        """The execution that the worker holds a frame of in this partition, after its end."""
        id, frame, epoch = next(each for each in self.holds if each[0] == id_in(partition))
        facts = (task_done(frame, Output(data=1)),)
        await self.link.report(id, Report(frame=frame, position=0, facts=facts, epoch=epoch))
        return id

    def beats(self) -> list[Counter[str]]:
        """The heartbeats of executions that each server has answered since the last call."""
        found = []
        for server in self.servers:
            assert isinstance(server.control, Recorded)
            found.append(server.control.beats)
            server.control.beats = Counter()
        return found

    async def move(self, partitions: Sequence[int], source: int, target: int) -> None:
        """Hand partitions over."""
        first, second = self.servers[source], self.servers[target]
        for number in partitions:
            del first.owners._owned[number]
        await first.server.follow(first.owners.owned)
        await take(second, first, partitions)


async def take(
    server: LinkedServer[MemoryTransport], other: LinkedServer[MemoryTransport], partitions: Sequence[int]
) -> None:
    """The server becomes the owner of partitions of the other one, which need not have noticed it."""
    store = server.control.store
    assert isinstance(store, MemoryStore)
    await store.let_go(other.name, partitions)
    owned = await store.own(server.name, sorted({*server.owners.owned, *partitions}), 60.0)
    server.owners._owned = owned.epochs
    await server.server.follow(server.owners.owned)


@asynccontextmanager
async def cluster(
    partitions: Sequence[int] = range(PARTITIONS), *, servers: int = 2, pooled: bool = False
) -> AsyncIterator[Cluster]:
    """A worker that holds a frame in each of the partitions."""
    bus = MemoryBus()
    store, playbooks = MemoryStore(SystemClock(), PARTITIONS), Playbooks({"one": POOLED if pooled else ONE})
    pools = {"a": [POOL_KEY]} if pooled else None
    made = [
        LinkedServer(MemoryTransport(bus), store, playbooks, name=f"s{n}", control=Recorded, pools=pools)
        for n in range(servers)
    ]
    transport = Counted(bus)
    identity = LinkIdentity("a", POOL_KEY, SystemClock(), worker="w") if pooled else None
    link = LinkClient(transport, Programs(playbooks), identity=identity, timeout_s=10.0)
    try:
        async with asyncio.timeout(60):
            for each in (*made, *made):  # each server knows the others after one round
                await each.keep()
            holds = []
            for id in map(id_in, partitions):
                await made[0].link.start(id, playbooks.digests["one"], Start())
                grant = await link.begin(id, "start#1", "w")
                assert grant is not None
                holds.append((id, "start#1", grant.epoch))
            transport.sent()
            yield Cluster(made, transport, link, holds)
    finally:
        for server in made:
            await server.close()
        await transport.close()


def in_loop(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


# What the servers have answered if no heartbeat was lost, and none was repeated.
EACH_ONCE = Counter(map(id_in, range(PARTITIONS)))


@in_loop
async def test_the_first_heartbeat_asks_each_partition_and_the_next_one_each_server() -> None:
    async with cluster() as at:
        assert await at.beat() == []
        assert at.transport.sent() == list(range(PARTITIONS))
        stopped = [await at.end(number) for number in (0, 1)]
        at.transport.sent()
        at.beats()
        assert await at.beat() == sorted(stopped)
        assert at.transport.sent() == [0, 1]
        assert sum(at.beats(), Counter()) == EACH_ONCE


@in_loop
async def test_a_partition_of_a_known_server_needs_no_request_of_its_own() -> None:
    async with cluster() as at:
        await at.link.beat("w", at.holds[:2])
        at.transport.sent()
        await at.beat()
        assert at.transport.sent() == [0, 1]
        assert await at.link.beat("w", []) == []
        assert at.transport.sent() == []


@in_loop
async def test_partitions_that_changed_their_owner_have_requests_of_their_own_once() -> None:
    async with cluster() as at:
        await at.beat()
        moved = [2, 8, 34]
        await at.move(moved, 0, 1)
        await at.end(8)
        at.transport.sent(), at.beats()
        assert await at.beat() == [id_in(8)]
        assert at.transport.sent() == [0, 1, *moved]
        assert sum(at.beats(), Counter()) == EACH_ONCE
        assert await at.beat() == [id_in(8)]
        assert at.transport.sent() == [0, 1]
        assert [len(each) for each in at.beats()] == [29, 35]


@in_loop
async def test_the_partition_that_speaks_for_the_others_may_change_its_owner() -> None:
    async with cluster() as at:
        await at.beat()
        await at.move([0], 0, 1)
        at.transport.sent(), at.beats()
        assert await at.beat() == []
        # Server 1 answers for partition 0 alone; the others of its former group are asked for one by one.
        assert at.transport.sent() == sorted([0, 1, *range(2, PARTITIONS, 2)])
        assert sum(at.beats(), Counter()) == EACH_ONCE
        await at.beat()
        assert at.transport.sent() == [0, 2]
        assert sum(at.beats(), Counter()) == EACH_ONCE


@in_loop
async def test_a_partition_without_an_owner_costs_no_other_its_lease() -> None:
    async with cluster() as at:
        await at.beat()
        await at.servers[0].server.follow(set(range(4, PARTITIONS, 2)))  # 0 and 2 have no server that answers
        at.beats()
        await at.beat()
        renewed = sum(at.beats(), Counter())
        assert renewed == EACH_ONCE - Counter([id_in(0), id_in(2)])
        await at.servers[0].server.follow(set(range(0, PARTITIONS, 2)))
        await at.beat()
        assert sum(at.beats(), Counter()) == EACH_ONCE


@in_loop
async def test_a_server_that_has_lost_a_partition_does_not_answer_for_it() -> None:
    """Its subscription ends only after its next round of ownership."""
    async with cluster([0, 2, 4]) as at:
        first, second = at.servers
        await at.beat()
        del first.owners._owned[2]
        await take(second, first, [2])
        at.beats()
        await at.beat()
        assert [each[id_in(2)] for each in at.beats()] == [0, 1]


@in_loop
async def test_a_server_that_hangs_costs_the_partitions_of_others_no_lease() -> None:
    async with cluster() as at:
        await at.beat()
        await at.move([0], 0, 1)
        at.transport.sent(), at.beats()
        # Server 1 hangs. The worker believes that partition 0, which speaks for server 0, still belongs to it.
        at.transport.hanging = lambda subject: int(subject.split(".")[2]) in {0, *range(1, PARTITIONS, 2)}
        await at.beat()
        assert at.beats()[0] == Counter(map(id_in, range(2, PARTITIONS, 2)))
        assert sorted(set(at.transport.waits)) == [5.0]  # two attempts are as long as one request
        at.transport.sent()
        await at.beat()  # one request for server 0, and one for each partition of the other
        assert at.transport.sent() == sorted([0, 2, *range(1, PARTITIONS, 2)])
        at.transport.hanging = lambda _subject: False
        await at.beat()
        at.transport.sent()
        await at.beat()
        assert at.transport.sent() == [0, 2]


@in_loop
async def test_a_heartbeat_that_no_server_answers_is_an_error() -> None:
    async with cluster() as at:
        await at.beat()
        at.transport.hanging = lambda _subject: True
        with pytest.raises(Unavailable):
            await at.beat()


@in_loop
async def test_an_error_of_one_execution_costs_no_other_its_lease() -> None:
    async with cluster() as at:
        await at.beat()
        control = at.servers[0].control
        assert isinstance(control, Recorded)
        control.broken = {id_in(6)}
        at.transport.sent(), at.beats()
        await at.beat()
        assert sum(at.beats(), Counter()) == EACH_ONCE - Counter([id_in(6)])


@in_loop
async def test_workers_of_an_isolated_pool_group_their_heartbeats() -> None:
    async with cluster(range(16), servers=4, pooled=True) as at:
        for _ in range(2):
            assert await at.beat() == []
        assert at.transport.subjects[16:] == [f"{OWNER_SUBJECT}.{n}.a" for n in range(4)]
        assert all(set(each.values()) == {2} for each in at.beats())


@in_loop
async def test_a_server_of_0_1_0_gets_a_request_for_each_partition() -> None:
    async with cluster() as at:
        await at.beat()
        old = at.servers[1].server
        answer = old._receive

        def answer_as_older(partition: int | None, message: Message) -> None:
            request = decode_request(message.data)
            if isinstance(request, BeatRequest):
                data = message.data.replace(b',"grouped":true', b"")  # it ignores this field
                message = MemoryMessage(message.subject, message.reply, data)
            answer(partition, message)

        old._receive = answer_as_older  # type: ignore[method-assign]
        await old.follow(())
        await old.follow(at.servers[1].owners.owned)
        odd = list(range(1, PARTITIONS, 2))
        for expected in ([0, 1, *odd], [0, *odd]):  # the first one learns that it is an older one
            at.transport.sent(), at.beats()
            assert await at.beat() == []
            assert at.transport.sent() == sorted(expected)
            assert sum(at.beats(), Counter()) == EACH_ONCE
        del old._receive
        await old.follow(())
        await old.follow(at.servers[1].owners.owned)
        await at.beat()
        at.transport.sent()
        await at.beat()
        assert at.transport.sent() == [0, 1]


@in_loop
async def test_a_worker_of_0_1_0_has_the_reply_that_it_knows() -> None:
    async with cluster([3]) as at:
        await at.end(3)
        wire = b'{"v":1,"ask":"beat","body":{"worker":"w","holds":[["%s","start#1",[1,1]]]}}' % at.holds[0][0].encode()
        reply = await at.transport.request(f"{OWNER_SUBJECT}.3", [wire])
        assert reply == encode_reply([(at.holds[0][0], "start#1")])


def test_a_grouped_heartbeat_names_a_frame_of_its_partition() -> None:
    holds = tuple((id_in(number), "a#1", (1, 1)) for number in (4, 5))
    for number in (4, 5):
        _check_subject(BeatRequest("w", holds, grouped=True), number)
    for request, partition in ((BeatRequest("w", holds), 4), (BeatRequest("w", holds, grouped=True), 6)):
        with pytest.raises(Rejected, match="not for"):
            _check_subject(request, partition)
