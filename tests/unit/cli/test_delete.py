"""Labels of executions, `noetl list --label`, `noetl delete`, and the reason of a cancel."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from noetl.cli import runner
from noetl.cli.arguments import RunOptions, parse
from noetl.session.api import connect, run
from tests.playbooks import HEAD
from tests.unit.cli.invoke import noetl

LABELLED = HEAD.replace("path: t", "path: t/sync, labels: {team: data, tier: 1, on: true}") + (
    "workflow:\n- step: start\n  tool: {kind: noop}\n"
)
PARENT = HEAD.replace("path: t", "path: t/parent") + (
    "workflow:\n- step: start\n  tool: {kind: playbook, path: child.yaml}\n"
)
WAITING = HEAD.replace("path: t", "path: t/waiting") + "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n"


class Place:
    """A folder with playbooks and a database."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.db = str(folder / "n.db")
        for name, text in (("child", LABELLED), ("parent", PARENT), ("waiting", WAITING)):
            (folder / f"{name}.yaml").write_text(text)

    def run(self, name: str, *labels: str) -> str:
        assert runner.run(RunOptions(str(self.folder / f"{name}.yaml"), db=self.db, labels=labels)) == 0
        self.capsys.readouterr()
        return str(self.json("list", "--roots")[0]["execution_id"])

    def json(self, *arguments: str, code: int = 0) -> Any:
        assert noetl(*arguments, "--db", self.db, "--format", "json") == code
        return json.loads(self.capsys.readouterr().out)

    def text(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        assert noetl(*arguments, "--db", self.db, "--format", "plain") == code
        return self.capsys.readouterr()


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, capsys)


def test_labels_of_the_playbook_and_of_the_request_find_an_execution(place: Place) -> None:
    plain, other = place.run("child"), place.run("child", "team=sales", "run=nightly")
    found = {each["execution_id"]: each["labels"] for each in place.json("list", "--label", "tier=1")}
    assert found == {
        plain: {"team": "data", "tier": "1", "on": "true"},
        other: {"team": "sales", "tier": "1", "on": "true", "run": "nightly"},
    }
    chosen = place.json("list", "--label", "team=sales", "--label", "run=nightly")
    assert [each["execution_id"] for each in chosen] == [other]
    assert place.json("list", "--label", "team=x") == []
    assert "labels team=sales" in place.text("show", other)[0]


def test_labels_in_python(place: Place) -> None:
    result = run(place.folder / "child.yaml", labels={"by": "python"}, database=place.db)
    assert [each["execution_id"] for each in place.json("list", "--label", "by=python")] == [result.id]
    with pytest.raises(Exception, match="bad-label"):
        run(place.folder / "child.yaml", labels={"a=b": "c"}, database=place.db)


def test_a_label_without_a_value_is_refused(place: Place) -> None:
    place.run("child")
    _, error = place.text("list", "--label", "team", code=2)
    assert 'label "team": write it as KEY=VALUE' in error


def test_the_short_way_knows_labels() -> None:
    assert parse(["run", "a.yaml", "--label", "a=b", "--label=c=d"]) == RunOptions("a.yaml", labels=("a=b", "c=d"))


def test_without_yes_delete_prints_its_plan_and_does_nothing(place: Place) -> None:
    id = place.run("parent")
    output, error = place.text("delete", id)
    assert "t/parent" in output
    assert "t/sync" in output, "the child is part of the plan"
    assert "nothing was done: --yes carries it out" in error
    assert place.json("delete", id)["deleted"] == 0
    assert len(place.json("list")) == 2


def test_children_are_deleted_with_their_caller(place: Place) -> None:
    kept, id = place.run("child"), place.run("parent")
    child = next(each["execution_id"] for each in place.json("list") if each["called_by"] == id)
    _, error = place.text("delete", child, "--yes", code=1)
    assert f"was called by {id}: delete that one" in error
    document = place.json("delete", id, "--yes")
    assert (document["deleted"], set(document["executions"])) == (2, {id, child})
    assert [each["execution_id"] for each in place.json("list")] == [kept]
    place.text("show", id, code=2)
    entries = place.json("audit-log")
    assert [(each["what"], each["target"], each["detail"]) for each in entries] == [
        ("delete", id, "t/parent: 2 executions")
    ]


def test_a_live_execution_is_not_deleted_and_the_reason_of_a_cancel_is_shown(place: Place) -> None:
    async def start() -> str:
        async with connect(place.db) as session:
            return (await session.start(place.folder / "waiting.yaml")).id

    id = asyncio.run(start())
    _, error = place.text("delete", id, "--yes", code=1)
    assert "has not ended; cancel it first" in error
    place.text("cancel", id, "--reason", "wrong account")
    assert "cancelled: wrong account" in place.text("show", id)[0]
    assert place.json("show", id)["cancelled"] == {"reason": "wrong account", "by": None}
    assert "deleted 1 execution" in place.text("delete", id, "--yes")[0]


@pytest.mark.parametrize("verb", ["workers", "pools"])
def test_a_file_has_no_workers(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("NOETL_DB", str(tmp_path / "n.db"))
    monkeypatch.delenv("NOETL_SERVER", raising=False)
    monkeypatch.setenv("NOETL_CONFIG", str(tmp_path / "none.yaml"))
    assert noetl(verb, "--format", "json", "--server", "local") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert noetl(verb, "--server", "local") == 0
    assert "a database file has no workers" in capsys.readouterr().err


def test_labels_are_added_and_removed_after_the_end(place: Place) -> None:
    first, second = place.run("child"), place.run("child")
    assert place.text("label", second, "--add", "reviewed=ann", "--remove", "tier")[0].endswith(
        ": team=data on=true reviewed=ann\n"
    )
    assert [each["execution_id"] for each in place.json("list", "--label", "reviewed=ann")] == [second]
    assert "reviewed=ann" in place.text("show", second)[0]
    assert [each["execution_id"] for each in place.json("list", "--label", "tier=1")] == [first]
    plan = place.json("label", "--label", "team=data", "--add", "reviewed=ann")
    assert {each["execution_id"]: each["result"] for each in plan["executions"]} == {
        first: "planned",
        second: "unchanged",
    }
    done = place.json("label", "--label", "team=data", "--add", "reviewed=ann", "--yes")
    assert {each["execution_id"]: each["result"] for each in done["executions"]} == {first: "done", second: "unchanged"}
    assert len(place.json("list", "--label", "reviewed=ann")) == 2
    both = place.json("label", first, second, "--remove", "reviewed")
    assert ["reviewed" in each["labels"] for each in both["executions"]] == [False, False]


@pytest.mark.parametrize("options", [(), ("--add", "a"), ("--remove", "a=b"), ("--add", "fork-of=x")])
def test_a_change_of_labels_that_is_none_is_refused(place: Place, options: tuple[str, ...]) -> None:
    place.run("child")
    assert "--add" in place.text("label", "last", *options, code=2)[1]
