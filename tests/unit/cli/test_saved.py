"""Values that outlive an execution, with the runtime and the command line: `saved.*` and `noetl saved`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noetl.session.api import check, run
from tests.playbooks import HEAD
from tests.unit.cli.invoke import noetl

SYNC = HEAD.replace("path: t", "path: t/sync") + (
    "workload: {fail: false}\n"
    "workflow:\n"
    "- step: start\n"
    "  tool:\n"
    "    kind: python\n"
    '    input: {cursor: "{{ saved.cursor | default(0) }}", fail: "{{ workload.fail }}"}\n'
    "    code: |\n"
    "      def main(cursor, fail):\n"
    "          assert not fail\n"
    "          return {'last': cursor + 2}\n"
    '  set: {saved.cursor: "{{ output.data.last }}"}\n'
)
LARGE = HEAD.replace("path: t", "path: t/large") + (
    "workflow:\n- step: start\n  tool: {kind: python, code: \"def main(): return 'x' * 70_000\"}\n"
    '  set: {saved.big: "{{ output.data }}"}\n'
)


class Place:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.db, self.capsys = str(folder / "n.db"), capsys
        self.file = folder / "sync.yaml"
        self.file.write_text(SYNC)

    def sync(self, **workload: Any) -> str:
        return run(self.file, workload=workload, database=self.db).status

    def saved(self, *words: str, code: int = 0) -> Any:
        assert noetl("saved", "t/sync", *words, "--db", self.db, "--format", "json") == code
        return json.loads(self.capsys.readouterr().out)

    def values(self, *words: str) -> list[Any]:
        return [each["value"] for each in self.saved(*words)]


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, capsys)


def test_each_execution_continues_where_the_last_one_ended(place: Place) -> None:
    assert place.saved() == []
    assert [place.sync(), place.values(), place.sync(), place.values()] == ["ok", [2], "ok", [4]]
    assert place.sync(fail=True) == "error"
    assert place.values() == [4], "a step that failed saves nothing"
    assert place.saved("set", "cursor", "100")["status"] == "set"
    assert [place.sync(), place.values("history", "cursor")] == ["ok", [102, 100, 4, 2]]
    history = place.saved("history", "cursor")
    assert [each["execution_id"] is None for each in history] == [False, True, False, False]
    assert history[1]["by"].startswith("local user ")
    place.saved("unset", "cursor")
    assert place.saved() == []
    assert [place.sync(), place.values()] == ["ok", [2]]
    assert noetl("audit", "--db", place.db) == 0, "replay and audit agree with the log"
    assert noetl("replay", "last", "--db", place.db) == 0


def test_the_command_explains_what_is_wrong(place: Place) -> None:
    place.sync()
    for words, code, message in (
        (("frobnicate",), 2, "write: noetl saved PATH"),
        (("set", "cursor"), 2, "write: noetl saved PATH"),
        (("set", "a-b", "1"), 1, '"a-b" cannot be a name in saved'),
        (("set", "big", "x" * 70_000), 1, "a saved value has at most 65,536"),
        (("unset", "none"), 1, '"t/sync" has no saved value "none"'),
    ):
        assert noetl("saved", "t/sync", *words, "--db", place.db) == code
        assert message in place.capsys.readouterr().err


def test_a_large_value_is_refused_with_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text(LARGE)
    result = run(file, database=tmp_path / "n.db")
    assert result.error is not None
    assert (result.status, result.error.kind) == ("error", "payload-too-large")
    assert '"saved.big"' in result.error.message
    assert "65,536" in result.error.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("tool: {kind: noop, set: {saved.x: 1}}", "only the set of a step writes saved.*"),
        ("tool: {kind: noop}\n  set: {saved.x.y: 1}", "write saved.name"),
        ("tool: {kind: noop}\n  set: {saved: 1}", "is not a valid target"),
        ("tool: {kind: noop}\n  next: {arcs: [{step: end, set: {saved.x: 1}}]}", "only the set of a step"),
    ],
)
def test_only_the_set_of_a_step_writes_saved_values(tmp_path: Path, body: str, message: str) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(HEAD + f"workflow:\n- step: start\n  {body}\n")
    problems = check(file)
    assert [each.code for each in problems if each.severity == "error"] == ["bad-set-target"]
    assert message in problems[0].message


def test_a_secret_cannot_be_saved(tmp_path: Path) -> None:
    file, text = (
        tmp_path / "t.yaml",
        HEAD
        + (
            "keychain: [{name: api, kind: env, env: API}]\n"
            'workflow:\n- step: start\n  tool: {kind: noop}\n  set: {saved.x: "{{ keychain.api }}"}\n'
        ),
    )
    file.write_text(text)
    assert "secret-in-log" in [each.code for each in check(file)]


def test_a_task_named_saved_keeps_its_meaning(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(
        HEAD
        + (
            "workflow:\n- step: start\n  tool:\n"
            "  - {name: saved, kind: noop, input: {n: 1}}\n"
            '  - {name: after, kind: noop, input: {n: "{{ saved.data.n + 1 }}"}}\n'
        )
    )
    assert [each for each in check(file) if each.severity != "info"] == []
    assert run(file, database=tmp_path / "n.db").output == {"n": 2}
