"""The current version opens, lists, reads, audits and resumes a database file of every release."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.e2e.processes import Workspace
from tests.replay.databases import file_of
from tests.replay.histories import releases

STATUSES = ["interrupted", "cancelled", "error", "ok"]  # the newest first, as in the list


@pytest.mark.parametrize("release", releases())
def test_a_database_of_a_release_is_read_and_resumed(release: str, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.db.write_bytes(gzip.decompress(file_of(release).read_bytes()))

    listed = json.loads(workspace.call("list", "--format", "json").stdout)
    assert [each["status"] for each in listed] == STATUSES
    nap, _, broken, _ = (each["execution_id"] for each in listed)
    assert "identical" in workspace.call("replay", nap).stdout
    assert workspace.call("audit").returncode == 0

    code, gone_on = workspace.json("resume", nap)
    assert (code, gone_on["output"]["data"]) == (0, {"total": 14})
    code, retried = workspace.json("retry", broken)
    assert (code, retried["error"]["kind"]) == (1, "python")
    assert workspace.call("audit").returncode == 0
