"""A server asks the owner of an execution whether it waits for its share of the slots."""

from __future__ import annotations

import asyncio

from noetl.adapters.memory import MemoryBus, MemoryStore, MemoryTransport
from noetl.clock import SystemClock
from noetl.engine.commands import Start
from noetl.link.client import OtherServers
from noetl.link.messages import PARTITIONS
from noetl.views.pools import ShareWait
from tests.contracts.link_servers import LinkedServer, Playbooks

LOOP = """\
workflow:
- step: start
  loop: {in: "{{ range(9) }}", iterator: n, spec: {mode: parallel, max_in_flight: 9}}
  tool: {kind: http, url: x}
"""


def test_the_owner_answers_and_others_know_nothing() -> None:
    async def ask() -> None:
        bus, playbooks = MemoryBus(), Playbooks({"loop": LOOP})
        server = LinkedServer(MemoryTransport(bus), MemoryStore(SystemClock(), PARTITIONS), playbooks)
        dispatch = server.control.dispatch
        dispatch._settings = dispatch._settings._replace(window=16, slot_reserve=0.5)
        await server.keep()
        for id in ("waits", "runs"):
            await server.link.start(id, playbooks.digests["loop"], Start())
        for number in range(4):
            assert await server.control.begin("waits", f"start#1[{number}]", "w") is not None
        here = MemoryTransport(bus)
        others = OtherServers(here)
        assert tuple(await others.share_waits("waits")) == (ShareWait("default", 4, 4, ("start#1",)),)
        assert tuple(await others.share_waits("runs")) == ()
        await server.close()
        assert tuple(await others.share_waits("waits")) == (), "no server answers"
        await here.close()

    asyncio.run(ask())
