"""Ports of loopback for what tests start: each is one test process's own, before it is listened on and after a kill.

A port that the system picks is anybody's again as soon as it is let go of: another server gets it, or it becomes the
near end of somebody's connection. So these lie below the ones that the system picks from, and a lock keeps each.
"""

from __future__ import annotations

import fcntl
import os
import socket
from itertools import chain
from pathlib import Path
from typing import IO

LOWEST = 10_000
PICKED_FROM = Path("/proc/sys/net/ipv4/ip_local_port_range")
_kept: list[IO[bytes]] = []  # open as long as this process lives, and so are the locks on them


def free_port() -> int:
    """Nobody listens there, and no other test process is given it while this one lives."""
    folder = Path(f"/tmp/noetl-test-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    ports = range(LOWEST, _picked_from())
    first = os.getpid() * 97 % len(ports)  # so that processes seldom try the same ones
    for port in chain(ports[first:], ports[:first]):
        lock = (folder / str(port)).open("wb")
        if _is_ours(lock) and _is_free(port):
            _kept.append(lock)
            return port
        lock.close()
    raise AssertionError(f"no port of {ports} is free")


def _picked_from() -> int:
    """The first port that the system picks by itself; where it picks from all, a lock has to do."""
    lowest = int(PICKED_FROM.read_text().split()[0]) if PICKED_FROM.exists() else 0
    return lowest if lowest > LOWEST + 1_000 else 1 << 16


def _is_ours(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
