"""All settings that come from environment variables, each with its default and its documentation.

The reference page and the defaults in help texts are made from this module. It does not postpone annotations: to
evaluate those of `Settings` later takes ten times as long, and every command needs them.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Struct

from noetl import failpoints
from noetl.defaults import (
    LEASE_S,
    LOG_CALL_BYTES,
    LOG_EXECUTION_BYTES,
    OIDC_GROUPS_CLAIM,
    OIDC_SCOPES,
    SESSION_HOURS,
    SESSION_IDLE_HOURS,
    SLOT_RESERVE,
    STATE_BYTES,
    STATE_MEMORY_SHARE,
    TOOL_NICE,
)
from noetl.errors import Rejected
from noetl.runtime.memory_limit import default_state_bytes
from noetl.tool import ToolUser

DATABASE: Final = "NOETL_DB"
RESULTS: Final = "NOETL_RESULTS"
SERVER: Final = "NOETL_SERVER"
NATS: Final = "NOETL_NATS"
KEY: Final = "NOETL_KEY"
LINK_KEY: Final = "NOETL_LINK_KEY"
POOL_KEY: Final = "NOETL_POOL_KEY"
POOL_KEYS: Final = "NOETL_POOL_KEYS"
LOG: Final = "NOETL_LOG"
NETWORKS: Final = "NOETL_ALLOW_NETWORKS"
TOOL_USER: Final = "NOETL_TOOL_USER"
TOKEN: Final = "NOETL_TOKEN"

PUBLIC_URL: Final = "NOETL_PUBLIC_URL"
OIDC_ISSUER: Final = "NOETL_OIDC_ISSUER"
OIDC_CLIENT_ID: Final = "NOETL_OIDC_CLIENT_ID"
OIDC_SECRET: Final = "NOETL_OIDC_CLIENT_SECRET"
OIDC_SECRET_FILE: Final = "NOETL_OIDC_CLIENT_SECRET_FILE"
OIDC_ROLES: Final = "NOETL_OIDC_ROLES"

LEASE_MIN_S: Final = 1.0
SLOT_RESERVE_MAX: Final = 0.9
TOOL_NICE_MAX: Final = 19
SESSION_HOURS_MIN: Final = 0.1
SESSION_HOURS_MAX: Final = 24 * 31
BYTES_LIMIT: Final = 1 << 40


class Variable(NamedTuple):
    """The documentation of an environment variable."""

    name: str
    meaning: str
    default: str  # as the reference shows it
    option: str = ""  # the option that overrides it
    read_by: str = "all"


class Settings(Struct, frozen=True, kw_only=True):
    """The values of the environment variables, as text; "" stands for a variable that is not set."""

    database: Annotated[
        str,
        Variable(
            DATABASE,
            "The database: a file, or `postgresql://…` for servers. `--db` overrides it, and it overrides the"
            " current context.",
            "`~/.local/share/noetl/noetl.db`",
            "`--db`",
            "commands, servers",
        ),
    ] = ""
    server: Annotated[
        str,
        Variable(
            SERVER,
            "The server that commands use: an address, the name of a context, or `local` for the database."
            " `--server` and `--db` override it, and it overrides `NOETL_DB`.",
            "the current context, or else the database",
            "`--server`",
            "commands",
        ),
    ] = ""
    token: Annotated[
        str,
        Variable(
            TOKEN,
            "The API token for that server. It overrides the token of a context.",
            "the token of the context",
            read_by="commands",
        ),
    ] = ""
    results: Annotated[
        str,
        Variable(
            RESULTS,
            "The stores for large results: `files`, `sqlite`, `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`,"
            " `nats://host:port/bucket` or `postgresql://…`. Separate several with spaces; the first one is"
            " the default.",
            "`files`; with NATS, its object store",
        ),
    ] = ""
    nats: Annotated[
        str,
        Variable(
            NATS,
            "The NATS server that connects servers and workers: `nats://user:password@host:port`, or `tls://…`.",
            "none: one process on one file",
            "`--nats`",
            "servers, workers",
        ),
    ] = ""
    link_key: Annotated[
        str,
        Variable(
            LINK_KEY,
            "The key that encrypts credentials between servers and workers: base64 of 32 random bytes, the"
            " same for all of them. With `NOETL_POOL_KEYS` it identifies servers, and workers must not have it.",
            "none: workers get no credentials",
            read_by="servers, workers",
        ),
    ] = ""
    pool_key: Annotated[
        str,
        Variable(
            POOL_KEY,
            "The key of the worker's pool: base64 of 32 random bytes. It encrypts all messages between the worker"
            " and the servers, and proves the pool of the worker.",
            "none: pools are not isolated",
            read_by="workers",
        ),
    ] = ""
    pool_keys: Annotated[
        str,
        Variable(
            POOL_KEYS,
            "The keys of all pools, such as `default=KEY gpu=KEY`. Servers then accept only messages that are"
            " encrypted with the key of a pool, and only for work of that pool. To change a key, give the pool"
            " two entries, the new one first.",
            "none: pools are not isolated",
            read_by="servers",
        ),
    ] = ""
    networks: Annotated[
        str,
        Variable(
            NETWORKS,
            "Networks that tools may reach although they are not public, such as `10.0.0.0/8 127.0.0.0/8`.",
            "none: public addresses only",
            read_by="servers, workers",
        ),
    ] = ""
    tool_user: Annotated[
        str,
        Variable(
            TOOL_USER,
            "The user that runs the programs of `python`, `shell`, `quantum` and `mcp` tasks. The process itself must"
            " run as root.",
            "none: the user of the process",
            read_by="workers, servers on a file, `noetl run`",
        ),
    ] = ""
    tool_nice: Annotated[
        str,
        Variable(
            "NOETL_TOOL_NICE",
            "How much lower the priority of the programs of `python`, `shell`, `quantum` and `mcp` tasks is than that"
            " of the server or worker that starts them, from 0 to 19, so that tasks that compute do not delay other"
            " executions. Programs of `noetl run` have the priority of the command.",
            f"`{TOOL_NICE}`",
            read_by="workers, servers on a file",
        ),
    ] = str(TOOL_NICE)
    secret_variables: Annotated[
        str,
        Variable(
            "NOETL_SECRET_VARIABLES",
            "Environment variables of a server that keychain entries may name, such as `PG_PASSWORD SHOP_*`."
            " `NOETL_SECRET_…` is always permitted, any other `NOETL_…` never.",
            "only `NOETL_SECRET_…`",
            read_by="servers",
        ),
    ] = ""
    secret_folders: Annotated[
        str | None,
        Variable(
            "NOETL_SECRET_FOLDERS",
            "Folders with files that keychain entries of a server may name.",
            "`/run/secrets`",
            read_by="servers",
        ),
    ] = None
    lease: Annotated[
        str,
        Variable(
            "NOETL_LEASE",
            "Seconds without a heartbeat after which others take over the work of a server or a worker. Use"
            " the same value for all of them.",
            f"`{LEASE_S:g}`",
            read_by="servers, workers",
        ),
    ] = f"{LEASE_S:g}"
    slot_reserve: Annotated[
        str,
        Variable(
            "NOETL_SLOT_RESERVE",
            "The share of the slots of a pool, from 0 to 0.9, that one execution leaves to others, so that a long loop"
            " does not delay small executions. The default has an effect in pools with eight or more slots.",
            f"`{SLOT_RESERVE:g}`",
            read_by="servers",
        ),
    ] = f"{SLOT_RESERVE:g}"
    state_bytes: Annotated[
        str,
        Variable(
            "NOETL_STATE_BYTES",
            "The size, as JSON, of what all executions of a server keep in its memory. Past it, the largest execution"
            " ends with an error of kind `limit`. 0: no limit. The default depends on the memory that the server may"
            " use, which is the limit of its control group (container, systemd unit), or else the memory of the"
            " machine. Long texts need 6 times their size as JSON, and small values 11 times. A playbook limits its own"
            " executions with `limits.state_bytes`.",
            f"1/{STATE_MEMORY_SHARE} of the memory, at most `{STATE_BYTES}`",
            read_by="servers",
        ),
    ] = ""
    keep: Annotated[
        str,
        Variable(
            "NOETL_KEEP_DAYS",
            "Days that servers on PostgreSQL keep finished executions and their results.",
            "unlimited",
            read_by="servers",
        ),
    ] = ""
    log: Annotated[
        str,
        Variable(
            LOG,
            "The level of the process log on standard error: `debug`, `info` or `warning`.",
            "`info`",
            read_by="servers, workers",
        ),
    ] = "info"
    traces: Annotated[
        str,
        Variable(
            "NOETL_TRACES",
            "The OTLP/HTTP endpoint that receives traces, such as `http://collector:4318`.",
            "none: no traces",
            read_by="servers",
        ),
    ] = ""
    metrics: Annotated[
        str,
        Variable(
            "NOETL_METRICS",
            "The address `host:port` on which a worker serves its metrics.",
            "none: no metrics",
            read_by="workers",
        ),
    ] = ""
    log_call_bytes: Annotated[
        str,
        Variable(
            "NOETL_LOG_CALL_BYTES",
            "How many bytes are kept of the lines that one call of a task prints; 0: none.",
            f"{LOG_CALL_BYTES:,}",
            read_by="commands, servers on one file, workers",
        ),
    ] = ""
    log_execution_bytes: Annotated[
        str,
        Variable(
            "NOETL_LOG_EXECUTION_BYTES",
            "How many bytes are kept of the lines that all calls of one execution print.",
            f"{LOG_EXECUTION_BYTES:,}",
            read_by="commands, servers",
        ),
    ] = ""
    s3_endpoint: Annotated[
        str, Variable("NOETL_S3_ENDPOINT", "The address of an S3-compatible object store.", "Amazon S3")
    ] = ""
    key: Annotated[
        str,
        Variable(
            KEY,
            "The key that encrypts stored secrets: base64 of 32 random bytes. To rotate it, give several, the"
            " newest first.",
            "a file beside the database",
            read_by="commands, servers",
        ),
    ] = ""
    public_url: Annotated[
        str,
        Variable(
            PUBLIC_URL,
            "The address under which browsers reach the server, such as `https://noetl.example.com`. Sessions of the"
            " web UI then work under this address only. Sign-in with OpenID Connect needs it, and notifications read it"
            " as `execution.url`.",
            "the host of each request; `execution.url` is null",
        ),
    ] = ""
    oidc_issuer: Annotated[
        str,
        Variable(
            OIDC_ISSUER,
            "The OpenID Connect provider that signs people in to the web UI: its issuer, such as"
            " `https://login.example.com/realms/main`. The discovery document is below this address.",
            "none: API tokens only",
            read_by="servers",
        ),
    ] = ""
    oidc_client_id: Annotated[
        str, Variable(OIDC_CLIENT_ID, "The id under which the provider knows this server.", "none", read_by="servers")
    ] = ""
    oidc_client_secret: Annotated[
        str,
        Variable(
            OIDC_SECRET,
            "The secret that the provider gave for this id.",
            "none: a public client, protected by PKCE",
            read_by="servers",
        ),
    ] = ""
    oidc_client_secret_file: Annotated[
        str,
        Variable(OIDC_SECRET_FILE, "A file that contains this secret, as an alternative.", "none", read_by="servers"),
    ] = ""
    oidc_scopes: Annotated[
        str,
        Variable(
            "NOETL_OIDC_SCOPES",
            "The scopes that are requested from the provider.",
            f"`{OIDC_SCOPES}`",
            read_by="servers",
        ),
    ] = OIDC_SCOPES
    oidc_groups_claim: Annotated[
        str,
        Variable(
            "NOETL_OIDC_GROUPS_CLAIM",
            "The claim with the groups of a person: a name, or a path such as `realm_access.roles`.",
            f"`{OIDC_GROUPS_CLAIM}`",
            read_by="servers",
        ),
    ] = OIDC_GROUPS_CLAIM
    oidc_roles: Annotated[
        str,
        Variable(
            OIDC_ROLES,
            'The roles of groups: JSON such as `{"ops": [{"role": "operator", "paths": ["orders/*"]}]}`, or a file with'
            " it. The group `*` is everyone whom the provider signs in. A person without a role is refused.",
            "none",
            read_by="servers",
        ),
    ] = ""
    session_hours: Annotated[
        str,
        Variable(
            "NOETL_SESSION_HOURS",
            "Hours after the sign-in at which a session of the web UI ends.",
            f"`{SESSION_HOURS:g}`",
            read_by="servers",
        ),
    ] = f"{SESSION_HOURS:g}"
    session_idle_hours: Annotated[
        str,
        Variable(
            "NOETL_SESSION_IDLE_HOURS",
            "Hours without a request after which a session of the web UI ends.",
            f"`{SESSION_IDLE_HOURS:g}`",
            read_by="servers",
        ),
    ] = f"{SESSION_IDLE_HOURS:g}"
    failpoint: Annotated[
        str,
        Variable(failpoints.VARIABLE, "Kills the process at a named point, for crash tests.", "none", read_by="tests"),
    ] = ""

    def __repr__(self) -> str:
        return "Settings(***)"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        found: dict[str, Any] = {field: environment.get(variable.name) for field, variable in variables().items()}
        # An empty variable counts as not set, except that an empty list of folders permits none.
        given = {field: value for field, value in found.items() if value or field == "secret_folders"}
        return cls(**given)

    @property
    def lease_s(self) -> float:
        """Raises Rejected."""
        return max(LEASE_MIN_S, _number("NOETL_LEASE", self.lease, "a number of seconds, such as 30"))

    @property
    def slot_reserve_share(self) -> float:
        """Raises Rejected."""
        wanted = "a share from 0 to 0.9, such as 0.125"
        share = _number("NOETL_SLOT_RESERVE", self.slot_reserve, wanted)
        if not 0 <= share <= SLOT_RESERVE_MAX:
            raise Rejected("bad-setting", f"NOETL_SLOT_RESERVE must be {wanted}")
        return share

    @property
    def state_bytes_max(self) -> int:
        """0: no limit. Raises Rejected."""
        if not self.state_bytes:
            return default_state_bytes()
        wanted = "a number of bytes, such as 1073741824"
        size = _number("NOETL_STATE_BYTES", self.state_bytes, wanted)
        if not 0 <= size < BYTES_LIMIT:
            raise Rejected("bad-setting", f"NOETL_STATE_BYTES must be {wanted}")
        return int(size)

    @property
    def tool_nice_level(self) -> int:
        """Raises Rejected."""
        wanted = f"a number from 0 to {TOOL_NICE_MAX}, such as {TOOL_NICE}"
        level = _number("NOETL_TOOL_NICE", self.tool_nice, wanted)
        if not 0 <= level <= TOOL_NICE_MAX:
            raise Rejected("bad-setting", f"NOETL_TOOL_NICE must be {wanted}")
        return int(level)

    @property
    def keep_days(self) -> float | None:
        """None: executions are kept forever. Raises Rejected."""
        return _number("NOETL_KEEP_DAYS", self.keep, "a number of days, such as 90") if self.keep else None

    @property
    def log_limits(self) -> tuple[int, int]:
        """The bytes of lines that are kept of a call, and of an execution. Raises Rejected."""
        wanted = "a number of bytes, such as 1000000"
        call = _number("NOETL_LOG_CALL_BYTES", self.log_call_bytes or str(LOG_CALL_BYTES), wanted)
        execution = _number("NOETL_LOG_EXECUTION_BYTES", self.log_execution_bytes or str(LOG_EXECUTION_BYTES), wanted)
        if not (0 <= call < BYTES_LIMIT and 0 <= execution < BYTES_LIMIT):
            raise Rejected("bad-setting", f"NOETL_LOG_CALL_BYTES and NOETL_LOG_EXECUTION_BYTES must be {wanted}")
        return int(call), int(execution)

    @property
    def session_limits_s(self) -> tuple[float, float]:
        """The lifetime of a session, and the longest time without a request, in seconds. Raises Rejected."""
        lifetime = _number("NOETL_SESSION_HOURS", self.session_hours, "a number of hours, such as 12")
        idle = _number("NOETL_SESSION_IDLE_HOURS", self.session_idle_hours, "a number of hours, such as 2")
        for name, hours in (("NOETL_SESSION_HOURS", lifetime), ("NOETL_SESSION_IDLE_HOURS", idle)):
            if not SESSION_HOURS_MIN <= hours <= SESSION_HOURS_MAX:
                raise Rejected("bad-setting", f"{name} must be from {SESSION_HOURS_MIN} to {SESSION_HOURS_MAX} hours")
        return lifetime * 3_600, idle * 3_600

    def result_stores(self, *, default: str = "files") -> list[str]:
        """The configured result stores, the default first."""
        return self.results.split() or [default]

    def find_tool_user(self) -> ToolUser | None:
        """None: that of the process. Raises Rejected."""
        return ToolUser.find(self.tool_user) if self.tool_user else None

    @property
    def secret_sources(self) -> tuple[str, str | None, str]:
        """The sources of credentials for playbooks on a server: variables, folders, networks."""
        return self.secret_variables, self.secret_folders, self.networks


def _number(name: str, text: str, wanted: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Rejected("bad-setting", f"{name} must be {wanted}") from None


@cache
def variables() -> dict[str, Variable]:
    """The variables by field of Settings. Credentials may read other variables."""
    return {field: hint.__metadata__[0] for field, hint in Settings.__annotations__.items()}


def database_path(option: str | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The file in `--db` or NOETL_DB, or else one in the user's home: the same for every working directory.

    Raises Rejected for PostgreSQL: only servers use that directly.
    """
    if database_url(option, environment) is not None:
        reason = "commands reach a PostgreSQL database through a server: use --server URL"
        raise Rejected("bad-setting", f"{reason}, or name a file with --db")
    if option or environment.get(DATABASE):
        return Path(option or environment[DATABASE]).expanduser()
    return data_folder(environment) / "noetl.db"


def data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    home = environment.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "noetl"


def database_url(option: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The address of a PostgreSQL database; None: the database is a file."""
    named = option or environment.get(DATABASE) or ""
    return named if named.startswith(("postgresql://", "postgres://")) else None


def nats_url(option: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    return option or environment.get(NATS) or None


def contexts_path(environment: Mapping[str, str] = os.environ) -> str:
    """The file of `noetl context`. A plain string: every command checks it, and most find no file."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "noetl", "contexts.json")
