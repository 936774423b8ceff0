"""Commands in this process, by their arguments; the exit code is returned, and capsys sees what they print."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from noetl.cli import checker, runner
from noetl.cli.app import app
from noetl.cli.arguments import CheckOptions, DialectChoice, FormatChoice, RunOptions


def noetl(*arguments: str) -> int:
    command = typer.main.get_command(app)
    code = command.main(list(arguments), prog_name="noetl", standalone_mode=False)
    assert isinstance(code, int)
    return code


def run_check(files: list[str], format: FormatChoice, dialect: DialectChoice, *, strict: bool) -> int:
    return checker.check(CheckOptions(files, format, dialect, strict))


def run_run(file: str, *sets: str, db: str) -> int:
    return runner.run(RunOptions(file, tuple(f"{each}" for each in sets), db=db))


def run_list(format: str, db: str, *options: str) -> int:
    return noetl("list", "--format", format, "--db", db, *options)


def run_show(id: str, format: str, db: str) -> int:
    return noetl("show", id, "--format", format, "--db", db)


def run_events(id: str, format: str, first: int, db: str, *options: str) -> int:
    return noetl("events", id, "--format", format, "--from", str(first), "--db", db, *options)


def run_state(id: str, at: int | None, format: str, db: str) -> int:
    return noetl("state", id, "--format", format, "--db", db, *_option("--at", at))


def run_output(id: str, step: str | None, db: str, *, raw: bool = False) -> int:
    return noetl("output", id, *_argument(step), "--db", db, *(["--raw"] if raw else []))


def run_replay(id: str, format: str, db: str) -> int:
    return noetl("replay", id, "--format", format, "--db", db)


def run_audit(id: str | None, format: str, db: str) -> int:
    return noetl("audit", *_argument(id), "--format", format, "--db", db)


def run_explain(
    file: str,
    graph: str | None = None,
    task: str | None = None,
    output: str | None = None,
    dialect: str = "canonical",
) -> int:
    options = (*_option("--graph", graph), *_option("--task", task), *_option("--output", output))
    return noetl("explain", file, "--dialect", dialect, *options)


def run_explain_execution(id: str, step: str | None, db: str, format: str) -> int:
    return noetl("explain", id, *_argument(step), "--format", format, "--db", db)


def run_retry(id: str, db: str, *options: str) -> int:
    return noetl("retry", id, "--db", db, *options)


def run_gc(older_than: str, format: str, db: str, *, dry_run: bool) -> int:
    dry = ["--dry-run"] if dry_run else []
    return noetl("gc", "--older-than", older_than, "--format", format, "--db", db, *dry)


def run_tools(kind: str | None, format: str) -> int:
    return noetl("tools", *_argument(kind), "--format", format)


def run_set(name: str, value: str, db: str, format: str) -> int:
    return noetl("secrets", "set", name, "--value", value, "--db", db, "--format", format)


def run_list_secrets(db: str, format: str) -> int:
    return noetl("secrets", "list", "--db", db, "--format", format)


def run_remove(name: str, db: str, format: str) -> int:
    return noetl("secrets", "rm", name, "--db", db, "--format", format)


def run_rotate(db: str, format: str) -> int:
    return noetl("secrets", "rotate", "--db", db, "--format", format)


def _argument(value: str | None) -> Sequence[str]:
    return [] if value is None else [value]


def _option(name: str, value: str | int | None) -> Sequence[str]:
    return [] if value is None else [name, str(value)]
