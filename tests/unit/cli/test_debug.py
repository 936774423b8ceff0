"""`noetl debug`: commands from standard input, what it shows, and how it ends."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from noetl.cli.debugger import DebugCommand, parse_line
from tests.playbooks import HEAD
from tests.unit.cli.invoke import noetl

PAGES = (
    HEAD.replace("path: t", "path: shop/pages")
    + """\
workload: {pages: [1, 2, 3]}
workflow:
- step: start
  loop: {in: "{{ workload.pages }}", iterator: page}
  tool:
  - {name: get, kind: noop, input: {rows: ["{{ iter.page * 10 }}"]}}
  - {name: add, kind: noop, input: {rows: "{{ get.data.rows }}"}, set: {ctx.last: "{{ input.rows[0] }}"}}
  next: {arcs: [{step: store}]}
- step: store
  tool: {kind: noop, input: {last: "{{ ctx.last }}"}}
"""
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "pages.yaml"
    path.write_text(PAGES)
    return str(path)


def debugged(monkeypatch: pytest.MonkeyPatch, commands: str, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))
    return noetl("debug", *arguments)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("s", DebugCommand("step", "")),
        ("s ctx.n 4", DebugCommand("set", "ctx.n 4")),
        ("  print ctx.n  ", DebugCommand("print", "ctx.n")),
        ("c all", DebugCommand("continue", "all")),
        ("# a remark", None),
        ("", None),
    ],
)
def test_commands_and_their_first_letters(line: str, words: DebugCommand | None) -> None:
    assert parse_line(line) == words


def test_it_stops_before_the_first_step_and_runs_to_the_end(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "d.db")
    assert debugged(monkeypatch, "step\ncontinue\n", file, "--db", db) == 0
    out = capsys.readouterr().out
    assert "■ start  start#1  breakpoint *\n" in out
    assert ">    6 - step: start\n" in out
    assert "■ start.get  start#1[0]  a step has ended here\n" in out
    assert out.rstrip().endswith("output:\n  last: 30")


def test_values_are_printed_and_changed_in_one_iteration(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "d.db")
    commands = (
        "p iter.page\np get.data.rows | first\nprint keychain.shop\nprint nothing\nset ctx.seen {{ iter.page * 2 }}\n"
        "set input.n 1\nset ctx.n\nnonsense\nb store when ctx.seen == 4\nclear all\nb store\nc\nset ctx.last mine\nc\n"
    )
    options = ("--break", "start.add", "--when", "iter.index == 1", "--db", db)
    assert debugged(monkeypatch, commands, file, *options) == 0
    out, err = capsys.readouterr()
    assert "\n2\n20\n***\n" in out
    assert "ctx.seen = 4\n" in out
    assert "store  when {{ ctx.seen == 4 }}  line 12\n" in out
    assert out.rstrip().endswith("output:\n  last: mine")
    assert "values of the keychain are never shown" in err
    assert '"input.n" cannot be changed' in err
    assert "set needs a path and a value" in err
    assert 'there is no command "nonsense"' in err
    assert noetl("explain", "last", "start", "--db", db) == 0
    assert "changed by hand: ctx.seen = 4, by local user" in capsys.readouterr().out


def test_the_end_of_the_input_pauses_it_and_says_how_to_go_on(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "d.db")
    assert debugged(monkeypatch, "where\n", file, "--break", "store", "--db", db) == 130
    out = capsys.readouterr().out
    id = out.split("\n", 1)[0]
    assert f"paused; held: store#1 before store\n  debug it further: noetl debug {id[:18]} --db {db}\n" in out
    assert noetl("show", "last", "--db", db) == 0
    assert "■ store#1 is held before store" in capsys.readouterr().out
    assert debugged(monkeypatch, "p ctx.last\n", "last", "--db", db) == 130
    assert "\n30\n" in capsys.readouterr().out
    assert noetl("resume", id[:18], "--no-breakpoints", "--format", "json", "--db", db) == 0
    assert json.loads(capsys.readouterr().out)["output"]["data"] == {"last": 30}
    assert debugged(monkeypatch, "", "last", "--db", db) == 0
    assert "the execution has ended: ok" in capsys.readouterr().err


def test_restart_keeps_the_work_before_the_step(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "d.db")
    assert (
        debugged(monkeypatch, "set ctx.last wrong\nrestart\np ctx.last\nc\n", file, "--break", "store", "--db", db) == 0
    )
    out = capsys.readouterr().out
    assert "before store\n■ store  store#1  breakpoint store" in out
    assert out.rstrip().endswith("output:\n  last: 30"), "the change belongs to the old execution"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--break", "stor"), 'the playbook has no step or task "stor"; did you mean "store"?'),
        (("--break", "start.add", "--when", "itre.index == 1"), '"itre" is not known here'),
        (("--when", "true"), "--when needs a --break"),
    ],
)
def test_mistakes_are_named_before_anything_runs(
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    assert debugged(monkeypatch, "", file, *options, "--db", str(tmp_path / "d.db")) in (1, 2)
    assert message in capsys.readouterr().err


PARENT = (
    HEAD.replace("path: t", "path: shop/all")
    + """\
workflow:
- step: start
  loop: {in: [5, 6], iterator: page}
  tool: {name: call, kind: playbook, path: ./pages.yaml, input: {pages: ["{{ iter.page }}"]}}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: noop, input: {n: 7}}
"""
)


@pytest.fixture
def parent(tmp_path: Path) -> str:
    (tmp_path / "pages.yaml").write_text(PAGES)
    path = tmp_path / "all.yaml"
    path.write_text(PARENT)
    return str(path)


def test_a_breakpoint_in_a_child_holds_it_as_soon_as_it_starts(
    parent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "d.db")
    commands = "where\np iter.page\nset ctx.mine 1\ns\nclear all\nb\nc\nc\nc\n"
    assert debugged(monkeypatch, commands, parent, "--break", "start/start.add", "--break", "last", "--db", db) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "■ start.add  start#1[0]/start#1[0]  breakpoint start.add\n  in the child " in out
    assert "> start#1[0]/start#1[0]  before start.add  line 10\n" in out
    assert "■ store  start#1[0]/store#1  a step has ended here" in out
    assert "■ start.add  start#1[1]/start#1[0]  breakpoint start.add" in out
    assert "■ last  last#1  breakpoint last" in out
    assert out.rstrip().endswith("output:\n  n: 7")


def test_a_held_child_is_left_and_returned_to(
    parent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "d.db")
    assert debugged(monkeypatch, "", parent, "--break", "start/store", "--db", db) == 130
    out = capsys.readouterr().out
    id = out.split("\n", 1)[0]
    assert "paused; held: start#1[0]/store#1 before store\n" in out
    assert noetl("show", id[:18], "--db", db, "--format", "plain") == 0
    shown = capsys.readouterr().out
    assert (found := re.search(r"start#1\[0\] waits for (\S+), which is held: store#1 before store", shown)), shown
    assert f"debug it: noetl debug {found[1]} --db {db}" in shown
    assert debugged(monkeypatch, "c\n", id[:18], "--db", db) == 130
    assert "■ store  start#1[1]/store#1  breakpoint store" in capsys.readouterr().out
    assert noetl("resume", id[:18], "--no-breakpoints", "--format", "json", "--db", db) == 0
    assert json.loads(capsys.readouterr().out)["output"]["data"] == {"n": 7}


def test_a_place_that_the_child_does_not_have_holds_it_and_says_so(
    parent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "d.db")
    assert debugged(monkeypatch, "c\nc\n", parent, "--break", "start/stor", "--db", db) == 0
    reason = 'the playbook has no step or task "stor"; did you mean "store"?'
    assert f"its breakpoint cannot be checked: {reason}" in capsys.readouterr().out
    assert debugged(monkeypatch, "", parent, "--break", "last/store", "--db", db) == 1
    assert 'the step "last" calls no playbook; those that do: start' in capsys.readouterr().err
