"""What PostgreSQL and its driver say when something goes wrong → Unavailable, in words that show no value.

The driver's messages hold DETAIL with values of rows, and parts of the URL: only kinds and codes are told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg

from noetl.errors import NoetlError, Unavailable

# By the code of the server, or by its class: what it means, and how it is mended.
_WORDS: Final[dict[str, str]] = {
    "53100": "storage full: PostgreSQL takes nothing more; make space, then go on",
    "53300": "PostgreSQL has no connection left: raise max_connections, or end what holds them",
    "57P03": "PostgreSQL is starting or stopping",
    "57014": "PostgreSQL did not get it done in time",
    "28": "PostgreSQL refuses the user or the password of the URL",
    "3D000": "the database that the URL names is not there: create it (createdb, ENCODING 'UTF8')",
    "42501": "not allowed by PostgreSQL: the user needs CREATE on the database, or all on the schema noetl",
    "25006": "PostgreSQL takes no writes: the URL leads to a standby, or to a database that is read only",
}


def explained(error: Exception) -> Unavailable:
    """The error in our words. Whatever was asked for may have happened or not."""
    code = str(getattr(error, "sqlstate", None) or "")
    if isinstance(error, TimeoutError):
        return Unavailable("PostgreSQL does not answer in time")
    if words := _WORDS.get(code) or _WORDS.get(code[:2]):
        return Unavailable(f"{words} ({code})")
    if isinstance(error, asyncpg.PostgresError):
        return Unavailable(f"PostgreSQL refuses it ({type(error).__name__}, {code})")
    if isinstance(error, OSError):
        return Unavailable(f"PostgreSQL can not be reached: {error.strerror or type(error).__name__}")
    return Unavailable(f"the connection to PostgreSQL is lost ({type(error).__name__})")


@contextmanager
def translated() -> Iterator[None]:
    """Whatever the driver raises → Unavailable: it has many ways to say that a connection was lost.

    What the server says is left out of the chain, so that no traceback in a process log shows a value.
    """
    try:
        yield
    except NoetlError:
        raise
    except Exception as error:  # noqa: BLE001  # any of them during a write means: not known
        raise explained(error) from (None if isinstance(error, asyncpg.PostgresError) else error)


def is_text(value: str) -> bool:
    """Can PostgreSQL hold it? Not so NUL, and the halves of characters that command lines may bring."""
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False
