"""`noetl what-if`: an edited playbook over recorded calls, without any network."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from noetl.output import JSON
from tests.unit.cli.invoke import noetl, run_run
from tests.unit.cli.test_record import CHILD, PAGED, Shop, folder
from tests.unit.replay.suites import HEAD

__all__ = ["CHILD", "Shop", "folder"]

STEPS = (
    HEAD
    + """
workload: {n: 3}
workflow:
- step: start
  loop: {in: "{{ range(workload.n) }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool: {name: double, kind: python, input: {n: "{{ iter.n }}"}, code: "def main(n): return {'twice': 2 * n}"}
  set: {ctx.sum: "{{ output.data | map(attribute='twice') | sum }}", ctx.at: "{{ now() }}"}
  next:
    spec: {mode: exclusive}
    arcs:
    - {step: large, when: "{{ ctx.sum > 5 }}"}
    - {step: small}
- step: large
  tool: {name: tell, kind: shell, input: {sh: "echo large {{ ctx.sum }}"}}
- step: small
  tool: {name: tell, kind: shell, input: {sh: "echo small"}}
"""
)


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Two executions of a playbook; after them, nothing can be called."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").write_text(STEPS)
    assert run_run("orders.yaml", db="a.db") == 0
    assert run_run("orders.yaml", "n=2", db="a.db") == 0
    close(monkeypatch)
    capsys.readouterr()
    return tmp_path


def close(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection, and no process."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("what-if has called something")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("asyncio.create_subprocess_exec", refuse)
    monkeypatch.setattr("subprocess.Popen", refuse)


def what_if(text: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, JSON]:
    Path("edited.yaml").write_text(text)
    code = noetl("what-if", *(arguments or ("last",)), "--playbook", "edited.yaml", "--db", "a.db", "--format", "json")
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("ran")
def test_the_same_playbook_makes_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = what_if(STEPS + "# a comment\n", capsys)
    assert (code, report["differs"], report["first_divergence"]) == (0, False, None)
    assert report["calls"] == {"same": 3, "changed": 0, "missing": 0, "live": 0, "unused": 0}
    assert report["coverage"] == {"answered": 3, "of": 3}
    assert report["routes"] == {"same": True, "recorded": ["start", "small"], "replayed": ["start", "small"]}


@pytest.mark.usefixtures("ran")
def test_a_changed_guard_changes_the_route(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = what_if(STEPS.replace("ctx.sum > 5", "ctx.sum > 1"), capsys)
    assert (code, report["differs"], report["status"]) == (1, True, ["ok", "error"])
    assert report["routes"]["replayed"] == ["start", "large"]
    assert report["first_divergence"]["why"] in (
        "start → small was recorded and does not happen",
        "start → large happens and was not recorded",
    )
    assert report["changes"] == [{"call": "large.tell", "frame": "large#1", "what": "missing", "seq": 0}]
    assert report["calls"]["unused"] == 1
    code, report = what_if(STEPS.replace("ctx.sum > 5", "ctx.sum > 1"), capsys, "last", "--on-miss", "null")
    assert (code, report["status"]) == (1, ["ok", "ok"])


@pytest.mark.usefixtures("ran")
def test_a_changed_input_is_reported_and_answered_as_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = what_if(STEPS.replace("echo small", "echo tiny"), capsys)
    assert (code, report["status"]) == (1, ["ok", "ok"])
    assert report["calls"] == {"same": 2, "changed": 1, "missing": 0, "live": 0, "unused": 0}
    assert report["first_divergence"]["step"] == "small"
    assert report["first_divergence"]["why"] == "the input or the code of small.tell differs in small#1"
    assert report["first_divergence"]["seq"] == report["changes"][0]["seq"] > 0


@pytest.mark.usefixtures("ran")
def test_changed_code_is_a_change_although_its_input_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = what_if(STEPS.replace("2 * n}", "3 * n}"), capsys)
    assert (code, report["calls"]["changed"], report["calls"]["same"]) == (1, 2, 1)


@pytest.mark.usefixtures("ran")
def test_an_item_more_is_one_changed_call_and_the_others_keep_their_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    edited = STEPS.replace("{{ range(workload.n) }}", "{{ [7] + (range(workload.n) | list) }}")
    code, report = what_if(
        edited.replace("tool: {name: double", "spec: {policy: {failure: {mode: best_effort}}}\n  tool: {name: double"),
        capsys,
    )
    assert (code, report["calls"]["missing"]) == (1, 0)
    # The first iteration has the input 7: it gets the answer in its place; the others are found by their input.
    assert (report["calls"]["changed"], report["calls"]["same"]) == (1, 3)


@pytest.mark.usefixtures("ran")
def test_the_last_executions_of_a_path_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    edited = STEPS.replace("ctx.sum > 5", "ctx.sum > 2")
    code, reports = what_if(edited, capsys, "shop/orders", "--last", "5")
    assert (code, [each["differs"] for each in reports]) == (0, [False, False])
    code, reports = what_if(STEPS.replace("ctx.sum > 5", "ctx.sum > 100"), capsys, "shop/orders", "--last", "5")
    assert (code, [each["differs"] for each in reports]) == (1, [False, True])
    assert noetl("what-if", "shop/orders", "--last", "1", "--playbook", "edited.yaml", "--db", "a.db") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 execution, 0 differ"


@pytest.mark.usefixtures("ran")
def test_problems_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert what_if(STEPS.replace("step: small}", "step: smal}"), capsys)[0] == 2
    assert noetl("what-if", "last", "--playbook", "none.yaml", "--db", "a.db") == 2
    assert noetl("what-if", "no/path", "--last", "2", "--playbook", "orders.yaml", "--db", "a.db") == 2


@pytest.mark.usefixtures("folder")
def test_children_large_bodies_and_times_are_answered_from_their_logs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    close(monkeypatch)
    capsys.readouterr()
    code, report = what_if(PAGED, capsys, "last")
    assert (report["first_divergence"], report["calls"]["same"], code) == (None, 5, 0)
    # The child ran from its file; without it, the recorded text runs.
    Path("child.yaml").unlink()
    assert what_if(PAGED, capsys, "last")[0] == 0


@pytest.mark.usefixtures("ran")
def test_people_read_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("edited.yaml").write_text(STEPS.replace("echo small", "echo tiny"))
    assert noetl("what-if", "last", "--playbook", "edited.yaml", "--db", "a.db") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(" shop/orders: differs")
    assert lines[1].startswith(
        "  first divergence: the input or the code of small.tell differs in small#1 (after fact "
    )
    assert lines[-2:] == [
        "  calls: 2 the same, 1 changed, 0 not recorded",
        "  coverage: 2 of 3 calls answered for the same input (67 %)",
    ]


def test_safe_calls_are_made_when_no_record_answers_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    playbook = (
        HEAD
        + """
workflow:
- step: start
  tool: {name: double, kind: python, input: {n: 2}, code: "def main(n): return 2 * n", spec: {safe: true}}
  set: {ctx.n: "{{ output.data }}"}
  next: {arcs: [{step: tell}]}
- step: tell
  tool: {name: write, kind: python, input: {n: "{{ ctx.n }}"}, code: "def main(n): return n"}
"""
    )
    (tmp_path / "orders.yaml").write_text(playbook)
    assert run_run("orders.yaml", db="a.db") == 0
    (tmp_path / "edited.yaml").write_text(playbook.replace("{n: 2}", "{n: 5}"))

    def asked(*options: str) -> JSON:
        capsys.readouterr()
        assert noetl("what-if", "last", "--playbook", "edited.yaml", "--db", "a.db", "--format", "json", *options) == 1
        return json.loads(capsys.readouterr().out)

    recorded = asked()
    assert (recorded["calls"]["changed"], recorded["calls"]["live"], recorded["output"]) == (1, 0, "same")
    made = asked("--live-if-safe")
    # The read is made: 10 instead of 4. What is not safe is answered as recorded.
    assert (made["calls"]["live"], made["calls"]["changed"], made["coverage"]) == (1, 1, {"answered": 0, "of": 2})
    assert [(each["call"], each["what"]) for each in made["changes"]] == [
        ("start.double", "live"),
        ("tell.write", "changed"),
    ]
    assert made["first_divergence"]["why"] == (
        "the input or the code of start.double differs in start#1: the call was made"
    )
