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
from noetl.config import LINK_KEY
from noetl.errors import NoetlError, install_hint
from noetl.wiring.doctor import Asked, Finding, version_of

PYTHON: Final = (3, 11)
SQLITE: Final = (3, 51, 3)  # older ones may damage a file when one process checkpoints while another commits
MAKE_KEY: Final = """python3 -c 'import base64, os; print(base64.b64encode(os.urandom(32)).decode())'"""
# What a tool imports when it works, and the extra that brings it.
_NEEDS: Final[dict[str, tuple[str, str]]] = {
    "postgres": ("asyncpg", "postgres"),
    "duckdb": ("duckdb", "duckdb"),
    "quantum": ("qiskit", "quantum"),
}


def examine_machine(asked: Asked) -> list[Finding]:
    found = [python_version(), sqlite_version(), *tools()]
    if asked.environment.get(VARIABLE):
        found.append(key(asked.environment))
    if asked.environment.get(LINK_KEY) or asked.nats is not None:
        found.append(link_key(asked.environment))
    if asked.database is not None and not asked.environment.get(VARIABLE):
        words = f"{VARIABLE} is not set here: a server without it can neither store nor read secrets"
        found.append(Finding("key", "warning", words, f"{VARIABLE}=$({MAKE_KEY}), the same on every server"))
    return found


def python_version() -> Finding:
    words = f"NoETL {__version__} on Python {sys.version.split()[0]}"
    if sys.version_info < PYTHON:
        return Finding("python-version", "error", words, "install Python 3.11 or newer")
    return Finding("python-version", "ok", words)


def sqlite_version() -> Finding:
    import apsw

    words = f"SQLite {apsw.sqlite_lib_version()}"
    if version_of(apsw.sqlite_lib_version()) < SQLITE:
        cure = "pip install --upgrade apsw; until then let one process at a time use a database"
        return Finding("sqlite-version", "error", f"{words} may damage a file that several use", cure)
    return Finding("sqlite-version", "ok", words)


def tools() -> list[Finding]:
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
            found.append(Finding("tools", "error", words, cure))
            continue
        module, extra = _NEEDS.get(point.name, ("", ""))
        if module and find_spec(module) is None:
            words = f'the tool "{point.name}" is there, but {module} is not: its calls will fail'
            found.append(Finding("tools", "info", words, install_hint(extra)))
    return found or [Finding("tools", "ok", f"all {kinds} kinds of tools can be loaded")]


def key(environment: Mapping[str, str]) -> Finding:
    try:
        count = len(KeyFile(environment=environment).all())
    except NoetlError as error:
        return Finding("key", "error", str(error), f"make one: {MAKE_KEY}")
    return Finding("key", "ok", f"{VARIABLE} holds {count} key{'s' if count > 1 else ''} for stored secrets")


def link_key(environment: Mapping[str, str]) -> Finding:
    text = environment.get(LINK_KEY, "")
    if not text:
        words = f"{LINK_KEY} is not set here: no worker is told any credential"
        return Finding("link-key", "warning", words, f"the same on servers and workers: {MAKE_KEY}")
    try:
        body = base64.b64decode(
            text.strip(), altchars=b"-_" if set("-_") & set(text) else None, validate=True
        )
    except (binascii.Error, ValueError):
        body = b""
    if len(body) != KEY_BYTES:
        return Finding("link-key", "error", f"{LINK_KEY} holds no key: {KEY_BYTES} bytes in base64", MAKE_KEY)
    return Finding("link-key", "ok", f"{LINK_KEY} is set")


def keys_fit(stored: Mapping[str, int], known: set[str]) -> Finding:
    """`stored`: how many secrets each key has closed. `known`: the keys that are here."""
    total, lost = sum(stored.values()), sum(count for id, count in stored.items() if id not in known)
    if lost:
        cure = f"put the key of then into {VARIABLE}, behind the present one; or set them anew"
        return Finding(
            "stored-secrets", "error", f"{lost} of {total} stored secrets need a key that is not here", cure
        )
    words = "no secrets are stored" if not total else f"{total} stored secrets, and the keys that open them"
    return Finding("stored-secrets", "ok", words)
