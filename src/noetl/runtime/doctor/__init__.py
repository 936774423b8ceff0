"""The checks of `noetl doctor`: read-only diagnosis with suggested fixes. Each check is a small function.

This module checks the machine: Python, SQLite, keys in the environment, and installed tools. A finding never
contains a password, a token or a key.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl import __version__
from noetl.adapters.secrets.stored import KEY_BYTES, VARIABLE, KeyFile
from noetl.errors import NoetlError, Rejected, install_hint
from noetl.runtime.settings import LINK_KEY, OIDC_CLIENT_ID, OIDC_ISSUER, POOL_KEY, POOL_KEYS
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
    found = check_machine(options)
    if options.file is not None:
        from noetl.runtime.doctor.sqlite import check_sqlite_file

        found += check_sqlite_file(options.file, options.environment)
    if options.database is not None:
        try:
            from noetl.runtime.doctor.postgres import check_postgres
        except ImportError:
            found.append(_missing_extra("postgres"))
        else:
            found += await check_postgres(options.database, options.environment)
    if options.nats is not None:
        try:
            from noetl.runtime.doctor.nats import check_nats
        except ImportError:
            found.append(_missing_extra("nats"))
        else:
            found += await check_nats(options.nats, options.monitor)
    if options.environment.get(OIDC_ISSUER) or options.environment.get(OIDC_CLIENT_ID):
        from noetl.runtime.doctor.sign_in import check_sign_in

        found.append(await check_sign_in(options.environment))
    if options.server is not None:
        from noetl.runtime.doctor.server import check_server

        found += await check_server(options.server, options.token)
    return found


def _missing_extra(name: str) -> Diagnosis:
    return Diagnosis(f"{name}-extra", "error", f"the extra is not installed: {name}", install_hint(name))


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


PYTHON: Final = (3, 11)
SQLITE: Final = (3, 51, 3)  # older ones may corrupt a file when one process checkpoints while another commits
MAKE_KEY: Final = """python3 -c 'import base64, os; print(base64.b64encode(os.urandom(32)).decode())'"""
# The module that a tool imports when it runs, and the extra that provides it.
_NEEDS: Final[dict[str, tuple[str, str]]] = {
    "postgres": ("asyncpg", "postgres"),
    "duckdb": ("duckdb", "duckdb"),
    "quantum": ("qiskit", "quantum"),
}


def check_machine(options: DoctorOptions) -> list[Diagnosis]:
    found = [check_python(), check_sqlite(), *check_tools()]
    if options.environment.get(VARIABLE):
        found.append(check_key(options.environment))
    if options.environment.get(POOL_KEY) or options.environment.get(POOL_KEYS):
        found.append(check_pool_keys(options.environment))
    if options.environment.get(LINK_KEY) or (options.nats is not None and not options.environment.get(POOL_KEY)):
        found.append(check_link_key(options.environment))
    if options.database is not None and not options.environment.get(VARIABLE):
        words = f"{VARIABLE} is not set: without it a server can neither store nor read secrets"
        found.append(Diagnosis("key", "warning", words, f"{VARIABLE}=$({MAKE_KEY}), the same on every server"))
    return found


def check_python() -> Diagnosis:
    words = f"NoETL {__version__} on Python {sys.version.split()[0]}"
    if sys.version_info < PYTHON:
        return Diagnosis("python-version", "error", words, "install Python 3.11 or newer")
    return Diagnosis("python-version", "ok", words)


def check_sqlite() -> Diagnosis:
    import apsw

    words = f"SQLite {apsw.sqlite_lib_version()}"
    if version_of(apsw.sqlite_lib_version()) < SQLITE:
        cure = "pip install --upgrade apsw; until then use a database from one process at a time"
        return Diagnosis("sqlite-version", "error", f"{words} may corrupt a file that several processes use", cure)
    return Diagnosis("sqlite-version", "ok", words)


def check_tools() -> list[Diagnosis]:
    """Each kind that cannot be loaded or lacks a library; one finding when all are usable."""
    found, kinds = [], 0
    for point in sorted(entry_points(group="noetl.tools"), key=lambda each: each.name):
        kinds += 1
        try:
            point.load()
        except Exception as error:  # noqa: BLE001  # foreign code may raise anything
            words = f'the tool "{point.name}" ({point.value}) cannot be loaded: {type(error).__name__}: {error}'
            cure = f"install its dependencies, or remove its package: {point.value.split(':')[0]}"
            found.append(Diagnosis("tools", "error", words, cure))
            continue
        module, extra = _NEEDS.get(point.name, ("", ""))
        if module and find_spec(module) is None:
            words = f'the tool "{point.name}" needs {module}, which is not installed: its calls will fail'
            found.append(Diagnosis("tools", "info", words, install_hint(extra)))
    return found or [Diagnosis("tools", "ok", f"all {kinds} tool kinds can be loaded")]


def check_key(environment: Mapping[str, str]) -> Diagnosis:
    try:
        count = len(KeyFile(environment=environment).all())
    except NoetlError as error:
        return Diagnosis("key", "error", str(error), f"create one: {MAKE_KEY}")
    return Diagnosis("key", "ok", f"{VARIABLE} holds {count} key{'s' if count > 1 else ''} for stored secrets")


def check_pool_keys(environment: Mapping[str, str]) -> Diagnosis:
    """The keys that isolate pools."""
    from noetl.link.keys import LinkKey, parse_pool_keys

    try:
        if text := environment.get(POOL_KEY):
            LinkKey.parsed(text)
        pools = parse_pool_keys(environment.get(POOL_KEYS, ""))
    except Rejected:
        words = f"{POOL_KEY} or {POOL_KEYS} holds no keys: a key must be {KEY_BYTES} bytes in base64"
        return Diagnosis("pool-keys", "error", words, f"{POOL_KEYS}='default=KEY gpu=KEY', each made by {MAKE_KEY}")
    words = f"{POOL_KEYS} has the pools {', '.join(pools)}" if pools else f"{POOL_KEY} is set"
    return Diagnosis("pool-keys", "ok", words)


def check_link_key(environment: Mapping[str, str]) -> Diagnosis:
    text = environment.get(LINK_KEY, "")
    if not text:
        words = f"{LINK_KEY} is not set: workers receive no credentials"
        return Diagnosis("link-key", "warning", words, f"set the same key on servers and workers: {MAKE_KEY}")
    from noetl.link.keys import LinkKey

    try:
        LinkKey.parsed(text)
    except Rejected:
        words = f"{LINK_KEY} is not a key: it must be {KEY_BYTES} bytes in base64"
        return Diagnosis("link-key", "error", words, MAKE_KEY)
    return Diagnosis("link-key", "ok", f"{LINK_KEY} is set")


def check_stored_secrets(stored: Mapping[str, int], known: set[str]) -> Diagnosis:
    """`stored`: the number of secrets that each key has encrypted. `known`: the available keys."""
    total, lost = sum(stored.values()), sum(count for id, count in stored.items() if id not in known)
    if lost:
        cure = f"add the old key to {VARIABLE}, after the current one; or set these secrets again"
        words = f"{lost} of {total} stored secrets need a key that is missing"
        return Diagnosis("stored-secrets", "error", words, cure)
    words = "no secrets are stored" if not total else f"{total} stored secrets, and their keys are available"
    return Diagnosis("stored-secrets", "ok", words)
