"""`noetl fmt`: write playbooks in the canonical layout."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from noetl.cli.execute import FAILED, OK, WRONG, Reporter
from noetl.cli.options import app, finish
from noetl.errors import PlaybookError
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.playbook.kinds import Kinds
    from noetl.session.sources import PlaybookFile


class FmtOptions(NamedTuple):
    check: bool = False
    diff: bool = False


@app.command()
def fmt(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Playbooks, or folders of them; `-` is standard input.", show_default="."),
    ] = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 when a file would change.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; show the changes.")] = False,
) -> None:
    """Write playbooks in the canonical layout: indentation, blank lines, spaces.

    The order of keys and all comments are kept, and the meaning does not change. The text of standard input goes to
    standard output. Exits with 2 when a file is not valid YAML.

    \b
    Examples:
      noetl fmt playbooks/
      noetl fmt playbooks/ --check
      noetl fmt - < orders.yaml
    """
    finish("auto", lambda reporter: format_files(reporter, files or ["."], FmtOptions(check, diff)))


def format_files(reporter: Reporter, names: Sequence[str], options: FmtOptions) -> int:
    from noetl.cli.checker import installed_kinds
    from noetl.cli.output.problems import print_problems
    from noetl.session.sources import read_source

    kinds, changed, wrong = installed_kinds(), False, False
    for name in _files(names, reporter):
        try:
            source = read_source(name)
            text = source.data.decode("utf-8")
            made = _formatted(reporter, source, text, kinds)
        except PlaybookError as error:
            print_problems(error.problems, text, reporter.errors)
        except UnicodeDecodeError as error:
            reporter.warn(f"{name}: the text is not UTF-8 (byte {error.start})")
        except UsageError as error:
            reporter.warn(str(error))
        else:
            changed = changed or made != text
            _deliver(reporter, source, text, made, options)
            continue
        wrong = True
    return WRONG if wrong else FAILED if options.check and changed else OK


def _formatted(reporter: Reporter, source: PlaybookFile, text: str, kinds: Kinds) -> str:
    """Raises PlaybookError or UsageError if it cannot be formatted."""
    from noetl.editor.formatting import format_checked
    from noetl.session.sources import load

    loaded = load(source, "canonical", kinds)
    if not loaded.is_playbook:
        reporter.warn(f"{source.name}: skipped: this is not a playbook")
        return text
    assert loaded.checked is not None  # only a migration can leave it out
    formatted = format_checked(text, loaded.checked, source.name)
    if not formatted.supported:
        raise UsageError(f"{source.name}: unchanged: avoid `? key` and unusual line breaks")
    return formatted.text


def _files(names: Sequence[str], reporter: Reporter) -> Iterator[str]:
    from noetl.session.sources import files_in

    for name in names:
        if not os.path.isdir(name):
            yield name
        elif found := files_in(name):
            yield from found
        else:
            reporter.warn(f"{name}: there is no playbook in this folder")


def _deliver(reporter: Reporter, source: PlaybookFile, text: str, made: str, options: FmtOptions) -> None:
    """Write, show or name the change of one file."""
    from noetl.cli.output.documents import put, write_file
    from noetl.cli.output.screen import print_diff

    if options.diff:
        print_diff(text, made, source.name, reporter.screen)
    elif options.check:
        if made != text:
            reporter.screen.line(f"{source.name}: would be formatted")
    elif source.origin is None:
        put(made.encode("utf-8"), None)
    elif made != text:
        write_file(source.name, made.encode("utf-8"))
        reporter.screen.line(f"{source.name}: formatted")
