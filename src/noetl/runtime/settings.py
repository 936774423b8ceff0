"""Settings, read in one place: from the environment and from what a command was given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from noetl.errors import Rejected

DATABASE: Final = "NOETL_DB"
RESULTS: Final = "NOETL_RESULTS"
S3_ENDPOINT: Final = "NOETL_S3_ENDPOINT"
SERVER: Final = "NOETL_SERVER"
NATS: Final = "NOETL_NATS"
LINK_KEY: Final = "NOETL_LINK_KEY"
LEASE: Final = "NOETL_LEASE"
KEEP: Final = "NOETL_KEEP_DAYS"
LOG: Final = "NOETL_LOG"
TRACES: Final = "NOETL_TRACES"
METRICS: Final = "NOETL_METRICS"
NETWORKS: Final = "NOETL_ALLOW_NETWORKS"
SECRET_VARIABLES: Final = "NOETL_SECRET_VARIABLES"
SECRET_FOLDERS: Final = "NOETL_SECRET_FOLDERS"
TOKEN: Final = "NOETL_TOKEN"

# Every variable of our own, for the reference; credentials may read others.
VARIABLES: Final[dict[str, str]] = {
    DATABASE: "the database of the embedded house; `--db` beats it, and it beats the current context",
    SERVER: (
        "the server that commands go to: an address, the name of a context, or `local` for the database;"
        " `--server` and `--db` beat it, and it beats `NOETL_DB`"
    ),
    TOKEN: "the token for that server; it beats that of a context",
    RESULTS: (
        "where large results go, `files` if not given: `files`, `sqlite`, `s3://bucket/prefix`, "
        "`nats://host:port/bucket` or `postgresql://…`; several with blanks between, the first by default"
    ),
    NATS: "where servers and workers meet: `nats://user:password@host:port`, or `tls://…`; `--nats` beats it",
    LINK_KEY: (
        "what servers and workers share to seal credentials on their way: base64 of 32 random bytes;"
        " without it no worker is told any"
    ),
    NETWORKS: (
        "addresses that tools of a server's workers may reach though they are not public, such as"
        " `10.0.0.0/8 127.0.0.0/8`"
    ),
    SECRET_VARIABLES: (
        "variables of a server's environment that keychain entries may name, such as `PG_PASSWORD SHOP_*`;"
        " those that begin with `NOETL_SECRET_` always, others that begin with `NOETL_` never"
    ),
    SECRET_FOLDERS: "folders whose files keychain entries of a server may name; `/run/secrets` if not given",
    LEASE: (
        "seconds after which work of a server or worker that is silent goes to others, 30 if not given;"
        " the same for all of them"
    ),
    KEEP: (
        "days that servers on PostgreSQL keep executions after their end, with their results;"
        " not given: for ever"
    ),
    LOG: "how much servers and workers say on standard error: `debug`, `info` (if not given) or `warning`",
    TRACES: "where traces go, by OTLP over HTTP, such as `http://collector:4318`; not given: nowhere",
    METRICS: "an address `host:port` on which a worker shows its metrics; not given: it listens nowhere",
    S3_ENDPOINT: "the address of an object store that speaks S3 and is not Amazon's",
    "NOETL_KEY": "key of stored secrets, base64 of 32 bytes; several, newest first, while one is replaced",
    "NOETL_FAILPOINT": "kills the process at a named place, for tests of what survives",
}


def database_path(given: str | None, environment: Mapping[str, str] = os.environ) -> Path:
    """`--db`, else NOETL_DB, else a file of the user's own: the same from whatever folder one works in.

    Raises Rejected when that is no file: the executions on a PostgreSQL are its servers' affair.
    """
    if database_url(given, environment) is not None:
        words = "a PostgreSQL is looked at and worked with through one of its servers: --server URL"
        raise Rejected("bad-setting", f"{words}, or name a file with --db")
    if given or environment.get(DATABASE):
        return Path(given or environment[DATABASE]).expanduser()
    home = environment.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "noetl" / "noetl.db"


def result_stores(environment: Mapping[str, str] = os.environ, *, default: str = "files") -> list[str]:
    """Which result stores there are, the default first."""
    return environment.get(RESULTS, "").split() or [default]


def s3_endpoint(environment: Mapping[str, str] = os.environ) -> str | None:
    return environment.get(S3_ENDPOINT) or None


def database_url(given: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The same as the address of a PostgreSQL; None: what is named is a file."""
    named = given or environment.get(DATABASE) or ""
    return named if named.startswith(("postgresql://", "postgres://")) else None


def nats_url(given: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    return given or environment.get(NATS) or None


def networks(environment: Mapping[str, str] = os.environ) -> str:
    return environment.get(NETWORKS, "")


def secret_sources(environment: Mapping[str, str] = os.environ) -> tuple[str, str | None, str]:
    """What playbooks on a server may take their credentials from: variables, folders, networks."""
    return environment.get(SECRET_VARIABLES, ""), environment.get(SECRET_FOLDERS), networks(environment)


def keep_days(environment: Mapping[str, str] = os.environ) -> float | None:
    """None: nothing is forgotten. Raises ValueError."""
    given = environment.get(KEEP)
    return float(given) if given else None


def lease_s(environment: Mapping[str, str] = os.environ) -> float:
    """Raises ValueError."""
    return max(1.0, float(environment.get(LEASE) or 30.0))


def contexts_path(environment: Mapping[str, str] = os.environ) -> str:
    """Where `noetl context` keeps servers: a text, since every command asks and most find no file."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "noetl", "contexts.json")
