"""`noetl new`: write a playbook from a template, with its tests."""

from __future__ import annotations

import os
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final

import typer

from noetl.cli.execute import OK, Reporter
from noetl.cli.options import app, finish
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

TEMPLATES: Final = {
    "api-to-postgres": "copies all pages of an API into a table of PostgreSQL",
    "webhook": "handles a webhook with a signature, once per delivery",
    "nightly-sync": "copies what has changed since the last run, every night",
    "agent": "lets a language model use a tool, with a limit and the approval of a person",
}


@app.command()
def new(
    template: Annotated[
        str | None, typer.Argument(metavar="[TEMPLATE]", help="The template; without it, all of them are listed.")
    ] = None,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="The playbook to write; by default TEMPLATE.yaml.")
    ] = None,
) -> None:
    """Write a playbook from a template, and a test file beside it. It never overwrites a file.

    `noetl init` writes a smaller playbook, to learn the language.

    \b
    Examples:
      noetl new
      noetl new api-to-postgres orders.yaml
      noetl test orders.test.yaml
    """

    def command(reporter: Reporter) -> int:
        if template is None:
            width = max(map(len, TEMPLATES))
            for name, words in TEMPLATES.items():
                reporter.screen.line(f"{name:<{width}}  {words}")
            reporter.screen.line("write one: noetl new TEMPLATE FILE")
            return OK
        return write_template(reporter, template, file or f"{template}.yaml")

    finish("auto", command)


def write_template(reporter: Reporter, template: str, file: str) -> int:
    from shlex import quote

    from noetl.cli.output.documents import create_file
    from noetl.importers.openapi.operations import snake
    from noetl.replay.suite import SUFFIXES

    if template not in TEMPLATES:
        raise UsageError(f'there is no template "{template}"; the templates are {", ".join(TEMPLATES)}')
    stem, suffix = os.path.splitext(file)
    if suffix not in (".yaml", ".yml") or file.endswith(SUFFIXES):
        raise UsageError(f"{file}: name a file that ends in .yaml")
    test = f"{stem}{SUFFIXES[0]}"
    if os.path.exists(test):
        raise UsageError(f"{test}: the file already exists: name another file")
    base = os.path.basename(stem)
    words = {"{name}": snake(base, "playbook"), "{file}": os.path.basename(file), "{test}": os.path.basename(test)}
    folder: Traversable = files("noetl.cli") / "templates"
    for source, made in ((f"{template}.yaml", file), (f"{template}{SUFFIXES[0]}", test)):
        text = (folder / source).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        create_file(made, text.encode())
    reporter.screen.line(f"{file} and {test} are written; run the tests: noetl test {quote(test)}")
    return OK
