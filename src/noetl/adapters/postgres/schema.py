"""The tables, in the schema `noetl`. A schema of another program or a newer NoETL is refused.

A changed table is a new version and a step in `_STEPS`, which runs automatically, once, in one transaction.
The log is not partitioned by id: ids of children are hashes without a time, so no range would ever be old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from noetl.errors import Unavailable

if TYPE_CHECKING:
    from asyncpg import Connection

OLDEST: Final = 140_000  # supported server, as server_version_num
_LOCK: Final = 0x4E6F4554  # advisory lock for the creation of tables: "NoET"

# The body is text: jsonb refuses the character \u0000, which outputs may contain, and json inserts slower.
# The columns of a head that an append changes (seq, updated_at) are in no index, so updates stay in their
# page (HOT); fillfactor leaves room for that.
_FIRST: Final = """
CREATE TABLE noetl.log (
    execution_id text COLLATE "C" NOT NULL,
    first_seq    bigint NOT NULL,
    last_seq     bigint NOT NULL,
    at           timestamptz NOT NULL,
    body         text NOT NULL, -- a JSON array of facts
    PRIMARY KEY (execution_id, first_seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE TABLE noetl.heads (
    execution_id text COLLATE "C" PRIMARY KEY,
    partition    smallint NOT NULL,
    seq          bigint NOT NULL, -- of the last fact
    status       text NOT NULL,
    path         text COLLATE "C" NOT NULL,
    digest       text NOT NULL,
    parent       text, -- "<execution>/<frame>"
    started_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX heads_open ON noetl.heads (partition, started_at)
    WHERE status NOT IN ('ok', 'error', 'cancelled');
CREATE INDEX heads_by_start ON noetl.heads (started_at, execution_id);
CREATE INDEX heads_by_path ON noetl.heads (left(path, 200), started_at, execution_id);
CREATE INDEX heads_by_status ON noetl.heads (status, started_at, execution_id) WHERE status <> 'ok';
CREATE INDEX heads_by_parent ON noetl.heads (split_part(parent, '/', 1)) WHERE parent IS NOT NULL;

CREATE TABLE noetl.house (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    partitions smallint NOT NULL -- must be the same for all servers
);

CREATE TABLE noetl.partitions (
    number smallint PRIMARY KEY,
    epoch  bigint NOT NULL, -- grows with each new owner; appends with an older one are refused
    server text NOT NULL,
    until  timestamptz NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE noetl.servers (
    name  text COLLATE "C" PRIMARY KEY,
    until timestamptz NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE noetl.snapshots (
    execution_id text COLLATE "C" PRIMARY KEY,
    seq          bigint NOT NULL,
    schema       text NOT NULL,
    body         bytea NOT NULL
);

CREATE TABLE noetl.playbooks (
    digest  text COLLATE "C" PRIMARY KEY,
    path    text COLLATE "C" NOT NULL,
    version integer NOT NULL, -- counts the texts of a path from 1
    text    text NOT NULL,
    origin  text,
    at      timestamptz NOT NULL,
    UNIQUE (path, version)
);

CREATE TABLE noetl.paths (
    path        text COLLATE "C" PRIMARY KEY,
    current     text COLLATE "C" REFERENCES noetl.playbooks, -- null: only while the first text is registered
    archived_at timestamptz -- null: open
);

CREATE TABLE noetl.secrets (
    name    text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL, -- never reused for a name
    nonce   bytea NOT NULL,
    body    bytea NOT NULL, -- encrypted, bound to name and version; empty: it was removed
    key_id  text NOT NULL,
    at      timestamptz NOT NULL
);

CREATE TABLE noetl.tokens (
    id         text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL,
    scopes     text[] NOT NULL,
    digest     bytea NOT NULL UNIQUE, -- sha256 of the secret, which is not stored
    created_at timestamptz NOT NULL,
    expires_at timestamptz
);

CREATE VIEW noetl.events AS
SELECT log.execution_id,
       log.first_seq + each.place - 1 AS seq,
       log.at,
       substring(each.body::text FROM '^{"fact":"([a-z._]+)"') AS fact, -- ->> would fail on \\u0000
       each.body
FROM noetl.log CROSS JOIN LATERAL json_array_elements(log.body::json) WITH ORDINALITY AS each (body, place);
"""

_DOCUMENTS: Final = """
CREATE TABLE noetl.documents ( -- playbooks that tasks have made: found by digest, and registered under no path
    digest text COLLATE "C" PRIMARY KEY,
    path   text COLLATE "C" NOT NULL,
    text   text NOT NULL,
    origin text,
    at     timestamptz NOT NULL
);
"""

_ROLES: Final = "ALTER TABLE noetl.tokens ADD COLUMN roles text NOT NULL DEFAULT '[]'"  # JSON; empty: no limits

_AUDIT: Final = """
CREATE TABLE noetl.audit ( -- append-only: see the triggers
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    action  text NOT NULL,
    what    text NOT NULL,
    target  text NOT NULL,
    who     text NOT NULL,
    caller  text NOT NULL,
    address text NOT NULL,
    detail  text NOT NULL,
    times   bigint NOT NULL
);
CREATE INDEX audit_by_time ON noetl.audit (at);
CREATE FUNCTION noetl.refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit trail is append-only'; END $$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON noetl.audit
FOR EACH STATEMENT EXECUTE FUNCTION noetl.refuse_audit_change();
"""

# Labels of an execution never change, so updates of heads still stay in their page.
_LABELS: Final = """
ALTER TABLE noetl.heads ADD COLUMN labels jsonb; -- null: none
CREATE INDEX heads_by_label ON noetl.heads USING gin (labels jsonb_path_ops) WHERE labels IS NOT NULL;
"""

_TRIGGERS: Final = """
CREATE TABLE noetl.triggers ( -- of the current texts of registered playbooks
    path         text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    kind         text NOT NULL,
    digest       text NOT NULL,
    declaration  text NOT NULL,
    since        timestamptz NOT NULL,
    hook         text COLLATE "C" UNIQUE,
    scheduled_at timestamptz,
    due_at       timestamptz,
    paused       boolean NOT NULL,
    fired        bigint NOT NULL,
    PRIMARY KEY (path, name)
);
CREATE INDEX triggers_due ON noetl.triggers (due_at) WHERE due_at IS NOT NULL AND NOT paused;
CREATE TABLE noetl.firings ( -- the history of triggers
    path         text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    number       bigint NOT NULL,
    at           timestamptz NOT NULL,
    status       text NOT NULL,
    key          text NOT NULL,
    scheduled_at timestamptz,
    execution_id text,
    detail       text NOT NULL,
    PRIMARY KEY (path, name, number)
);
"""

_PRINTED: Final = """
CREATE TABLE noetl.printed (
    execution_id text NOT NULL,
    number       bigint NOT NULL,
    total        bigint NOT NULL,
    body         bytea NOT NULL,
    PRIMARY KEY (execution_id, number)
);
"""

_SAVED: Final = """
CREATE TABLE noetl.saved ( -- the last entry of a path and key is its value
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    path         text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    value        text, -- JSON; null: removed
    at           timestamptz NOT NULL,
    execution_id text, -- null: a person has set it
    who          text
);
CREATE INDEX saved_by_key ON noetl.saved (path, key, id);
"""

_LIMITS: Final = """
CREATE TABLE noetl.permits ( -- of limits by key
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- first come, first served: its key is locked
    key        text COLLATE "C" NOT NULL,
    holder     text COLLATE "C" NOT NULL UNIQUE, -- "<execution>/<place>"
    holds      boolean NOT NULL, -- false: it waits
    in_flight  integer, -- null: any number
    rate_count integer, -- null: no rate
    rate_per_s double precision,
    at         timestamptz NOT NULL
);
CREATE INDEX permits_by_key ON noetl.permits (key, holds, number);
CREATE TABLE noetl.buckets ( -- one row for each key, which is its lock
    key     text COLLATE "C" PRIMARY KEY,
    tokens  double precision, -- null: full
    at      timestamptz,
    idle_at timestamptz NOT NULL -- it is full from then on
);
CREATE INDEX buckets_idle ON noetl.buckets (idle_at);
"""

_UNNOTIFIED: Final = """
CREATE TABLE noetl.unnotified ( -- finished executions whose notifications may not have started
    execution_id text PRIMARY KEY,
    seq          bigint NOT NULL, -- of their last fact
    at           timestamptz NOT NULL
);
CREATE INDEX unnotified_by_time ON noetl.unnotified (at);
"""

_SESSIONS: Final = """
CREATE TABLE noetl.web_sessions (
    id         text COLLATE "C" PRIMARY KEY,
    digest     bytea NOT NULL UNIQUE, -- sha256 of the secret in the cookie, which is not stored
    "user"     text COLLATE "C" NOT NULL,
    name       text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    roles      text NOT NULL, -- JSON
    token      bytea -- tokens.digest; null: the roles
);
CREATE INDEX web_sessions_by_user ON noetl.web_sessions ("user", created_at);
"""

# Of lists with filters. Executions that have ended before have no error here. An update of `waits` is in no
# page of its own only for executions that wait for a person.
_FILTERS: Final = """
ALTER TABLE noetl.heads ADD COLUMN error text; -- why it ended, shortened; null: it has not failed
ALTER TABLE noetl.heads ADD COLUMN waits text; -- a JSON array of what a person has to decide; null: nothing
CREATE INDEX heads_waiting ON noetl.heads (started_at, execution_id) WHERE waits IS NOT NULL;
"""

# The values are needed until the execution ends ok, or is deleted. A row without an execution is of a start that
# never happened.
_SECRET_INPUTS: Final = """
CREATE TABLE noetl.secret_inputs (
    name    text COLLATE "C" PRIMARY KEY, -- the id of an execution
    version bigint NOT NULL,
    nonce   bytea NOT NULL,
    body    bytea NOT NULL, -- a JSON object, encrypted, bound to name and version; empty: it was removed
    key_id  text NOT NULL,
    at      timestamptz NOT NULL
);
CREATE FUNCTION noetl.delete_secret_inputs() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN DELETE FROM noetl.secret_inputs WHERE name = OLD.execution_id; RETURN NULL; END $$;
CREATE TRIGGER secret_inputs_go_with_their_execution AFTER DELETE ON noetl.heads
FOR EACH ROW EXECUTE FUNCTION noetl.delete_secret_inputs();
CREATE TRIGGER secret_inputs_go_after_success AFTER UPDATE ON noetl.heads
FOR EACH ROW WHEN (NEW.status = 'ok') EXECUTE FUNCTION noetl.delete_secret_inputs();
CREATE FUNCTION noetl.delete_secret_inputs_at_once() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN DELETE FROM noetl.secret_inputs WHERE name = NEW.execution_id; RETURN NULL; END $$;
CREATE TRIGGER secret_inputs_go_after_instant_success AFTER INSERT ON noetl.heads
FOR EACH ROW WHEN (NEW.status = 'ok') EXECUTE FUNCTION noetl.delete_secret_inputs_at_once();
CREATE FUNCTION noetl.delete_forgotten_secret_inputs() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    DELETE FROM noetl.secret_inputs WHERE at < NEW.at - interval '1 day'
    AND NOT EXISTS (SELECT FROM noetl.heads WHERE heads.execution_id = secret_inputs.name);
    RETURN NULL;
END $$;
CREATE TRIGGER secret_inputs_without_execution_go AFTER INSERT ON noetl.secret_inputs
FOR EACH ROW EXECUTE FUNCTION noetl.delete_forgotten_secret_inputs();
"""

_LABEL_CHANGES: Final = """
CREATE TABLE noetl.label_changes ( -- append-only; the labels of a request are in the log
    execution_id text COLLATE "C" NOT NULL REFERENCES noetl.heads ON DELETE CASCADE,
    number       bigint GENERATED ALWAYS AS IDENTITY,
    at           timestamptz NOT NULL,
    who          text, -- null: without a server
    labels       text NOT NULL, -- a JSON object; null: removed
    PRIMARY KEY (execution_id, number)
);
"""

_RUN_RECORDS: Final = """
CREATE TABLE noetl.run_records ( -- copies of what readers have computed from long logs
    execution_id text COLLATE "C" PRIMARY KEY REFERENCES noetl.heads ON DELETE CASCADE,
    seq          bigint NOT NULL,
    schema       text NOT NULL,
    body         bytea NOT NULL
);
"""

_STEPS: Final[tuple[str, ...]] = (  # the n-th changes version n to n + 1
    _FIRST, _DOCUMENTS, _ROLES, _AUDIT, _LABELS, _TRIGGERS, _PRINTED, _SAVED, _LIMITS, _UNNOTIFIED,
    _SESSIONS, _FILTERS, _SECRET_INPUTS, _LABEL_CHANGES, _RUN_RECORDS,
)  # fmt: skip
VERSION: Final = len(_STEPS)

# From the tables of the catalog: to_regclass would use the state from before the wait for the lock.
_ABOUT: Final = """
SELECT current_setting('server_version_num')::integer AS server,
       current_setting('server_encoding') AS encoding,
       EXISTS (SELECT FROM pg_namespace WHERE nspname = 'noetl') AS taken,
       EXISTS (SELECT FROM pg_tables WHERE schemaname = 'noetl' AND tablename = 'version') AS ours
"""


async def migrate(connection: Connection) -> None:
    """Create or change the tables. Raises Unavailable if the schema belongs to another program."""
    if await _version(connection) == VERSION:
        return  # without a lock, and without the right to create tables
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        version = await _version(connection)
        if version == 0:
            await connection.execute("CREATE SCHEMA noetl")
            await connection.execute("CREATE TABLE noetl.version (number integer NOT NULL)")
            await connection.execute("INSERT INTO noetl.version VALUES (0)")
        for step in _STEPS[version:]:
            await connection.execute(step)
        await connection.execute("UPDATE noetl.version SET number = $1", VERSION)


async def _version(connection: Connection) -> int:
    """The version of the tables, 0 without tables."""
    about = await connection.fetchrow(_ABOUT)
    if about["server"] < OLDEST:
        raise Unavailable(f"NoETL needs PostgreSQL {OLDEST // 10_000} or newer")
    if about["encoding"] != "UTF8":
        found = f"the encoding of the database is {about['encoding']}, not UTF8"
        raise Unavailable(f"{found}: create one with ENCODING 'UTF8'")
    if not about["taken"]:
        return 0
    if not about["ours"]:
        raise Unavailable("the schema noetl belongs to another program: choose another database for NoETL")
    version: int = await connection.fetchval("SELECT number FROM noetl.version")
    if version > VERSION:
        found = f"the database was written by a newer NoETL (tables of version {version}, not {VERSION})"
        raise Unavailable(f"{found}: update NoETL, or choose another database")
    return version
