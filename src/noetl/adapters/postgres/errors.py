"""Translation of errors of PostgreSQL and its driver into Unavailable.

The texts of the driver contain values of rows and parts of the URL, so only types and codes are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg

from noetl.errors import NoetlError, Unavailable

# Meaning and advice by SQLSTATE, or by its class.
_MESSAGES: Final[dict[str, str]] = {
    "53100": "storage full: PostgreSQL has no space; free some space",
    "53300": "PostgreSQL has no connection left: raise max_connections, or close other connections",
    "57P03": "PostgreSQL is starting or stopping",
    "57014": "PostgreSQL did not finish the statement in time",
    "28": "PostgreSQL refuses the user or the password of the URL",
    "3D000": "the database of the URL does not exist: create it (createdb, ENCODING 'UTF8')",
    "42501": "permission denied: the user needs CREATE on the database, or all rights on the schema noetl",
    "25006": "PostgreSQL is read-only: the URL leads to a standby, or to a read-only database",
}


def explained(error: Exception) -> Unavailable:
    """The translated error. The outcome of the statement is unknown."""
    code = str(getattr(error, "sqlstate", None) or "")
    if isinstance(error, TimeoutError):
        return Unavailable("PostgreSQL does not answer in time")
    if message := _MESSAGES.get(code) or _MESSAGES.get(code[:2]):
        return Unavailable(f"{message} ({code})")
    if isinstance(error, asyncpg.PostgresError):
        return Unavailable(f"PostgreSQL refuses the statement ({type(error).__name__}, {code})")
    if isinstance(error, OSError):
        return Unavailable(f"PostgreSQL cannot be reached: {error.strerror or type(error).__name__}")
    return Unavailable(f"the connection to PostgreSQL is lost ({type(error).__name__})")


@contextmanager
def translated() -> Iterator[None]:
    """Raise Unavailable for every error of the driver, which has many types for a lost connection.

    Errors of the server are not chained, so that no traceback in a process log shows a value.
    """
    try:
        yield
    except NoetlError:
        raise
    except Exception as error:  # noqa: BLE001  # after any of them the outcome of a write is unknown
        raise explained(error) from (None if isinstance(error, asyncpg.PostgresError) else error)


def is_text(value: str) -> bool:
    """Whether PostgreSQL can store it: neither NUL nor lone surrogates, which command lines may contain."""
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False
