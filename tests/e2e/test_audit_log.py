"""`noetl audit-log`: the trail of a database file, and of a server."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

from noetl.clock import SystemClock
from noetl.ports import AuditTrailEntry
from noetl.runtime.embedded import open_local_store
from tests.e2e.processes import Workspace


def test_changes_by_commands_on_the_file_are_in_the_trail(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    code, made = workspace.json("token", "create", "ci", "--role", "operator", "--path", "orders/*")
    assert code == 0
    assert workspace.call("secrets", "set", "pg", "--value", "hunter22-canary").returncode == 0
    assert workspace.call("token", "revoke", made["id"]).returncode == 0
    found = json.loads(workspace.call("audit-log", "--since", "2d", "--format", "json").stdout)
    assert [(each["action"], each["what"], each["target"], each["detail"]) for each in found] == [
        ("token", "create", made["id"], "ci: operator orders/*"),
        ("secret", "set", "pg", "version 1"),
        ("token", "revoke", made["id"], ""),
    ]
    assert all(each["who"].startswith("local user ") for each in found)
    assert "hunter22-canary" not in json.dumps(found)
    text = workspace.call("audit-log", "--action", "secret").stdout
    assert "secret    local user " in text
    assert ": set pg  version 1\n" in text
    assert json.loads(workspace.call("audit-log", "--who", "nobody", "--format", "json").stdout) == []


def test_older_entries_are_left_out(tmp_path: Path) -> None:
    async def add(workspace: Workspace) -> None:
        now = SystemClock().now()
        store = open_local_store(workspace.db)
        for days in (30, 3, 1):
            entry = AuditTrailEntry(now - timedelta(days=days), "start", "start", f"{days} days", "ann")
            await store.audit.add([entry])
        store.close()

    workspace = Workspace(tmp_path)
    asyncio.run(add(workspace))
    for since, targets in (
        ("4d", ["3 days", "1 days"]),
        ("25h", ["1 days"]),
        ("2h", []),
        ("9w", ["30 days", "3 days", "1 days"]),
    ):
        found = json.loads(workspace.call("audit-log", "--since", since, "--format", "json").stdout)
        assert [each["target"] for each in found] == targets, since
    assert "there are no entries of the last 2h" in workspace.call("audit-log", "--since", "2h").stderr


def test_wrong_options_are_usage_errors(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert "there is no such database" in workspace.call("audit-log").stderr
    workspace.call("token", "create", "ci", "--scope", "read")
    for options, words in (
        (("--since", "yesterday"), "write 12h, 2d or 4w"),
        (("--action", "cancel"), "use one of start, command"),
    ):
        done = workspace.call("audit-log", *options)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
