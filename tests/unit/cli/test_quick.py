"""The short way to `noetl check` and `noetl run` reads command lines exactly as typer does."""

from __future__ import annotations

import pytest
import typer
from typer.core import TyperGroup

from noetl.cli import quick
from noetl.cli.app import app
from noetl.cli.asked import RunAsked
from noetl.cli.quick import Check


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("check a.yaml", Check(["a.yaml"], "auto", "canonical", False)),
        ("check a.yaml - b.yaml", Check(["a.yaml", "-", "b.yaml"], "auto", "canonical", False)),
        ("check --strict a", Check(["a"], "auto", "canonical", True)),
        ("check a --format json", Check(["a"], "json", "canonical", False)),
        ("check --format=plain a --dialect=auto", Check(["a"], "plain", "auto", False)),
        ("check --format rich --format json a", Check(["a"], "json", "canonical", False)),
    ],
)
def test_a_command_line_that_leaves_no_question_is_read_as_typer_reads_it(line: str, check: Check) -> None:
    assert quick.parse(line.split()) == check
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = group.commands["check"].make_context("check", line.split()[1:])
    assert context.params == {
        "files": check.files,
        "format": check.form,
        "dialect": check.dialect,
        "strict": check.strict,
    }


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("run a.yaml", RunAsked("a.yaml")),
        ("run -", RunAsked("-")),
        ("run a --set k=v --set=a.b=c=d --set x=", RunAsked("a", ("k=v", "a.b=c=d", "x="))),
        ("run --workload w.yaml a --db=x.db", RunAsked("a", workload="w.yaml", db="x.db")),
        ("run a --format json --dialect auto --db x --db y", RunAsked("a", (), None, "y", "auto", "json")),
    ],
)
def test_a_run_that_leaves_no_question_is_read_as_typer_reads_it(line: str, asked: RunAsked) -> None:
    assert quick.parse(line.split()) == asked
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = group.commands["run"].make_context("run", line.split()[1:])
    assert context.params == {
        "file": asked.file,
        "sets": list(asked.sets) or (),
        "workload": asked.workload,
        "db": asked.db,
        "server": None,
        "detach": False,
        "dialect": asked.dialect,
        "format": asked.form,
    }


@pytest.mark.parametrize(
    "line",
    [
        "",
        "run",
        "run a b",
        "run a --set",
        "run a --help",
        "run a --format xml",
        "run a --dialect=v2",
        "run -- a",
        "resume last",
        "explain a.yaml",
        "check",
        "check --help",
        "check a.yaml -h",
        "check a.yaml --format",
        "check a.yaml --format yaml",
        "check a.yaml --format=",
        "check a.yaml --dialect v2",
        "check a.yaml --strict=yes",
        "check a.yaml --unknown",
        "check -- a.yaml",
    ],
)
def test_everything_else_is_left_to_typer(line: str) -> None:
    assert quick.parse(line.split()) is None
