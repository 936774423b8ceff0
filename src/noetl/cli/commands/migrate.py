"""`noetl migrate`: rewrite a playbook of an older dialect in the canonical form (D79)."""

from __future__ import annotations

import os
from typing import Annotated, NamedTuple

import typer

from noetl.cli.execute import FAILED, OK, WRONG, Reporter
from noetl.cli.options import File, Out, app, finish
from noetl.cli.output.screen import print_diff
from noetl.errors import PlaybookError
from noetl.session.errors import UsageError


class MigrateOptions(NamedTuple):
    output: str | None = None
    write: bool = False
    diff: bool = False
    exact: bool = False
    annotate: bool = False
    keep_layout: bool = False


@app.command()
def migrate(
    file: File,
    *,
    output: Out = None,
    write: Annotated[bool, typer.Option("--write", help="Rewrite the file itself.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the changes only.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Let unguarded arcs carry failures too, as the old dialect did.")
    ] = False,
    annotate: Annotated[bool, typer.Option("--annotate", help="Add the notes as comments.")] = False,
    keep_layout: Annotated[
        bool, typer.Option("--keep-layout", help="Keep the layout of all other lines; do not run `noetl fmt`.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Write nothing; report which playbooks of a folder can be migrated.")
    ] = False,
) -> None:
    """Rewrite a playbook of an older dialect, or of the public NoETL, in the canonical form.

    Comments and order are kept, and the result has the layout of `noetl fmt`. Differences in meaning are noted on
    standard error.
    The result is checked: exits with 1 when it still has errors, and with 2 when something cannot be migrated.

    \b
    Examples:
      noetl migrate old.yaml --diff
      noetl migrate old.yaml --write --annotate
      noetl migrate --report playbooks/
    """
    if report:
        finish("auto", lambda reporter: report_folder(reporter, file))
        return
    options = MigrateOptions(output, write, diff, exact, annotate, keep_layout)
    finish("auto", lambda reporter: migrate_file(reporter, file, options))


def migrate_file(reporter: Reporter, file: str, options: MigrateOptions) -> int:
    from noetl.cli.checker import installed_kinds
    from noetl.cli.output.documents import put, write_file
    from noetl.cli.output.problems import print_notes, print_problems
    from noetl.editor.formatting import format_playbook
    from noetl.playbook.migrate import migrate as migrated
    from noetl.playbook.source import parse
    from noetl.session.sources import STDIN, MigrationNote, read_source, remaining_problems

    if sum((options.output is not None, options.write, options.diff)) > 1:
        raise UsageError("--output, --write and --diff exclude each other")
    if options.write and file == STDIN:
        raise UsageError("--write needs a file; standard input cannot be rewritten")
    source = read_source(file)
    try:
        text = source.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PlaybookError(parse(source.data, source.name).problems) from error
    try:
        migration = migrated(text, source.name, exact=options.exact, annotate=options.annotate)
    except PlaybookError as error:
        print_problems(error.problems, text, reporter.errors)
        return WRONG
    made = migration.text
    is_printed = not (options.write or options.diff)  # a file that needs no migration is not rewritten
    if (migration.changed or is_printed) and not options.keep_layout:
        made = format_playbook(made, installed_kinds(), source.name).text
    notes = [MigrationNote(note.at, note.code, note.message) for note in migration.notes]
    print_notes(notes, reporter.errors)
    if options.diff:
        print_diff(text, made, source.name, reporter.screen)
    elif not options.write:
        put(made.encode("utf-8"), options.output)
    elif migration.changed:
        write_file(file, made.encode("utf-8"))
    left = remaining_problems(migration, source.name, installed_kinds())
    if left:
        print_problems(left, text, reporter.errors)
        count = "1 problem that needs" if len(left) == 1 else f"{len(left)} problems that need"
        reporter.errors.line(f"{source.name}: the result has {count} a change by hand")
    return FAILED if left else OK


def report_folder(reporter: Reporter, folder: str) -> int:
    """Print a table for all playbooks of a folder. Nothing is written."""
    from noetl.cli.checker import installed_kinds
    from noetl.cli.migration_report import report_file, report_lines
    from noetl.session.sources import files_in

    if not os.path.isdir(folder):
        raise UsageError(f"{folder}: --report needs a folder")
    kinds = installed_kinds()
    found = []
    for name in sorted(files_in(folder)):
        with open(name, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
        if "workflow" in text:
            found.append(report_file(name, text, kinds))
    for line in report_lines(found):
        reporter.screen.line(line)
    return OK if all(file.state in ("migrated", "with notes") for file in found) else FAILED
