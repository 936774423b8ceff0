"""The tables. They are created in an empty file; a file of another program or a newer NoETL is refused.

Instants are integer microseconds since 1970. A changed table is a new version and a step in `_STEPS`.
"""

from __future__ import annotations

from typing import Final

import apsw

from noetl.errors import Unavailable

APPLICATION_ID: Final = 0x4E6F4554  # "NoET", for file(1)

# The log is not WITHOUT ROWID: there a row of more than 1 kB takes a whole page.
_FIRST: Final = """
CREATE TABLE log (
    execution_id TEXT NOT NULL,
    first_seq    INTEGER NOT NULL,
    last_seq     INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    body         TEXT NOT NULL, -- a JSON array of facts
    PRIMARY KEY (execution_id, first_seq)
) STRICT;

CREATE TABLE heads (
    execution_id TEXT PRIMARY KEY,
    seq          INTEGER NOT NULL, -- of the last fact
    owner        INTEGER NOT NULL, -- a number in owners
    status       TEXT NOT NULL,
    path         TEXT NOT NULL,
    digest       TEXT NOT NULL,
    parent       TEXT,
    started_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX heads_by_start ON heads (started_at, execution_id);
CREATE INDEX heads_open ON heads (started_at, execution_id) WHERE status NOT IN ('ok', 'error', 'cancelled');

CREATE TABLE owners (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused, so that a later owner is always higher
    lock   TEXT NOT NULL,                     -- the lock file of its process
    pid    INTEGER NOT NULL,
    since  INTEGER NOT NULL
) STRICT;

CREATE TABLE inbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    command      BLOB NOT NULL,
    at           INTEGER NOT NULL
) STRICT;

CREATE TABLE snapshots (
    execution_id TEXT PRIMARY KEY,
    seq          INTEGER NOT NULL,
    schema       TEXT NOT NULL,
    body         BLOB NOT NULL
) STRICT;

CREATE TABLE playbooks (
    digest TEXT PRIMARY KEY,
    path   TEXT NOT NULL,
    text   TEXT NOT NULL,
    origin TEXT,
    place  INTEGER NOT NULL, -- the order of registration: the highest of a path is its newest
    at     INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX playbooks_by_path ON playbooks (path, place);

CREATE VIEW events AS
SELECT log.execution_id,
       log.first_seq + each.key AS seq,
       strftime('%Y-%m-%dT%H:%M:%fZ', log.at / 1000000.0, 'unixepoch') AS at,
       each.value ->> '$.fact' AS fact,
       each.value AS body
FROM log, json_each(log.body) AS each;
"""

_SECRETS: Final = """
CREATE TABLE secrets (
    name    TEXT PRIMARY KEY,
    version INTEGER NOT NULL, -- never reused for a name
    nonce   BLOB NOT NULL,
    body    BLOB NOT NULL, -- encrypted, bound to name and version; empty: it was removed
    key_id  TEXT NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
"""

# Existing texts are numbered in the order of their last registration: no other order is known.
_VERSIONS: Final = """
ALTER TABLE playbooks ADD COLUMN version INTEGER NOT NULL DEFAULT 0; -- counts the texts of a path from 1
UPDATE playbooks SET version = counted.number FROM (
    SELECT digest, row_number() OVER (PARTITION BY path ORDER BY place) AS number FROM playbooks
) AS counted WHERE counted.digest = playbooks.digest;
CREATE UNIQUE INDEX playbooks_by_version ON playbooks (path, version);

CREATE TABLE archived (
    path TEXT PRIMARY KEY,
    at   INTEGER NOT NULL
) STRICT;

CREATE INDEX heads_by_parent ON heads (parent) WHERE parent IS NOT NULL;

CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    scopes     TEXT NOT NULL, -- with a space between them
    digest     BLOB NOT NULL UNIQUE, -- sha256 of the secret, which is not stored
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT;
"""

_DOCUMENTS: Final = """
CREATE TABLE documents ( -- playbooks that tasks have made: found by digest, and registered under no path
    digest TEXT PRIMARY KEY,
    path   TEXT NOT NULL,
    text   TEXT NOT NULL,
    origin TEXT,
    at     INTEGER NOT NULL
) STRICT;
"""

_ROLES: Final = "ALTER TABLE tokens ADD COLUMN roles TEXT NOT NULL DEFAULT '[]'"  # JSON; empty: no limits

_AUDIT: Final = """
CREATE TABLE audit ( -- append-only: see the triggers
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    action  TEXT NOT NULL,
    what    TEXT NOT NULL,
    target  TEXT NOT NULL,
    who     TEXT NOT NULL,
    caller  TEXT NOT NULL,
    address TEXT NOT NULL,
    detail  TEXT NOT NULL,
    times   INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_by_time ON audit (at);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
"""

_LABELS: Final = "ALTER TABLE heads ADD COLUMN labels TEXT"  # a JSON object; null: none

_TRIGGERS: Final = """
CREATE TABLE triggers ( -- of the current texts of registered playbooks
    path         TEXT NOT NULL,
    name         TEXT NOT NULL,
    kind         TEXT NOT NULL,
    digest       TEXT NOT NULL,
    declaration  TEXT NOT NULL,
    since        INTEGER NOT NULL,
    hook         TEXT UNIQUE,
    scheduled_at INTEGER,
    due_at       INTEGER,
    paused       INTEGER NOT NULL,
    fired        INTEGER NOT NULL,
    PRIMARY KEY (path, name)
) STRICT;
CREATE INDEX triggers_due ON triggers (due_at) WHERE due_at IS NOT NULL AND NOT paused;
CREATE TABLE firings ( -- the history of triggers
    path         TEXT NOT NULL,
    name         TEXT NOT NULL,
    number       INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    status       TEXT NOT NULL,
    key          TEXT NOT NULL,
    scheduled_at INTEGER,
    execution_id TEXT,
    detail       TEXT NOT NULL,
    PRIMARY KEY (path, name, number)
) STRICT, WITHOUT ROWID;
"""

_PRINTED: Final = """
CREATE TABLE printed (
    execution_id TEXT NOT NULL,
    number       INTEGER NOT NULL,
    total        INTEGER NOT NULL, -- bytes of this body and those before it
    body         BLOB NOT NULL,    -- a JSON array of lines
    PRIMARY KEY (execution_id, number)
) STRICT;
CREATE TRIGGER printed_goes_with_its_execution AFTER DELETE ON heads
BEGIN DELETE FROM printed WHERE execution_id = OLD.execution_id; END;
"""

_SAVED: Final = """
CREATE TABLE saved ( -- the last entry of a path and key is its value
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    path         TEXT NOT NULL,
    key          TEXT NOT NULL,
    value        TEXT, -- JSON; null: removed
    at           INTEGER NOT NULL,
    execution_id TEXT, -- null: a person has set it
    who          TEXT
) STRICT;
CREATE INDEX saved_by_key ON saved (path, key, id);
"""

_LIMITS: Final = """
CREATE TABLE permits ( -- of limits by key
    number     INTEGER PRIMARY KEY AUTOINCREMENT, -- first come, first served
    key        TEXT NOT NULL,
    holder     TEXT NOT NULL UNIQUE, -- "<execution>/<place>"
    holds      INTEGER NOT NULL, -- 0: it waits
    in_flight  INTEGER, -- null: any number
    rate_count INTEGER, -- null: no rate
    rate_per_s REAL,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX permits_by_key ON permits (key, holds, number);
CREATE TABLE buckets ( -- of rates; a missing one is full
    key     TEXT PRIMARY KEY,
    tokens  REAL NOT NULL,
    at      INTEGER NOT NULL,
    idle_at INTEGER NOT NULL -- it is full from then on
) STRICT, WITHOUT ROWID;
"""

_UNNOTIFIED: Final = """
CREATE TABLE unnotified ( -- finished executions whose notifications may not have started
    execution_id TEXT PRIMARY KEY,
    seq          INTEGER NOT NULL, -- of their last fact
    at           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX unnotified_by_time ON unnotified (at);
"""

_SESSIONS: Final = """
CREATE TABLE web_sessions (
    id         TEXT PRIMARY KEY,
    digest     BLOB NOT NULL UNIQUE, -- sha256 of the secret in the cookie, which is not stored
    user       TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    roles      TEXT NOT NULL, -- JSON
    token      BLOB -- tokens.digest; null: the roles
) STRICT;
CREATE INDEX web_sessions_by_user ON web_sessions (user, created_at);
"""

# Of lists with filters. Executions that have ended before have no error here.
_FILTERS: Final = """
ALTER TABLE heads ADD COLUMN error TEXT; -- why it ended, shortened; null: it has not failed
ALTER TABLE heads ADD COLUMN waits TEXT; -- a JSON array of what a person has to decide; null: nothing
CREATE INDEX heads_waiting ON heads (started_at, execution_id) WHERE waits IS NOT NULL;
CREATE INDEX heads_failed ON heads (started_at, execution_id) WHERE status = 'error';
CREATE INDEX heads_by_path ON heads (path, started_at, execution_id);
"""

# The values are needed until the execution ends ok, or is deleted. A row without an execution is of a start that
# never happened.
_SECRET_INPUTS: Final = """
CREATE TABLE secret_inputs (
    name    TEXT PRIMARY KEY, -- the id of an execution
    version INTEGER NOT NULL,
    nonce   BLOB NOT NULL,
    body    BLOB NOT NULL, -- a JSON object, encrypted, bound to name and version; empty: it was removed
    key_id  TEXT NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
CREATE TRIGGER secret_inputs_go_with_their_execution AFTER DELETE ON heads
BEGIN DELETE FROM secret_inputs WHERE name = OLD.execution_id; END;
CREATE TRIGGER secret_inputs_go_after_success AFTER UPDATE OF status ON heads WHEN NEW.status = 'ok'
BEGIN DELETE FROM secret_inputs WHERE name = NEW.execution_id; END;
CREATE TRIGGER secret_inputs_go_after_instant_success AFTER INSERT ON heads WHEN NEW.status = 'ok'
BEGIN DELETE FROM secret_inputs WHERE name = NEW.execution_id; END;
CREATE TRIGGER secret_inputs_without_execution_go AFTER INSERT ON secret_inputs
BEGIN
    DELETE FROM secret_inputs WHERE at < NEW.at - 86400000000
    AND NOT EXISTS (SELECT 1 FROM heads WHERE heads.execution_id = secret_inputs.name);
END;
"""

_LABEL_CHANGES: Final = """
CREATE TABLE label_changes ( -- append-only; the labels of a request are in the log
    execution_id TEXT NOT NULL,
    number       INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL,
    who          TEXT, -- null: without a server
    labels       TEXT NOT NULL -- a JSON object; null: removed
) STRICT;
CREATE INDEX label_changes_by_execution ON label_changes (execution_id, number);
CREATE TRIGGER label_changes_go_with_their_execution AFTER DELETE ON heads
BEGIN DELETE FROM label_changes WHERE execution_id = OLD.execution_id; END;
"""

# The rows that REPLACE removes fire no trigger of DELETE. Before a row gets its id, it is -1.
_AUDIT_REPLACE: Final = """
CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON audit
WHEN NEW.id > 0 AND EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
"""

_RUN_RECORDS: Final = """
CREATE TABLE run_records ( -- copies of what readers have computed from long logs
    execution_id TEXT PRIMARY KEY,
    seq          INTEGER NOT NULL,
    schema       TEXT NOT NULL,
    body         BLOB NOT NULL
) STRICT;
CREATE TRIGGER run_records_go_with_their_execution AFTER DELETE ON heads
BEGIN DELETE FROM run_records WHERE execution_id = OLD.execution_id; END;
"""

# The n-th changes version n to n + 1
_STEPS: Final[tuple[str, ...]] = (
    _FIRST,
    _SECRETS,
    _VERSIONS,
    _DOCUMENTS,
    _ROLES,
    _AUDIT,
    _LABELS,
    _TRIGGERS,
    _PRINTED,
    _SAVED,
    _LIMITS,
    _UNNOTIFIED,
    _SESSIONS,
    _FILTERS,
    _SECRET_INPUTS,
    _LABEL_CHANGES,
    _AUDIT_REPLACE,
    _RUN_RECORDS,
)
VERSION: Final = len(_STEPS)


def version_of(connection: apsw.Connection, name: str) -> int:
    """The version of the tables, 0 for an empty file. Raises Unavailable for a file of another program."""
    with connection:  # one transaction: another process may just be creating them
        application = connection.pragma("application_id")
        version = connection.pragma("user_version")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    assert isinstance(version, int)
    if application != APPLICATION_ID and (application or version or tables):
        raise Unavailable(f'"{name}" is a database of another program: choose another file for NoETL')
    if version > VERSION:
        found = f'"{name}" was written by a newer NoETL (tables of version {version}, not {VERSION})'
        raise Unavailable(f"{found}: update NoETL, or choose another file")
    return version


def migrate(connection: apsw.Connection, name: str) -> None:
    """Create or change the tables in one transaction. A second process finds them up to date."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in _STEPS[version_of(connection, name) :]:
            connection.execute(step)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
