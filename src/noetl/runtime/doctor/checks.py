"""What is wrong with a set-up, and how to mend it: checks that only look, each a small function with a name.

A finding never shows a password, a token or a key.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from noetl.errors import install_hint
from noetl.secret import Secret

Grade: TypeAlias = Literal["ok", "info", "warning", "error"]


class Diagnosis(NamedTuple):
    """What one check has seen."""

    check: str  # its name: "postgres-version"
    grade: Grade
    words: str
    cure: str | None = None  # what to do about it


class DoctorOptions(NamedTuple):
    """Which set-up. What is None is not looked at."""

    file: Path | None = None  # of the embedded house
    database: str | None = None  # postgresql://…
    nats: str | None = None
    monitor: str | None = None  # where NATS tells of itself over HTTP; None: port 8222 of the same host
    server: str | None = None
    token: Secret | None = None
    environment: Mapping[str, str] = os.environ

    def __repr__(self) -> str:
        return "Asked(***)"


async def examine(asked: DoctorOptions) -> list[Diagnosis]:
    """All of it, from the machine upwards. What can not be reached is a finding, and no error."""
    from noetl.runtime.doctor.machine import examine_machine

    found = examine_machine(asked)
    if asked.file is not None:
        from noetl.runtime.doctor.sqlite import examine_sqlite

        found += examine_sqlite(asked.file, asked.environment)
    if asked.database is not None:
        found += await _with_extra("postgres", lambda: _postgres(asked))
    if asked.nats is not None:
        found += await _with_extra("nats", lambda: _nats(asked))
    if asked.server is not None:
        from noetl.runtime.doctor.server import examine_server

        found += await examine_server(asked.server, asked.token)
    return found


async def _postgres(asked: DoctorOptions) -> list[Diagnosis]:
    from noetl.runtime.doctor.postgres import examine_postgres

    assert asked.database is not None
    return await examine_postgres(asked.database, asked.environment)


async def _nats(asked: DoctorOptions) -> list[Diagnosis]:
    from noetl.runtime.doctor.nats import examine_nats

    assert asked.nats is not None
    return await examine_nats(asked.nats, asked.monitor)


async def _with_extra(name: str, look: Callable[[], Awaitable[list[Diagnosis]]]) -> list[Diagnosis]:
    try:
        return await look()
    except ImportError:
        words = f"what speaks to it is not installed: {name}"
        return [Diagnosis(f"{name}-extra", "error", words, install_hint(name))]


def version_of(text: str) -> tuple[int, ...]:
    """Of what programs call themselves: "2.10.23-beta" is (2, 10, 23)."""
    numbers = []
    for part in text.split("-")[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def is_wrong(found: Sequence[Diagnosis], *, strict: bool = False) -> bool:
    return any(each.grade == "error" or (strict and each.grade == "warning") for each in found)
