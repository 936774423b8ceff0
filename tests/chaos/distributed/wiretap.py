"""What servers and workers say to each other, overheard on NATS: reports, who sent them, how they were answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from noetl.adapters.nats.link import ASK


class Reported(NamedTuple):
    execution_id: str
    frame: str
    epoch: tuple[int, int]
    facts: int  # 0: it only says that a call has begun


class Wiretap:
    """Nothing that it hears is changed."""

    def __init__(self) -> None:
        self.answers: list[tuple[Reported, str]] = []  # reports, and what the answer said: "go", "fenced", …
        self.refusals: Counter[str] = Counter()  # words of answers that were errors
        self._asked: dict[str, Reported] = {}  # where the answer goes → the report

    async def hear_ask(self, message: Msg) -> None:
        if message.data[:1] != b"{":
            return  # a large one, which is pressed
        request = msgspec.json.decode(message.data)
        if request["ask"] == "reported":
            body: dict[str, Any] = request["body"]
            report = body["report"]
            epoch = tuple(report["epoch"])
            self._asked[message.reply] = Reported(
                body["execution_id"], report["frame"], (epoch[0], epoch[1]), len(report.get("facts", ()))
            )

    async def hear_answer(self, message: Msg) -> None:
        report = self._asked.pop(message.subject, None)
        if report is None or message.data[:1] != b"{":
            return
        answer = msgspec.json.decode(message.data)
        if error := answer.get("error"):
            self.refusals[error["words"]] += 1
            self.answers.append((report, error["kind"]))
        else:
            self.answers.append((report, answer["body"].get("why") or answer["body"]["word"]))


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[Wiretap]:
    tap, client = Wiretap(), Client()
    await client.connect(url, max_reconnect_attempts=-1, error_cb=_nothing, reconnect_time_wait=1)
    await client.subscribe(f"{ASK}.*", cb=tap.hear_ask)
    await client.subscribe("_INBOX.>", cb=tap.hear_answer)
    await client.flush()
    try:
        yield tap
    finally:
        await client.close()


async def _nothing(_error: Exception) -> None:
    """It comes back by itself."""
