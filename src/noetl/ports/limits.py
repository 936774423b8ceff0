"""Limits by key, across executions and servers: who holds a permit, who waits for one, and buckets of rates (D113)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

WAITING_READ = 64  # waiting requests that one round of grants reads
_EPSILON = 1e-6  # tokens: refilling adds fractions


class Rate(NamedTuple):
    """A token bucket: at most `burst` at once, refilled by `burst` in `per_s` seconds."""

    burst: int
    per_s: float


class PermitRequest(NamedTuple):
    """A permit that something wants to hold until it releases it."""

    key: str  # requests with the same key share the limit
    holder: str  # "<execution>/<place>": the same for each repetition of the request
    in_flight: int | None = None  # holders at once, this one included; None: any number
    rate: Rate | None = None  # None: as many grants as there are requests


class PermitEntry(NamedTuple):
    """A request that holds its permit or waits for it."""

    key: str
    holder: str
    holds: bool
    at: datetime  # when it was requested


class Bucket(NamedTuple):
    """The grants that are left. Before `at` there are none."""

    tokens: float
    at: datetime
    idle_at: datetime  # from then on it is full: a new bucket is the same


class KeyState(NamedTuple):
    """A key in use: the limit of its newest request, and its bucket."""

    in_flight: int | None = None
    rate: Rate | None = None
    bucket: Bucket | None = None  # None: it is full


class PermitAnswer(NamedTuple):
    """What a change of a key has led to, in one transaction."""

    granted: list[str]  # holders that have got their permits, the first to request first
    retry_at: datetime | None = None  # the first one that waits may get its permit then; None: after a release


class Limits(Protocol):
    """Permits and buckets by key. Every method is one transaction, and raises Unavailable.

    Grants are first come, first served for each key. `at` is the time of the store.
    """

    async def acquire(self, request: PermitRequest, at: datetime, *, wait: bool = True) -> PermitAnswer:
        """Request a permit; a repetition has no other effect. The answer lists the holder if it holds its permit.

        `wait` False: without a permit, nothing remains of the request.
        """
        ...

    async def release(self, holders: Sequence[str], at: datetime) -> list[str]:
        """They hold and wait no more. The holders that have got permits by that."""
        ...

    async def advance(self, key: str, at: datetime) -> PermitAnswer:
        """Grant what a rate permits by now."""
        ...

    async def block(self, key: str, until: datetime, rate: Rate | None = None) -> None:
        """Empty the bucket: before `until`, no request with this key gets a permit."""
        ...

    async def entries(self, keys: Sequence[str] | None = None) -> list[PermitEntry]:
        """Those of these keys, or all, in the order of the requests: holders and those that wait."""
        ...

    async def keys(self) -> dict[str, KeyState]:
        """The keys that something holds or waits for."""
        ...


class Grants(NamedTuple):
    """How many of the waiting requests get their permits now, and what remains in the bucket."""

    number: int
    bucket: Bucket | None
    retry_at: datetime | None


def grant_waiting(held: int, waiting: Sequence[PermitRequest], bucket: Bucket | None, at: datetime) -> Grants:
    """One rule for all adapters: the first request that cannot get its permit holds up those behind it.

    `held`: permits that count. `waiting`: in the order of the requests. `bucket` None: it is full.
    """
    for number, request in enumerate(waiting):
        if bucket is not None and at < bucket.at:
            return Grants(number, bucket, bucket.at)
        if request.in_flight is not None and held >= request.in_flight:
            return Grants(number, bucket, None)
        if request.rate is not None:
            bucket = _refilled(bucket, request.rate, at)
            if bucket.tokens < 1 - _EPSILON:
                wait_s = (1 - bucket.tokens) * request.rate.per_s / request.rate.burst
                return Grants(number, bucket, at + timedelta(seconds=wait_s))
            bucket = _with_tokens(bucket.tokens - 1, request.rate, at)
        held += request.in_flight is not None
    return Grants(len(waiting), bucket, None)


def blocked_bucket(bucket: Bucket | None, until: datetime, rate: Rate | None) -> Bucket:
    """At `until` there is one token, and the bucket refills from then on."""
    if bucket is not None and bucket.at >= until:
        return bucket
    idle_at = until if rate is None else until + timedelta(seconds=rate.per_s)
    return Bucket(1.0, until, idle_at if bucket is None else max(idle_at, bucket.idle_at))


def _refilled(bucket: Bucket | None, rate: Rate, at: datetime) -> Bucket:
    if bucket is None:
        return Bucket(float(rate.burst), at, at)
    added = (at - bucket.at).total_seconds() * rate.burst / rate.per_s
    return _with_tokens(min(float(rate.burst), bucket.tokens + added), rate, at)


def _with_tokens(tokens: float, rate: Rate, at: datetime) -> Bucket:
    return Bucket(tokens, at, at + timedelta(seconds=(rate.burst - tokens) * rate.per_s / rate.burst))
