"""An owner of 0.1.0 ignores fields that it does not know: what it would do only in part is refused, never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec import Raw, Struct
from msgspec.json import decode

from noetl.adapters.memory import MemoryBus, MemoryTransport
from noetl.engine.commands import Cancel, Command, Retry, SetBreakpoint, Start
from noetl.engine.facts import ForkOrigin
from noetl.errors import Unavailable
from noetl.ids import partition_of
from noetl.link.client import OWNER_SUBJECT, LinkClient
from noetl.link.messages import PARTITIONS, encode_error, encode_reply, pack, unpack
from noetl.output import JSON
from noetl.ports import Message
from tests.contracts.link_servers import Playbooks, Programs

ASKS = ("begin", "reported", "beat", "started", "commanded", "iterations", "parent", "textof", "secretof")
COMMANDS = ("Pause", "Resume", "Cancel", "Close", "Retry", "Signal", "Wake")


class Request(Struct):
    v: int
    ask: str
    body: Raw


class OldOwner:
    """Answers as a server of 0.1.0 does. `done`: what it has carried out."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport
        self.done: list[tuple[str, JSON]] = []

    async def serve(self, message: Message) -> None:
        request = decode(await unpack(message.data), type=Request)
        body = decode(request.body)
        if request.ask not in ASKS or body.get("kind", "Cancel") not in COMMANDS:
            reply = encode_error(Unavailable(f'asked for "{request.ask}": run the same version of noetl everywhere'))
        else:
            self.done.append((request.ask, body))
            reply = encode_reply(None)
        for each in await pack(reply, 1 << 20):
            await self._transport.publish(message.reply, each)


def with_old_owner(work: Callable[[LinkClient, OldOwner], Awaitable[None]]) -> None:
    async def main() -> None:
        bus = MemoryBus()
        server, client = MemoryTransport(bus), MemoryTransport(bus)
        owner = OldOwner(server)
        serving: set[asyncio.Task[None]] = set()

        def receive(message: Message) -> None:
            serving.add(asyncio.create_task(owner.serve(message)))

        await server.open()
        await server.subscribe(f"{OWNER_SUBJECT}.{partition_of('e', PARTITIONS)}", receive)
        try:
            await work(LinkClient(client, Programs(Playbooks({}))), owner)
        finally:
            await client.close()
            await server.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "start",
    [
        Start(fork=ForkOrigin(execution="d", seq=3)),
        Start(ctx={"cursor": 1}),
        Start(labels={"team": "data"}),
        Start(breakpoints=(SetBreakpoint(place="store"),)),
    ],
    ids=["fork", "ctx", "labels", "breakpoints"],
)
def test_a_start_that_it_would_carry_out_in_part_is_refused(start: Start) -> None:
    async def work(link: LinkClient, owner: OldOwner) -> None:
        with pytest.raises(Unavailable, match="run the same version of noetl everywhere"):
            await link.start("e", "digest", start)
        assert owner.done == []

    with_old_owner(work)


def test_a_start_that_it_understands_is_carried_out() -> None:
    async def work(link: LinkClient, owner: OldOwner) -> None:
        await link.start("e", "digest", Start(workload={"day": 1}, by="me"))
        [(ask, body)] = owner.done
        assert (ask, body["start"]["workload"]) == ("started", {"day": 1})

    with_old_owner(work)


@pytest.mark.parametrize(
    ("command", "done"),
    [
        (Cancel(compensate=True), 0),
        (Cancel(reason="late"), 1),
        (Retry(step="a", iterations=(3,)), 0),
        (Retry(step="a"), 1),
    ],
)
def test_a_command_that_it_would_carry_out_in_part_is_refused(command: Command, done: int) -> None:
    async def work(link: LinkClient, owner: OldOwner) -> None:
        if done:
            await link.command("e", command)
        else:
            with pytest.raises(Unavailable):
                await link.command("e", command)
        assert len(owner.done) == done

    with_old_owner(work)
