"""Servers share the partitions: each has its part, the rest is taken over when someone is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from noetl.adapters.memory import MemoryStore
from noetl.control.ownership import OwnerLink, PartitionOwners
from noetl.engine.commands import Start
from noetl.errors import Conflict, Fenced, Unavailable
from noetl.ids import partition_of
from noetl.ports import Append, OwnedPartitions
from noetl.slices import turn
from noetl.testing import FakeClock
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts
from tests.unit.control.runtimes import memory_runtime, run_in

COUNT = 8


def ignore(_: datetime) -> None:
    """The store's time is of no interest here."""


def owners(store: MemoryStore, server: str) -> PartitionOwners:
    return PartitionOwners(store, FakeClock(), server, ttl_s=60.0, count=COUNT)


def test_a_lone_server_has_all_and_shares_with_whoever_comes() -> None:
    async def work() -> None:
        store = MemoryStore(FakeClock(), COUNT)
        first, second = owners(store, "a"), owners(store, "b")
        await first.renew(ignore)
        assert first.owned == frozenset(range(COUNT))
        await second.renew(ignore)
        assert second.owned == frozenset()
        await first.renew(ignore)
        await second.renew(ignore)
        assert (len(first.owned), len(second.owned)) == (COUNT // 2, COUNT // 2)
        assert first.owned | second.owned == frozenset(range(COUNT))

    asyncio.run(work())


def test_what_a_server_leaves_is_the_others_at_once() -> None:
    async def work() -> None:
        store = MemoryStore(FakeClock(), COUNT)
        first, second = owners(store, "a"), owners(store, "b")
        for each in (first, second, first, second):
            await each.renew(ignore)
        await first.leave()
        assert first.owned == frozenset()
        await second.renew(ignore)
        assert second.owned == frozenset(range(COUNT))

    asyncio.run(work())


def test_a_server_commits_what_it_has_received_before_it_releases_a_partition() -> None:
    async def work() -> None:
        store = MemoryStore(FakeClock(), COUNT)
        seen: list[tuple[bool, bool, int]] = []

        async def look(kept: frozenset[int]) -> None:
            released = next(each for each in map(str, range(100)) if partition_of(each, COUNT) not in kept)
            number = await first.number(released)
            seen.append((first.owns(released), first.is_current(released, number), len(kept)))
            assert store.owner(released) == "a"

        first = PartitionOwners(store, FakeClock(), "a", ttl_s=60.0, count=COUNT, before_release=look)
        second = owners(store, "b")
        for each in (first, second, first):
            await each.renew(ignore)
        assert seen == [(False, True, COUNT // 2)]
        assert len(first.owned) == COUNT // 2

    asyncio.run(work())


class HeldStore(MemoryStore):
    """Its appends wait."""

    def __init__(self) -> None:
        super().__init__(FakeClock(), COUNT)
        self.asked, self.continues = asyncio.Event(), asyncio.Event()

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        self.asked.set()
        await self.continues.wait()
        return await super().append(appends)


def test_a_server_commits_what_its_own_clients_have_sent_before_it_releases_a_partition() -> None:
    store = HeldStore()
    runtime = memory_runtime({"t": "workflow:\n- {step: start, tool: {kind: noop}}\n"}, parts=RuntimeParts(store=store))

    async def work(runtime: MemoryRuntime) -> None:
        link = OwnerLink(lambda: runtime.control, runtime.control, lambda _: True)
        starting = asyncio.ensure_future(link.start("e", "t", Start()))
        await store.asked.wait()
        finishing = asyncio.ensure_future(link.finish(60))
        await turn()
        assert not finishing.done()
        store.continues.set()
        await finishing
        assert starting.done()
        await link.finish(60)

    run_in(runtime, work, slots=0)


def test_a_server_that_leaves_during_a_release_keeps_no_lease() -> None:
    async def work() -> None:
        store = MemoryStore(FakeClock(), COUNT)
        releasing = asyncio.Event()

        async def hang(_kept: frozenset[int]) -> None:
            releasing.set()
            await asyncio.Event().wait()

        first = PartitionOwners(store, FakeClock(), "a", ttl_s=60.0, count=COUNT, before_release=hang)
        second = owners(store, "b")
        await first.renew(ignore)
        await second.renew(ignore)
        round_ = asyncio.ensure_future(first.renew(ignore))
        await releasing.wait()
        round_.cancel()
        await asyncio.gather(round_, return_exceptions=True)
        await first.leave()
        await second.renew(ignore)
        assert second.owned == frozenset(range(COUNT))

    asyncio.run(work())


def test_the_partitions_of_a_dead_server_go_to_those_that_live() -> None:
    async def work() -> None:
        store = MemoryStore(FakeClock(), COUNT)
        await store.own("a", range(COUNT), 0.0)
        alive = owners(store, "b")
        await alive.renew(ignore)
        assert alive.owned == frozenset(range(COUNT))

    asyncio.run(work())


class Silent(MemoryStore):
    """A store that does not answer while `silent` is set."""

    silent = False

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        if self.silent:
            raise Unavailable("silent")
        return await super().own(server, partitions, ttl_s)


def test_when_the_store_is_silent_what_is_ours_is_ours_until_the_lease_has_run_out() -> None:
    async def work() -> None:
        clock = FakeClock()
        store = Silent(FakeClock(), COUNT)
        ours = PartitionOwners(store, clock, "a", ttl_s=60.0, count=COUNT)
        await ours.renew(ignore)
        store.silent = True
        await ours.renew(ignore)
        assert ours.owned == frozenset(range(COUNT))
        clock.advance(61.0)
        await ours.renew(ignore)
        assert ours.owned == frozenset()

    asyncio.run(work())
