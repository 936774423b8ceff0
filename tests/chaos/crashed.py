"""What a process left on the disk when it died, read from a copy, so that the next one finds it untouched."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from noetl.failpoints import VARIABLE
from tests.chaos.journey import CHILD, ITEMS, JOURNEY, ORDER, Api
from tests.e2e.processes import NOETL, House
from tests.unit.cli.invoke import run_audit, run_replay

KILLED = -9


class Image(NamedTuple):
    """The log as it would be read now: each execution's facts, as they are written there."""

    facts: dict[str, list[str]]
    parents: dict[str, str | None]

    @property
    def last(self) -> str | None:
        """The execution that someone started last; ids grow with time."""
        return max((id for id, parent in self.parents.items() if parent is None), default=None)

    def told(self, execution_id: str) -> list[dict[str, Any]]:
        return [json.loads(fact) for fact in self.facts.get(execution_id, [])]


class CrashHouse(House):
    """A house whose processes are killed, and that looks at what is left each time."""

    def __init__(self, folder: Path, api: Api, count: int) -> None:
        super().__init__(folder)
        self.api = api
        self.write(CHILD, "child.yaml")
        workload = self.write(json.dumps({"url": api.url, "count": count, "items": ITEMS}), "workload.json")
        self.start: list[str | Path] = ["run", self.write(JOURNEY), "--workload", workload]
        self.before = Image({}, {})

    def look(self) -> Image:
        """What is on the disk now. What was there at the last look must be there still, fact by fact."""
        image = image_of(self.db)
        for execution_id, facts in self.before.facts.items():
            assert image.facts.get(execution_id, [])[: len(facts)] == facts, "the log has lost facts"
        self.before = image
        self.check_order(image)
        return image

    def check_order(self, image: Image) -> None:
        """Whatever the API was asked for, all that comes before it in the playbook is on record."""
        for execution_id, paths in self.api.seen.items():
            assert execution_id in image.facts, "it had effects, and is not on record"
            told = image.told(execution_id)
            done = {each["run"] for each in told if each["fact"] in ("step.done", "loop.done")}
            called = {each["frame"] for each in told if each["fact"] == "task.done"}
            for path in set(paths):
                name, number = path.strip("/").split("/")
                if name == "confirm":
                    assert f"pages#1[{number}]" in called, (
                        "a task began before the one before it was on record"
                    )
                place = ORDER.index({"confirm": "pages", "inner": "block"}.get(name, name))
                missing = {f"{step}#1" for step in ORDER[:place]} - done
                assert missing == set(), f"{name} began, and these are not on record"

    def killed_after(self, seconds: float, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run `noetl`, and kill it at that moment of its life; it may have come to its end before."""
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
        """Run `noetl` with a failpoint that it dies at."""
        armed = House(self.folder)
        armed.environment[VARIABLE] = failpoint
        return armed.call(*arguments, "--format", "json")

    def go_on(self, *arguments: str | Path) -> dict[str, Any]:
        """To the end: with what is on record, or from the beginning when nothing is. It ends well."""
        command = ("resume", "last") if self.look().last is not None else (arguments or self.start)
        code, document = self.json(*command)
        assert (code, document["status"]) == (0, "ok"), document
        return document

    def check_sound(self, *execution_ids: str) -> None:
        """Audit and replay find nothing: one result a call, every scheduled step done, results whole.

        They are called here and not as processes of their own: that is checked once, and takes its time.
        """
        self.look()
        assert run_audit(None, "plain", str(self.db)) == 0, "see above what was found"
        for execution_id in execution_ids:
            assert run_replay(execution_id, "plain", str(self.db)) == 0, "see above what is different"


def image_of(db: Path) -> Image:
    """SQLite heals what it opens: a copy of the files is opened instead."""
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
                assert len(facts[str(execution_id)]) == seq, "the numbers of the facts have a gap"
            return Image(facts, parents)
        finally:
            connection.close()
