"""Write the database of a release: `python -m tests.replay.databases 0.2`, once for each release.

It has four executions: one that succeeded, one that failed, one that was cancelled, and one whose process was killed
during a wait. The file is compressed, because an empty SQLite file has 90 kB.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path
from typing import Final

import apsw

from tests.e2e.processes import ROOT, Workspace
from tests.playbooks import HEAD
from tests.replay.histories import FOLDER

EXAMPLE: Final = ROOT / "examples" / "word_count.yaml"
BROKEN: Final = HEAD.replace("path: t", "path: broken") + (
    """\
workflow:
- step: start
  tool: {kind: python, code: "def main(): return {'rows': 3}"}
  next: {arcs: [{step: divide}]}
- step: divide
  tool: {kind: python, code: "def main(): return 1 / 0"}
"""
)
APPROVAL: Final = HEAD.replace("path: t", "path: approval") + (
    """\
workflow:
- step: start
  tool: {kind: wait, signal: approved}
"""
)
NAP: Final = HEAD.replace("path: t", "path: nap") + (
    """\
workflow:
- step: start
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, policy: {reduce: {ctx.total: sum}}}}
  tool: {kind: python, input: {n: "{{ iter.n }}"}, code: "def main(n): return n * n", set: {ctx.total: "{{ output.data }}"}}
  next: {arcs: [{step: nap}]}
- step: nap
  tool: {kind: wait, seconds: 3}
  next: {arcs: [{step: after}]}
- step: after
  tool: {kind: python, input: {total: "{{ ctx.total }}"}, code: "def main(total): return {'total': total}"}
"""
)


def file_of(release: str) -> Path:
    return FOLDER / "logs" / release / "noetl.db.gz"


def fill(workspace: Workspace) -> None:
    example = workspace.write(EXAMPLE.read_text("utf-8"), EXAMPLE.name)
    assert workspace.call("run", example).returncode == 0
    assert workspace.call("run", workspace.write(BROKEN, "broken.yaml")).returncode == 1
    with workspace.started("run", workspace.write(APPROVAL, "approval.yaml")) as approval:
        approval.read_until("waits for")
        assert workspace.call("cancel", "last").returncode == 0
        approval.end()
    with workspace.started("run", workspace.write(NAP, "nap.yaml")) as nap:
        nap.read_until("waits until")  # The end of the block sends SIGKILL.


def main(release: str) -> None:
    file = file_of(release)
    if file.exists():
        raise SystemExit(f"the database of {release} exists and must not change")
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        fill(workspace)
        connection = apsw.Connection(str(workspace.db))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(workspace.db.read_bytes(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
