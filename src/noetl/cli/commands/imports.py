"""`noetl import`: write playbooks from descriptions of other systems."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import FAILED, OK, Reporter
from noetl.cli.options import app, finish
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.importers.openapi.importer import ImportedPlaybook, ImportOptions

HELP = """Write playbooks from descriptions of other systems.

\b
Examples:
  noetl import openapi shop.yaml -o shop
  noetl import openapi https://api.example.com/openapi.json -o example
"""
TIMEOUT_S = 30

imports = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(imports, name="import", help=HELP)


@imports.command()
def openapi(
    source: Annotated[str, typer.Argument(metavar="FILE|URL", help="OpenAPI 3.0 or 3.1, as JSON or YAML.")],
    *,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write to.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the playbook. Default: derived from the title.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="OPERATION", help="The operation that the step `start` calls.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Only operations with this id, tag or path prefix; may be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also overwrite files that were edited.")] = False,
) -> None:
    """Write a playbook with a block for each operation of an API, and a README.

    The inputs of a block have the types of the operation. Credentials are entries of the keychain. Operations with
    pages have a second block, which reads all of them. The README lists what cannot be expressed.
    A later import replaces the files, unless they were edited.

    \b
    Examples:
      noetl import openapi shop.yaml -o shop
      noetl import openapi https://api.example.com/openapi.json -o example --only orders
    """
    from noetl.importers.openapi.importer import ImportOptions

    address = source if source.startswith(("http://", "https://")) else None
    options = ImportOptions(name, None, start, tuple(only or ()), address)
    finish("auto", lambda reporter: import_document(reporter, source, output, options, force=force))


def import_document(reporter: Reporter, source: str, folder: str, options: ImportOptions, *, force: bool) -> int:
    from noetl.cli.checker import installed_kinds
    from noetl.cli.output.problems import print_problems
    from noetl.importers.openapi.document import DocumentError
    from noetl.importers.openapi.importer import import_openapi
    from noetl.net.describe import count
    from noetl.playbook.validation import NAME

    if options.name is not None and not NAME.match(options.name):
        raise UsageError(f'--name "{options.name}" is not a name: write letters, digits, "_" and "-"')
    data = _download(source) if options.address else _read(source)
    try:
        made = import_openapi(data, source, installed_kinds(), options)
    except DocumentError as error:
        raise UsageError(str(error)) from error
    _write(folder, made, force=force)
    file = os.path.join(folder, f"{made.name}.yaml")
    reporter.screen.line(f"{file}: {count(made.operations, 'operation')}, {count(made.blocks, 'block')}")
    readme = os.path.join(folder, "README.md")
    if made.notes:
        reporter.screen.line(f"{readme}: {count(len(made.notes), 'note')} about what the playbook does not express")
    problems = made.checked.errors
    if problems:
        print_problems(problems, made.playbook, reporter.errors)
    return FAILED if problems else OK


def _write(folder: str, made: ImportedPlaybook, *, force: bool) -> None:
    """Nothing is written if one of the files was edited. Raises UsageError."""
    from noetl.cli.output.documents import write_file
    from noetl.importers.openapi.importer import is_untouched, marked

    files = {
        os.path.join(folder, f"{made.name}.yaml"): marked(made.playbook, "# {}"),
        os.path.join(folder, "README.md"): marked(made.readme, "<!-- {} -->"),
    }
    for file in files:
        if not force and os.path.exists(file) and not is_untouched(_read(file).decode("utf-8", "replace")):
            raise UsageError(f"{file}: the file was edited since the import, or is another one; --force overwrites it")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from error
    for file, text in files.items():
        write_file(file, text.encode())


def _read(file: str) -> bytes:
    from noetl.importers.openapi.document import BYTES_MAX

    try:
        with open(file, "rb") as stream:
            return stream.read(BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error


def _download(url: str) -> bytes:
    """Raises UsageError."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    from noetl.importers.openapi.document import BYTES_MAX

    accept = {"Accept": "application/json, application/yaml;q=0.9, */*;q=0.1", "User-Agent": "noetl"}
    try:
        with urlopen(Request(url, headers=accept), timeout=TIMEOUT_S) as response:
            data: bytes = response.read(BYTES_MAX + 1)
    except (OSError, HTTPException, ValueError) as error:
        raise UsageError(f"{url}: {error}") from error
    return data
