"""Settings, read in one place: from the environment and from what a command was given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DATABASE: Final = "NOETL_DB"

# Every variable that NoETL reads, for the reference.
VARIABLES: Final[dict[str, str]] = {
    DATABASE: "the database of the embedded house; `--db` beats it",
    "NOETL_FAILPOINT": "kills the process at a named place, for tests of what survives",
}


def database_path(given: str | None, environment: Mapping[str, str] = os.environ) -> Path:
    """`--db`, else NOETL_DB, else a file of the user's own: the same from whatever folder one works in."""
    if given or environment.get(DATABASE):
        return Path(given or environment[DATABASE]).expanduser()
    home = environment.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "noetl" / "noetl.db"
