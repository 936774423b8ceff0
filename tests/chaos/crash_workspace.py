"""The database that a killed process leaves. Tests read a copy, so that the next process finds it unchanged."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from noetl.failpoints import VARIABLE
from tests.chaos.journey import CHILD, ITEMS, JOURNEY, ORDER, Api
from tests.e2e.processes import NOETL, Workspace
from tests.unit.cli.invoke import run_audit, run_replay

KILLED = -9


class Image(NamedTuple):
    """The content of the log: the facts of each execution, as JSON text."""

    facts: dict[str, list[str]]
    parents: dict[str, str | None]

    @property
    def last(self) -> str | None:
        """The execution that was started last and is no child; ids grow with time."""
        return max((id for id, parent in self.parents.items() if parent is None), default=None)

    def decoded(self, execution_id: str) -> list[dict[str, Any]]:
        return [json.loads(fact) for fact in self.facts.get(execution_id, [])]


class CrashWorkspace(Workspace):
    """A workspace whose processes are killed. It checks the log after each kill."""

    def __init__(self, folder: Path, api: Api, count: int) -> None:
        super().__init__(folder)
        self.api = api
        self.write(CHILD, "child.yaml")
        workload = self.write(json.dumps({"url": api.url, "count": count, "items": ITEMS}), "workload.json")
        self.start: list[str | Path] = ["run", self.write(JOURNEY), "--workload", workload]
        self.before = Image({}, {})

    def look(self) -> Image:
        """Read the log. It must still have all facts of the previous read."""
        image = image_of(self.db)
        for execution_id, facts in self.before.facts.items():
            assert image.facts.get(execution_id, [])[: len(facts)] == facts, "the log has lost facts"
        self.before = image
        self.check_order(image)
        return image

    def check_order(self, image: Image) -> None:
        """For each request that the API received, the log has all steps that precede it in the playbook."""
        for execution_id, paths in self.api.seen.items():
            assert execution_id in image.facts, "an execution had effects, and is not in the log"
            facts = image.decoded(execution_id)
            done = {_place(each["run"]) for each in facts if each["fact"] in ("step.done", "loop.done")}
            called = {_place(each["frame"]) for each in facts if each["fact"] == "task.done"}
            for path in set(paths):
                name, number = path.strip("/").split("/")
                if name == "confirm":
                    assert f"pages[{number}]" in called, "a task began before the previous one was in the log"
                place = ORDER.index({"confirm": "pages", "inner": "block"}.get(name, name))
                missing = set(ORDER[:place]) - done
                assert missing == set(), f"{name} began, and these steps are not in the log"

    def killed_after(self, seconds: float, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run `noetl` and kill it after this many seconds, unless it ends before."""
        command = [NOETL, *arguments, "--format", "json"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
            cwd=self.folder, env=self.environment,
        ) as process:  # fmt: skip
            try:
                stdout, stderr = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def killed_at(self, failpoint: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run `noetl` with a failpoint that kills it."""
        armed = Workspace(self.folder)
        armed.environment[VARIABLE] = failpoint
        return armed.call(*arguments, "--format", "json")

    def go_on(self, *arguments: str | Path) -> dict[str, Any]:
        """Resume the last execution, or start one if the log is empty, and expect the status ok."""
        command = ("resume", "last") if self.look().last is not None else (arguments or self.start)
        code, document = self.json(*command)
        assert (code, document["status"]) == (0, "ok"), document
        return document

    def check_sound(self, *execution_ids: str) -> None:
        """Audit and replay find no problem: one result for each call, every scheduled step done, results complete.

        They run in this process, because starting processes takes time.
        """
        self.look()
        assert run_audit(None, "plain", str(self.db)) == 0, "the output above lists the findings"
        for execution_id in execution_ids:
            assert run_replay(execution_id, "plain", str(self.db)) == 0, "the output above lists the differences"


def _place(run: str) -> str:
    """The id of a run or a frame without the number of the run, which is another one after `retry`."""
    return re.sub(r"#\d+", "", run)


def image_of(db: Path) -> Image:
    """Read a copy of the files, because SQLite recovers the files that it opens."""
    if not db.exists():
        return Image({}, {})
    with tempfile.TemporaryDirectory() as folder:
        for end in ("", "-wal"):
            source = db.with_name(db.name + end)
            if source.exists():
                shutil.copy(source, Path(folder) / f"copy.db{end}")
        connection = apsw.Connection(str(Path(folder) / "copy.db"))
        try:
            if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'heads'").fetchall():
                return Image({}, {})
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            heads = connection.execute("SELECT execution_id, parent FROM heads").fetchall()
            parents = {str(id): None if parent is None else str(parent) for id, parent in heads}
            facts: dict[str, list[str]] = {id: [] for id in parents}
            query = "SELECT execution_id, seq, body FROM events ORDER BY execution_id, seq"
            for execution_id, seq, body in connection.execute(query):
                facts[str(execution_id)].append(str(body))
                assert len(facts[str(execution_id)]) == seq, "the sequence numbers have a gap"
            return Image(facts, parents)
        finally:
            connection.close()
