"""The stream of pointers and its consumers: made when they are missing, however they were lost.

The log is the truth: a stream that was wiped costs one sweep.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Struct

from noetl.adapters.nats.connection import Connection, NobodyThere
from noetl.clock import Clock
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON

STREAM: Final = "NOETL_WORK"
SUBJECT: Final = "noetl.work"  # and the name of a pool
ACK_WAIT_S: Final = 30
AGE_S: Final = 300  # a pointer that nobody took is put again long before: old ones must not pile up
DEDUP_S: Final = 120
MESSAGES_MAX: Final = 1_000_000
UNACKED_MAX: Final = 100_000  # slots of all workers of a pool; the default of 1,000 would cap them silently
PULLS_MAX: Final = 20_000  # workers of a pool that wait at once
NEXT: Final = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}"

_POOL: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_OTHERWISE: Final = 10058  # there is one of that name with another configuration
_NS: Final = 1_000_000_000


class _Error(Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Config(Struct):
    retention: str = ""
    subjects: tuple[str, ...] = ()


class _Answer(Struct):
    error: _Error | None = None
    config: _Config | None = None


_answer = msgspec.json.Decoder(_Answer).decode


def is_pool(name: str) -> bool:
    """It is part of a subject."""
    return _POOL.fullmatch(name) is not None


def checked_pool(name: str) -> str:
    """Raises Rejected."""
    if not is_pool(name):
        words = "1 to 200 letters, digits, - and _"
        raise Rejected("bad-pool", f'"{name[:80]}" is no name of a pool: it has {words}')
    return name


def stored(answer: bytes) -> None:
    """Raises Unavailable when a message was not."""
    if b'"error"' in answer and (error := _answer(answer).error) is not None:
        raise Unavailable(f"the queue in NATS refuses work ({error.description})")


class Stream:
    """Knows how both should be. Replicas are of a cluster."""

    def __init__(self, connection: Connection, clock: Clock, replicas: int = 1) -> None:
        self._connection = connection
        self._clock = clock
        self._replicas = replicas

    async def make(self) -> None:
        """Raises Unavailable, also when there is another stream of that name or on these subjects."""
        config: dict[str, JSON] = {
            "name": STREAM,
            "subjects": [f"{SUBJECT}.>"],
            "retention": "workqueue",
            "storage": "file",
            "discard": "new",  # a full one refuses, and the sweeper tries again
            "max_msgs": MESSAGES_MAX,
            "max_age": AGE_S * _NS,
            "duplicate_window": DEDUP_S * _NS,
            "num_replicas": self._replicas,
        }
        answer = await self._ask(f"STREAM.CREATE.{STREAM}", config)
        if answer.error is not None and answer.error.err_code == _OTHERWISE:
            answer = await self._ask(f"STREAM.INFO.{STREAM}", {})
            found = answer.config  # of someone who knows better, as far as it still is a queue of work
            if found is not None and (found.retention, found.subjects) != ("workqueue", (f"{SUBJECT}.>",)):
                raise Unavailable(f'the stream "{STREAM}" in NATS is not ours: rename or remove it')
        _refuse(answer)

    async def remake(self, wait_s: float) -> None:
        """Away with one that takes messages and does not store them."""
        await self._ask(f"STREAM.DELETE.{STREAM}", {})
        await self._clock.sleep(wait_s)
        await self.make()

    async def make_consumer(self, pool: str) -> None:
        subject = f"{SUBJECT}.{pool}"
        config: dict[str, JSON] = {
            "name": pool,
            "durable_name": pool,
            "filter_subject": subject,
            "deliver_policy": "all",
            "replay_policy": "instant",
            "ack_policy": "explicit",
            "ack_wait": ACK_WAIT_S * _NS,
            "max_deliver": -1,  # the engine counts: past a limit a message would stay, and nobody get it
            "max_ack_pending": UNACKED_MAX,
            "max_waiting": PULLS_MAX,
        }
        body: dict[str, JSON] = {"stream_name": STREAM, "config": config}
        _refuse(await self._ask(f"CONSUMER.CREATE.{STREAM}.{pool}.{subject}", body))

    async def _ask(self, what: str, body: dict[str, JSON]) -> _Answer:
        try:
            answer = await self._connection.request(f"$JS.API.{what}", [msgspec.json.encode(body)])
        except NobodyThere as error:
            words = "JetStream does not answer: is it switched on in the configuration of NATS?"
            raise Unavailable(words) from error
        return _answer(answer)


def _refuse(answer: _Answer) -> None:
    if answer.error is not None:
        raise Unavailable(f"NATS does not make the queue of work: {answer.error.description}")
