"""Limits by key in memory: for tests and the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from noetl.ports import Bucket, KeyState, PermitAnswer, PermitEntry, PermitRequest, Rate, blocked_bucket, grant_waiting


class _Permit:
    def __init__(self, request: PermitRequest, at: datetime) -> None:
        self.request = request
        self.at = at
        self.holds = False


class MemoryLimits:
    """A `Limits`."""

    def __init__(self) -> None:
        self._permits: dict[str, _Permit] = {}  # by holder, in the order of the requests
        self._buckets: dict[str, Bucket] = {}

    async def acquire(self, request: PermitRequest, at: datetime, *, wait: bool = True) -> PermitAnswer:
        permit = self._permits.setdefault(request.holder, _Permit(request, at))
        answer = self._grant(permit.request.key, at)
        if permit.holds and request.holder not in answer.granted:
            return answer._replace(granted=[request.holder, *answer.granted])
        if not permit.holds and not wait:
            del self._permits[request.holder]
        return answer

    async def release(self, holders: Sequence[str], at: datetime) -> list[str]:
        found = [self._permits.pop(each) for each in holders if each in self._permits]
        keys = dict.fromkeys(sorted(each.request.key for each in found))
        return [holder for key in keys for holder in self._grant(key, at).granted]

    async def advance(self, key: str, at: datetime) -> PermitAnswer:
        return self._grant(key, at)

    async def block(self, key: str, until: datetime, rate: Rate | None = None) -> None:
        self._buckets[key] = blocked_bucket(self._buckets.get(key), until, rate)

    async def entries(self, keys: Sequence[str] | None = None) -> list[PermitEntry]:
        return [
            PermitEntry(each.request.key, holder, each.holds, each.at)
            for holder, each in self._permits.items()
            if keys is None or each.request.key in keys
        ]

    async def keys(self) -> dict[str, KeyState]:
        newest = {each.request.key: each.request for each in self._permits.values()}
        return {key: KeyState(each.in_flight, each.rate, self._buckets.get(key)) for key, each in newest.items()}

    def _grant(self, key: str, at: datetime) -> PermitAnswer:
        permits = [each for each in self._permits.values() if each.request.key == key]
        held = sum(each.holds and each.request.in_flight is not None for each in permits)
        waiting = [each for each in permits if not each.holds]
        grants = grant_waiting(held, [each.request for each in waiting], self._buckets.get(key), at)
        if grants.bucket is not None:
            self._buckets[key] = grants.bucket
        for each in waiting[: grants.number]:
            each.holds = True
        return PermitAnswer([each.request.holder for each in waiting[: grants.number]], grants.retry_at)
