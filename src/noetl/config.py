"""Settings, read in one place: from the environment and from what a command was given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DATABASE: Final = "NOETL_DB"
RESULTS: Final = "NOETL_RESULTS"
S3_ENDPOINT: Final = "NOETL_S3_ENDPOINT"

# Every variable of our own, for the reference; credentials may read others.
VARIABLES: Final[dict[str, str]] = {
    DATABASE: "the database of the embedded house; `--db` beats it",
    RESULTS: (
        "where large results go, `files` if not given: `files`, `sqlite`, `s3://bucket/prefix`, "
        "`nats://host:port/bucket` or `postgresql://…`; several with blanks between, the first by default"
    ),
    S3_ENDPOINT: "the address of an object store that speaks S3 and is not Amazon's",
    "NOETL_KEY": "key of stored secrets, base64 of 32 bytes; several, newest first, while one is replaced",
    "NOETL_FAILPOINT": "kills the process at a named place, for tests of what survives",
}


def database_path(given: str | None, environment: Mapping[str, str] = os.environ) -> Path:
    """`--db`, else NOETL_DB, else a file of the user's own: the same from whatever folder one works in."""
    if given or environment.get(DATABASE):
        return Path(given or environment[DATABASE]).expanduser()
    home = environment.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "noetl" / "noetl.db"


def result_stores(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Which result stores there are, the default first."""
    return environment.get(RESULTS, "").split() or ["files"]


def s3_endpoint(environment: Mapping[str, str] = os.environ) -> str | None:
    return environment.get(S3_ENDPOINT) or None
