"""Loopback ports for tests: a port stays reserved for one test process, also before and after a server uses it.

A port that the system assigns is free again when its socket closes: another server or connection may get it. These
ports are therefore below the range of the system and that of `noetl up`, and a lock file reserves each of them.
"""

from __future__ import annotations

import fcntl
import os
import socket
from itertools import chain
from pathlib import Path
from typing import IO

from noetl.runtime.devcluster.services import PORTS

LOWEST = 10_000
SYSTEM_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_kept: list[IO[bytes]] = []  # open until this process ends, which holds the locks


def free_port() -> int:
    """A port without a listener that no other test process gets while this one lives."""
    folder = Path(f"/tmp/noetl-test-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    ports = range(LOWEST, min(_system_ports_from(), PORTS[0]))
    first = os.getpid() * 97 % len(ports)  # processes begin at different ports
    for port in chain(ports[first:], ports[:first]):
        lock = (folder / str(port)).open("wb")
        if _is_ours(lock) and _is_free(port):
            _kept.append(lock)
            return port
        lock.close()
    raise AssertionError(f"no port of {ports} is free")


def _system_ports_from() -> int:
    """The first port that the system assigns; if it assigns all ports, only the lock protects."""
    lowest = int(SYSTEM_RANGE.read_text().split()[0]) if SYSTEM_RANGE.exists() else 0
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
