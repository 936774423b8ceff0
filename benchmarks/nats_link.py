"""The link and the queue on a real NATS server: requests, grants and reports, and pointers.

Client and server of the link share a process and a core here: two machines are faster.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from benchmarks.sizes import scaled
from noetl.adapters.memory import MemoryQueue, MemoryResults, MemoryStore
from noetl.adapters.nats.connection import NatsConnection
from noetl.adapters.nats.queue import NatsQueue
from noetl.clock import SystemClock
from noetl.control.deps import ControlPorts, ControlSettings
from noetl.control.executions import Control
from noetl.control.ownership import PartitionOwners
from noetl.engine.commands import Report, Start
from noetl.engine.facts import TaskDone
from noetl.errors import NotFound
from noetl.link.client import LinkClient
from noetl.link.keys import LinkKey
from noetl.link.secret_channel import SecretServer
from noetl.link.server import LinkServer
from noetl.output import Output
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, PlaybookText, Pointer
from noetl.testing.memory_runtime import MemoryPrograms
from noetl.tool import Tools

Row = tuple[str, float, str]
PORT = 42_241
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: t}
workflow:
- step: start
  loop: {in: "{{ range(5000) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 1000}}
  tool: {kind: noop}
"""


def measure() -> Iterator[Row]:
    for sync in ("always", "default"):
        with nats_server(sync) as url:
            if sync == "always":
                yield from asyncio.run(_link(url))
            yield from asyncio.run(_queue(url, sync))


@contextmanager
def nats_server(sync: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        setting = "" if sync == "default" else f"sync_interval: {sync}, "
        config = Path(folder, "nats.conf")
        config.write_text(f'listen: "127.0.0.1:{PORT}"\njetstream {{ {setting}store_dir: "{folder}/store" }}\n')
        command = [str(Path(sys.executable).with_name("nats-server")), "-c", str(config)]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if b"Server is ready" in line:
                    break
            try:
                yield f"nats://127.0.0.1:{PORT}"
            finally:
                process.terminate()
                process.stderr.read()


class _Nothing:
    async def get(self, digest: str) -> PlaybookText:
        raise NotFound(digest)

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        raise NotFound(f"{credential.name}, {fresh}")


@asynccontextmanager
async def _linked(url: str) -> AsyncIterator[LinkClient]:
    clock = SystemClock()
    store = MemoryStore(clock, 64)
    programs = MemoryPrograms({"t": PLAYBOOK}, Tools.installed().kinds())
    owners = PartitionOwners(store, clock, "s", ttl_s=60.0, count=64)
    reach = ControlPorts(store, MemoryQueue(), MemoryResults())
    control = Control(reach, programs, owners, clock, ControlSettings())
    await owners.renew(control.set_time)
    server, worker = NatsConnection(url), NatsConnection(url)
    answering = LinkServer(server, control, _Nothing(), SecretServer(LinkKey(bytes(32)), _Nothing()))
    await answering.follow(range(64))
    await server.flush()
    try:
        yield LinkClient(worker, programs)
    finally:
        await answering.close()
        await worker.close()
        await server.close()


async def _link(url: str) -> list[Row]:
    rows: list[Row] = []
    async with _linked(url) as link:
        await link.start("e", "t", Start())

        async def beat(_: int) -> None:
            await link.beat("w", [("e", "start#1[0]", (1, 1))])

        async def frame(index: int) -> None:
            name = f"start#1[{index}]"
            grant = await link.begin("e", name, "w")
            assert grant is not None, name
            done = TaskDone(
                frame=name,
                call=1,
                task="noop",
                directive="continue",
                next=-1,
                output=Output(data={"n": index}),
            )
            answer = await link.report("e", Report(frame=name, position=0, facts=(done,), epoch=grant.epoch))
            assert answer.word == "stop", answer

        rows.append(("nats: requests, one after the other", await _rate(beat, scaled(2_000, 100), 1), "/s"))
        rows.append(("nats: requests, 64 at once", await _rate(beat, scaled(10_000, 500), 64), "/s"))
        rows.append(("nats: begin and report, 64 at once", 2 * await _rate(frame, scaled(4_000, 200), 64), "/s"))
    return rows


async def _rate(work: Callable[[int], Awaitable[None]], times: int, at_once: int) -> float:
    numbers = iter(range(times))

    async def slot() -> None:
        for number in numbers:
            await work(number)

    begun = time.perf_counter()
    await asyncio.gather(*(slot() for _ in range(at_once)))
    return times / (time.perf_counter() - begun)


async def _queue(url: str, sync: str) -> list[Row]:
    server, worker = NatsConnection(url), NatsConnection(url)
    putting, taking = NatsQueue(server), NatsQueue(worker, "default")
    await taking.open()
    pointers = [Pointer("e", f"a#1[{index}]", 1) for index in range(scaled(4_096, 256))]
    begun = time.perf_counter()
    for first in range(0, len(pointers), 128):
        await putting.put(pointers[first : first + 128])
    put = len(pointers) / (time.perf_counter() - begun)
    left = len(pointers)

    async def slot() -> None:
        nonlocal left
        while left > 0:
            for claim in await taking.take(1):
                left -= 1
                await taking.done(claim)

    begun = time.perf_counter()
    slots = [asyncio.ensure_future(slot()) for _ in range(64)]
    while left > 0:
        await asyncio.wait(slots, return_when=asyncio.FIRST_COMPLETED)
    taken = len(pointers) / (time.perf_counter() - begun)
    await taking.leave()
    await asyncio.gather(*slots, return_exceptions=True)
    lone = await _lone(putting, NatsQueue(worker, "lone"))
    both = 1 / (1 / put + 1 / taken)
    for connection in (server, worker):
        await connection.close()
    return [
        (f"nats: put, 128 at a time (sync {sync})", put, "/s"),
        (f"nats: take and ack, 64 slots (sync {sync})", taken, "/s"),
        (f"nats: put, take and ack (sync {sync})", both, "/s"),
        (f"nats: one pointer from put to take (sync {sync})", lone * 1_000, "ms"),
    ]


async def _lone(putting: NatsQueue, taking: NatsQueue) -> float:
    await taking.open()
    times = []
    for index in range(scaled(200, 10)):
        waiting = asyncio.ensure_future(taking.take(1))
        await asyncio.sleep(0)  # noqa: TID251  # the slot must wait before the put
        begun = time.perf_counter()
        await putting.put([Pointer("e", f"b#1[{index}]", 1, "lone")])
        (claim,) = await waiting
        times.append(time.perf_counter() - begun)
        await taking.done(claim)
    return sorted(times)[len(times) // 2]
