"""The short way to `noetl check` and `noetl run` reads command lines exactly as typer does."""

from __future__ import annotations

import pytest
import typer
from typer.core import TyperGroup

from noetl.cli import arguments as quick
from noetl.cli.app import app
from noetl.cli.arguments import CheckOptions, RunOptions


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("check a.yaml", CheckOptions(["a.yaml"], "auto", "canonical", False)),
        ("check a.yaml - b.yaml", CheckOptions(["a.yaml", "-", "b.yaml"], "auto", "canonical", False)),
        ("check --strict a", CheckOptions(["a"], "auto", "canonical", True)),
        ("check a --format json", CheckOptions(["a"], "json", "canonical", False)),
        ("check --format=plain a --dialect=auto", CheckOptions(["a"], "plain", "auto", False)),
        ("check --format rich --format json a", CheckOptions(["a"], "json", "canonical", False)),
    ],
)
def test_a_command_line_that_leaves_no_question_is_read_as_typer_reads_it(line: str, check: CheckOptions) -> None:
    assert quick.parse(line.split()) == check
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = group.commands["check"].make_context("check", line.split()[1:])
    assert context.params == {
        "files": check.files,
        "format": check.format,
        "dialect": check.dialect,
        "strict": check.strict,
    }


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("run a.yaml", RunOptions("a.yaml")),
        ("run -", RunOptions("-")),
        ("run a --set k=v --set=a.b=c=d --set x=", RunOptions("a", ("k=v", "a.b=c=d", "x="))),
        ("run --workload w.yaml a --db=x.db", RunOptions("a", workload="w.yaml", db="x.db")),
        (
            "run a --format json --dialect auto --db x --db y",
            RunOptions("a", (), None, "y", None, "auto", "json"),
        ),
        ("run a --allow-extra --set k=v", RunOptions("a", ("k=v",), allow_extra=True)),
        ("run a --ctx k=v --ctx=b=1", RunOptions("a", ctx=("k=v", "b=1"))),
        ("run a --label k=v --label=b=1", RunOptions("a", labels=("k=v", "b=1"))),
        ("run a --secret k --secret=b=@c", RunOptions("a", secrets=("k", "b=@c"))),
    ],
)
def test_a_run_that_leaves_no_question_is_read_as_typer_reads_it(line: str, options: RunOptions) -> None:
    assert quick.parse(line.split()) == options
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = group.commands["run"].make_context("run", line.split()[1:])
    assert context.params == {
        "file": options.file,
        "sets": list(options.sets) or (),
        "ctx": list(options.ctx) or (),
        "labels": list(options.labels) or (),
        "secrets": list(options.secrets) or (),
        "workload": options.workload,
        "allow_extra": options.allow_extra,
        "db": options.db,
        "server": None,
        "detach": False,
        "dialect": options.dialect,
        "format": options.format,
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
