"""The checks of `noetl doctor`: read-only diagnosis with suggested fixes. Each check is a small function.

A finding never contains a password, a token or a key.
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
    """The result of one check. `noetl doctor --format json` prints these fields."""

    check: str  # its stable name, such as "postgres-version"
    grade: Grade
    words: str
    cure: str | None = None  # the suggested fix


class DoctorOptions(NamedTuple):
    """The parts of a deployment to check. A part that is None is skipped."""

    file: Path | None = None  # the database of the embedded runtime
    database: str | None = None  # postgresql://…
    nats: str | None = None
    monitor: str | None = None  # HTTP address of the NATS monitor; None: port 8222 of the same host
    server: str | None = None
    token: Secret | None = None
    environment: Mapping[str, str] = os.environ

    def __repr__(self) -> str:
        return "DoctorOptions(***)"


async def run_checks(options: DoctorOptions) -> list[Diagnosis]:
    """All checks, starting with the machine. An unreachable service is a finding, not an exception."""
    from noetl.runtime.doctor.machine import check_machine

    found = check_machine(options)
    if options.file is not None:
        from noetl.runtime.doctor.sqlite import check_sqlite_file

        found += check_sqlite_file(options.file, options.environment)
    if options.database is not None:
        found += await _with_extra("postgres", lambda: _postgres(options))
    if options.nats is not None:
        found += await _with_extra("nats", lambda: _nats(options))
    if options.server is not None:
        from noetl.runtime.doctor.server import check_server

        found += await check_server(options.server, options.token)
    return found


async def _postgres(options: DoctorOptions) -> list[Diagnosis]:
    from noetl.runtime.doctor.postgres import check_postgres

    assert options.database is not None
    return await check_postgres(options.database, options.environment)


async def _nats(options: DoctorOptions) -> list[Diagnosis]:
    from noetl.runtime.doctor.nats import check_nats

    assert options.nats is not None
    return await check_nats(options.nats, options.monitor)


async def _with_extra(name: str, check: Callable[[], Awaitable[list[Diagnosis]]]) -> list[Diagnosis]:
    try:
        return await check()
    except ImportError:
        words = f"the extra is not installed: {name}"
        return [Diagnosis(f"{name}-extra", "error", words, install_hint(name))]


def version_of(text: str) -> tuple[int, ...]:
    """The numbers of a version: "2.10.23-beta" is (2, 10, 23)."""
    numbers = []
    for part in text.split("-")[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def has_failures(found: Sequence[Diagnosis], *, strict: bool = False) -> bool:
    return any(each.grade == "error" or (strict and each.grade == "warning") for each in found)
