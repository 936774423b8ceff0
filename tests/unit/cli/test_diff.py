"""`noetl diff` of two executions and of two playbooks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.invoke import noetl, run_run
from tests.unit.cli.test_what_if import STEPS


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Three executions: two with the same workload, one with another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").write_text(STEPS.replace(', ctx.at: "{{ now() }}"', ""))
    for n in (2, 2, 3):
        assert run_run("orders.yaml", f"n={n}", db="a.db") == 0
    capsys.readouterr()
    assert noetl("list", "--format", "json", "--db", "a.db") == 0
    return [each["execution_id"] for each in reversed(json.loads(capsys.readouterr().out))]


def test_equal_executions_differ_only_in_durations(ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert noetl("diff", ids[0], ids[1], "--db", "a.db", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["differs"], document["same_route"]) == (False, True)
    assert [(each["step"], each["same"], each["a"]["calls"]) for each in document["steps"]] == [
        ("start", True, 2),
        ("small", True, 1),
    ]
    assert noetl("diff", ids[0], ids[1], "--db", "a.db") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "they are the same"


def test_another_workload_shows_in_route_inputs_and_outputs(ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert noetl("diff", ids[0], ids[2], "--db", "a.db", "--format", "json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["workload"] == [{"path": "workload.n", "change": "changed", "before": "2", "after": "3"}]
    assert document["routes"] == [["start", "small"], ["start", "large"]]
    steps = {each["step"]: each for each in document["steps"]}
    assert steps["start"]["differs"] == ["calls", "inputs", "outputs"]
    assert (steps["small"]["b"], steps["large"]["a"]) == (None, None)
    assert document["output"] == [{"path": "output", "change": "changed", "before": '"small"', "after": '"large 6"'}]
    assert noetl("diff", ids[0], ids[2], "--db", "a.db") == 1
    lines = capsys.readouterr().out.splitlines()
    assert "  route of A: start → small" in lines
    assert lines[-1] == "they differ"


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("# x", "# y", []),
        ("ctx.sum > 5", "ctx.sum > 6", [("changed", "workflow.start.next.arcs.large.when")]),
        ("echo small", "echo tiny", [("changed", "workflow.small.tool.tell.input.sh")]),
        ("step: small\n", "step: tiny\n", [("removed", "workflow.small"), ("added", "workflow.tiny")]),
        (
            "name: double",
            "name: twice",
            [("removed", "workflow.start.tool.double"), ("added", "workflow.start.tool.twice")],
        ),
        ("{n: 3}", "{n: 3, m: 1}", [("added", "workload.m")]),
        (
            "    - {step: small}\n",
            "",
            [("removed", "workflow.start.next.arcs.small")],
        ),
        (
            '    - {step: large, when: "{{ ctx.sum > 5 }}"}\n    - {step: small}\n',
            '    - {step: small}\n    - {step: large, when: "{{ ctx.sum > 5 }}"}\n',
            [("moved", "workflow.start.next.arcs")],
        ),
    ],
)
def test_playbooks_are_compared_by_meaning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, changes: list[tuple[str, str]]
) -> None:
    text = STEPS + "# x\n"
    (tmp_path / "a.yaml").write_text(text)
    edited = text.replace(old, new)
    assert edited != text
    (tmp_path / "b.yaml").write_text(edited)
    code = noetl("diff", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"), "--format", "json")
    document = json.loads(capsys.readouterr().out)
    assert (code, document["differs"]) == ((1, True) if changes else (0, False))
    assert [(each["change"], each["path"]) for each in document["changes"]] == changes


def test_versions_of_a_registered_playbook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in (STEPS, STEPS.replace("echo small", "echo tiny")):
        (tmp_path / "orders.yaml").write_text(text)
        assert noetl("register", "orders.yaml", "--db", "a.db") == 0
    capsys.readouterr()
    assert noetl("diff", "shop/orders@1", "shop/orders@2", "--db", "a.db") == 1
    assert capsys.readouterr().out.splitlines() == [
        "changed workflow.small.tool.tell.input.sh",
        '  - "echo small"',
        '  + "echo tiny"',
    ]
    assert noetl("diff", "shop/orders", "orders.yaml", "--db", "a.db") == 0
    assert noetl("diff", "shop/orders@7", "orders.yaml", "--db", "a.db") == 1
    assert noetl("diff", "last", "orders.yaml", "--db", "a.db") == 2
    assert noetl("diff", "no/path", "orders.yaml", "--db", "a.db") == 2
