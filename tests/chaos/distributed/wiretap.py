"""A subscriber to the requests of workers on NATS: which worker begins and reports which frame when.

It does not subscribe to answers, because that would keep the requests of dead workers alive: NATS ends a request
when its answer has no subscriber.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from noetl.link.client import OWNER_SUBJECT
from tests.chaos.distributed.cluster import CLOCK, ChaosCluster


class Seen(NamedTuple):
    """A request of a worker about a frame."""

    worker: str
    at: float
    says: str  # "begin", "started", or "done" with the result of the call


class Wiretap:
    """The requests so far, without large messages, which are compressed."""

    def __init__(self) -> None:
        self.frames: dict[tuple[str, str], list[Seen]] = {}
        self._workers: dict[str, str] = {}  # the inbox of a connection → its worker

    async def on_message(self, message: Msg) -> None:
        if message.data[:1] != b"{":
            return
        request = msgspec.json.decode(message.data)
        body: dict[str, Any] = request["body"]
        inbox = message.reply.rpartition(".")[0]
        if "worker" in body:
            self._workers[inbox] = body["worker"]
        if request["ask"] == "begin":
            self._see((body["execution_id"], body["frame"]), inbox, "begin")
        for each in body["reports"] if request["ask"] == "reports" else [body] if request["ask"] == "reported" else ():
            report, place = each["report"], (each["execution_id"], each["report"]["frame"])
            self._see(place, inbox, "done" if report.get("facts") else "started")

    def _see(self, place: tuple[str, str], inbox: str, says: str) -> None:
        seen = Seen(self._workers.get(inbox, ""), CLOCK.monotonic(), says)
        self.frames.setdefault(place, []).append(seen)

    def results(self, execution_id: str, frame: str) -> int:
        """The number of workers that reported a result of a frame; a worker repeats a report that gets no answer in time."""
        return len({seen.worker for seen in self.frames.get((execution_id, frame), ()) if seen.says == "done"})

    def resumptions(self, kills: Mapping[str, Sequence[float]]) -> list[float]:
        """For each frame that was lost with its worker: the seconds until another worker requested it."""
        found: list[float] = []
        for seen in self.frames.values():
            for one, other in pairwise(seen):
                if one.says == "done":
                    break  # later pointers have no effect
                died = [each for each in kills.get(one.worker, ()) if one.at < each < other.at]
                if died and other.says == "begin":
                    found.append(other.at - died[0])
        return found


@asynccontextmanager
async def listening(cluster: ChaosCluster) -> AsyncIterator[Wiretap]:
    """Subscribe. Servers must be alive meanwhile, because requests without a server get no error."""
    tap, client = Wiretap(), Client()
    await client.connect(cluster.nats, max_reconnect_attempts=-1, error_cb=_nothing, reconnect_time_wait=1)
    await client.subscribe(f"{OWNER_SUBJECT}.*", cb=tap.on_message)
    await client.flush()
    try:
        yield tap
    finally:
        await client.close()


async def _nothing(_error: Exception) -> None:
    """The connection is restored automatically."""
