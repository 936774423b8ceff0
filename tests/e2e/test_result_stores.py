"""A playbook does the same with each result store, and a changed byte is always detected (D53)."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import PATIENCE_S, Workspace
from tests.e2e.serving import serving
from tests.e2e.test_sizes_of_results import INLINE_BYTES_MAX, done
from tests.playbooks import HEAD
from tests.services import postgres
from tests.services_objects import make_bucket, moto_server, nats_server

# One step gives back a text of this many bytes, the next one reads it by its reference.
SIZED = (
    HEAD
    + """\
workload: {bytes: 10}
workflow:
- step: start
  tool:
    kind: python
    input: {bytes: "{{ workload.bytes }}"}
    code: "def main(bytes): return {'text': 'x' * bytes}"
  set: {ctx.text_ref: "{{ output.ref }}"}
  next: {arcs: [{step: read}]}
- step: read
  tool:
  - {name: fetch, kind: resolve, input: {ref: "{{ ctx.text_ref }}"}}
  - {name: tell, kind: noop, input: {length: "{{ fetch.data.text | length }}"}}
"""
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """By the name of a store: the environment that makes it the default."""
    folder = tmp_path_factory.mktemp("services")
    for name in ("moto", "nats"):
        (folder / name).mkdir()
    with moto_server(folder / "moto") as s3, nats_server(folder / "nats") as nats:
        make_bucket(s3, "results")
        yield {
            "files": {},
            "sqlite": {"NOETL_RESULTS": "sqlite"},
            "s3": {"NOETL_RESULTS": "s3://results/noetl", "NOETL_S3_ENDPOINT": s3},
            "nats": {"NOETL_RESULTS": f"{nats}/results"},
            "postgres": {"NOETL_RESULTS": postgres().dsn()},
        }


TYPES = {
    "files": "blob",
    "sqlite": "relational",
    "s3": "object_store",
    "nats": "nats",
    "postgres": "relational",
}


def workspace_on(tmp_path: Path, stores: dict[str, dict[str, str]], store: str) -> Workspace:
    workspace = Workspace(tmp_path)
    keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    workspace.environment = {**workspace.environment, **keys, **stores[store]}
    return workspace


@pytest.mark.parametrize("store", TYPES)
def test_a_playbook_does_the_same_with_1_kb_and_10_mb_on_each_store(
    store: str, stores: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    workspace = workspace_on(tmp_path, stores, store)
    with serving() as api:
        small, large = done(workspace, api, 1_000), done(workspace, api, 10_000_000)
    assert small._replace(lengths=[]) == large._replace(lengths=[])
    assert max(large.lengths) < INLINE_BYTES_MAX
    assert large.ctx["whole_ref"] == {"type": TYPES[store]}
    assert large.ctx["complete"] is True


def ran(workspace: Workspace, size: int, spec: str = "") -> tuple[int, dict[str, Any], dict[str, Any]]:
    """The exit code, the document, and the reference that the first step has written."""
    file = workspace.write(SIZED.replace("workload: {", spec + "workload: {", 1))
    code, document = workspace.json("run", file, "--set", f"bytes={size}")
    return code, document, workspace.json("state", document["execution_id"])[1]["ctx"].get("text_ref", {})


def test_a_playbook_chooses_its_store_by_its_spec(stores: dict[str, dict[str, str]], tmp_path: Path) -> None:
    workspace = workspace_on(tmp_path, stores, "files")
    code, document, ref = ran(workspace, 100_000, "executor: {spec: {result: {store: {kind: sqlite}}}}\n")
    assert (code, document["output"]["data"]) == (0, {"length": 100_000})
    assert ref["locator"]["store"] == "sqlite"
    code, document, _ = ran(workspace, 10, "executor: {spec: {result: {store: {kind: s3, bucket: others}}}}\n")
    assert (code, document["error"]["kind"]) == (1, "input")
    assert "no result store {kind: s3, bucket: others} is configured here" in document["error"]["message"]


def test_the_limit_of_what_stands_in_the_log_is_the_playbooks(
    stores: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    workspace = workspace_on(tmp_path, stores, "files")
    for limit, inline in ((5_000, False), (50_000, True)):
        file = workspace.write(
            SIZED.replace(
                "workload: {",
                f"executor: {{spec: {{result: {{inline_max_bytes: {limit}}}}}}}\nworkload: {{",
                1,
            )
        )
        _, document = workspace.json("run", file, "--set", "bytes=20000")
        lines = workspace.call("events", document["execution_id"], "--format", "jsonl").stdout.splitlines()
        (first,) = [
            event["data"]["output"]
            for event in map(json.loads, lines)
            if event["name"] == "task.done" and event["entity_id"].startswith("start")
        ]
        assert ("data" in first) is inline
        assert document["output"]["data"] == {"length": 20_000}


@pytest.mark.parametrize("store", ["files", "sqlite"])
def test_a_changed_byte_fails_the_step_that_reads_it_and_nothing_false_is_told(
    store: str, stores: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    workspace = workspace_on(tmp_path, stores, store)
    waiting = SIZED.replace(
        "- step: read\n  tool:\n", "- step: read\n  tool:\n  - {name: stop, kind: wait, signal: go}\n"
    )
    file = workspace.write(waiting)
    with workspace.started("run", file, "--set", "bytes=100000", "--format", "json") as process:
        while not spoil(workspace, store):
            assert process.process.poll() is None
        while workspace.call("signal", "last", "go").returncode:
            assert process.process.poll() is None
        said, _ = process.process.communicate(timeout=PATIENCE_S)
    document = json.loads(said)
    assert (document["status"], document["error"]["kind"]) == ("error", "reference")
    assert "has changed since it was stored" in document["error"]["message"]


def spoil(workspace: Workspace, store: str) -> bool:
    """One byte of the result that is there; False: there is none yet."""
    if store == "files":
        files = [each for each in workspace.folder.glob("noetl.db-results/*/*") if not each.name.startswith(".")]
        for file in files:
            body = file.read_bytes()
            file.write_bytes(body[:-2] + bytes([body[-2] ^ 1]) + body[-1:])
        return bool(files)
    if not workspace.db.exists():
        return False
    with sqlite3.connect(workspace.db, timeout=30) as stranger:
        try:
            rows = stranger.execute(
                "SELECT rowid, body FROM result_parts WHERE result IN (SELECT id FROM results WHERE key NOT NULL)"
            ).fetchall()
        except sqlite3.OperationalError:
            rows = []
        for id, body in rows:
            changed = body[:5] + bytes([body[5] ^ 1]) + body[6:]
            stranger.execute("UPDATE result_parts SET body = ? WHERE rowid = ?", (changed, id))
    stranger.close()
    return bool(rows)
