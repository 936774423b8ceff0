"""The keys of servers and workers on the link, from their settings, and whether pools are isolated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from noetl.clock import Clock
from noetl.errors import NoetlError, Rejected
from noetl.link.keys import SERVER, LinkIdentity, LinkKey, LinkKeys, parse_pool_keys
from noetl.ports import Epoch
from noetl.runtime.settings import LINK_KEY, POOL_KEY, POOL_KEYS
from noetl.telemetry.logs import Logger

REFUSED_LOG_S: Final = 10.0  # between two log lines about refused requests
ADVICE: Final = f"set {POOL_KEYS} on servers and {POOL_KEY} on workers; see docs/guides/distributed.md#isolated-pools"


def link_keys(link_key: str | None, pool_keys: str | None) -> LinkKeys:
    """Raises Rejected."""
    server = LinkKey.parsed(link_key) if link_key else None
    pools = parse_pool_keys(pool_keys) if pool_keys else {}
    if pools and server is None:
        raise Rejected("bad-setting", f"{POOL_KEYS} needs {LINK_KEY}, a key that only servers have")
    return LinkKeys(server, pools)


def worker_identity(
    pool: str,
    pool_key: str | None,
    keys: LinkKeys,
    clock: Clock,
    *,
    worker: str,
    held_frame: Callable[[], tuple[str, str, Epoch] | None],
) -> LinkIdentity | None:
    """None: pools are not isolated.

    A worker in the environment of a server has all keys: it takes that of its pool, or else that of servers.
    """
    if pool_key:
        return LinkIdentity(pool, LinkKey.parsed(pool_key), clock, worker=worker, held_frame=held_frame)
    if not keys.pools or keys.server is None:
        return None
    own = keys.pools.get(pool)
    sender, key = (SERVER, keys.server) if own is None else (pool, own[0])
    return LinkIdentity(sender, key, clock, worker=worker, held_frame=held_frame)


class RefusedRequests:
    """Logs requests that were refused because of their sender, at most one every few seconds."""

    def __init__(self, log: Logger, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._next, self._count = 0.0, 0

    def __call__(self, pool: str, error: NoetlError) -> None:
        self._count += 1
        now = self._clock.monotonic()
        if now >= self._next:
            self._log.warning("request.refused", pool=pool, why=str(error), times=self._count)
            self._next, self._count = now + REFUSED_LOG_S, 0
