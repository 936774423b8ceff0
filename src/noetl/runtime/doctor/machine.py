"""Checks of this machine: Python, SQLite, keys in the environment, and tools that can not be loaded."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Final

from noetl import __version__
from noetl.adapters.secrets.keys import KEY_BYTES, VARIABLE, KeyFile
from noetl.errors import NoetlError, install_hint
from noetl.runtime.doctor.checks import Diagnosis, DoctorOptions, version_of
from noetl.runtime.settings import LINK_KEY

PYTHON: Final = (3, 11)
SQLITE: Final = (3, 51, 3)  # older ones may damage a file when one process checkpoints while another commits
MAKE_KEY: Final = """python3 -c 'import base64, os; print(base64.b64encode(os.urandom(32)).decode())'"""
# What a tool imports when it works, and the extra that brings it.
_NEEDS: Final[dict[str, tuple[str, str]]] = {
    "postgres": ("asyncpg", "postgres"),
    "duckdb": ("duckdb", "duckdb"),
    "quantum": ("qiskit", "quantum"),
}


def examine_machine(asked: DoctorOptions) -> list[Diagnosis]:
    found = [python_version(), sqlite_version(), *tools()]
    if asked.environment.get(VARIABLE):
        found.append(key(asked.environment))
    if asked.environment.get(LINK_KEY) or asked.nats is not None:
        found.append(link_key(asked.environment))
    if asked.database is not None and not asked.environment.get(VARIABLE):
        words = f"{VARIABLE} is not set here: a server without it can neither store nor read secrets"
        found.append(
            Diagnosis("key", "warning", words, f"{VARIABLE}=$({MAKE_KEY}), the same on every server")
        )
    return found


def python_version() -> Diagnosis:
    words = f"NoETL {__version__} on Python {sys.version.split()[0]}"
    if sys.version_info < PYTHON:
        return Diagnosis("python-version", "error", words, "install Python 3.11 or newer")
    return Diagnosis("python-version", "ok", words)


def sqlite_version() -> Diagnosis:
    import apsw

    words = f"SQLite {apsw.sqlite_lib_version()}"
    if version_of(apsw.sqlite_lib_version()) < SQLITE:
        cure = "pip install --upgrade apsw; until then let one process at a time use a database"
        return Diagnosis("sqlite-version", "error", f"{words} may damage a file that several use", cure)
    return Diagnosis("sqlite-version", "ok", words)


def tools() -> list[Diagnosis]:
    """Each kind that can not be loaded, or lacks what it needs for its work; one finding when all is well."""
    found, kinds = [], 0
    for point in sorted(entry_points(group="noetl.tools"), key=lambda each: each.name):
        kinds += 1
        try:
            point.load()
        except Exception as error:  # noqa: BLE001  # a tool of someone else may do anything
            words = (
                f'the tool "{point.name}" ({point.value}) can not be loaded: {type(error).__name__}: {error}'
            )
            cure = f"install what it needs, or remove the package that brings it: {point.value.split(':')[0]}"
            found.append(Diagnosis("tools", "error", words, cure))
            continue
        module, extra = _NEEDS.get(point.name, ("", ""))
        if module and find_spec(module) is None:
            words = f'the tool "{point.name}" is there, but {module} is not: its calls will fail'
            found.append(Diagnosis("tools", "info", words, install_hint(extra)))
    return found or [Diagnosis("tools", "ok", f"all {kinds} kinds of tools can be loaded")]


def key(environment: Mapping[str, str]) -> Diagnosis:
    try:
        count = len(KeyFile(environment=environment).all())
    except NoetlError as error:
        return Diagnosis("key", "error", str(error), f"make one: {MAKE_KEY}")
    return Diagnosis(
        "key", "ok", f"{VARIABLE} holds {count} key{'s' if count > 1 else ''} for stored secrets"
    )


def link_key(environment: Mapping[str, str]) -> Diagnosis:
    text = environment.get(LINK_KEY, "")
    if not text:
        words = f"{LINK_KEY} is not set here: no worker is told any credential"
        return Diagnosis("link-key", "warning", words, f"the same on servers and workers: {MAKE_KEY}")
    try:
        body = base64.b64decode(
            text.strip(), altchars=b"-_" if set("-_") & set(text) else None, validate=True
        )
    except (binascii.Error, ValueError):
        body = b""
    if len(body) != KEY_BYTES:
        return Diagnosis(
            "link-key", "error", f"{LINK_KEY} holds no key: {KEY_BYTES} bytes in base64", MAKE_KEY
        )
    return Diagnosis("link-key", "ok", f"{LINK_KEY} is set")


def keys_fit(stored: Mapping[str, int], known: set[str]) -> Diagnosis:
    """`stored`: how many secrets each key has closed. `known`: the keys that are here."""
    total, lost = sum(stored.values()), sum(count for id, count in stored.items() if id not in known)
    if lost:
        cure = f"put the key of then into {VARIABLE}, behind the present one; or set them anew"
        return Diagnosis(
            "stored-secrets", "error", f"{lost} of {total} stored secrets need a key that is not here", cure
        )
    words = "no secrets are stored" if not total else f"{total} stored secrets, and the keys that open them"
    return Diagnosis("stored-secrets", "ok", words)
