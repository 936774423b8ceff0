"""`noetl register`: playbooks from files and folders into the catalog, all of them or none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from noetl.cli.arguments import DialectChoice
from noetl.cli.completion import complete_file
from noetl.cli.execute import WRONG, Reporter
from noetl.cli.options import Db, Dialect, Format, Server, app, on_session
from noetl.escape import visible
from noetl.session.errors import UsageError
from noetl.views.styled_text import Styled, table

if TYPE_CHECKING:
    from noetl.ports import PlaybookText
    from noetl.session.protocol import Session
    from noetl.session.sources import LoadedPlaybook

NAMES_MAX = 5  # modules that a line names


@app.command()
def register(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR",
            help="Playbooks, or folders of them; `-` is standard input.",
            autocompletion=complete_file,
        ),
    ],
    *,
    dialect: Dialect = "canonical",
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Register playbooks under their paths: a changed text becomes the next version.

    Registering the same text again creates no new version.

    All playbooks are checked first; when one has errors nothing is registered, and the exit code is 2.
    Folders are searched for `*.yaml` and `*.yml` files that are playbooks, including subfolders.
    JSON is an array of `{file, path, version, digest, created}`, with `libs` if modules were added.

    A server has no files beside a playbook. So the modules beside the file that `python` tasks import, and the
    files under `script`, are added to the text under `libs`, and a change of one of them is a new version.

    \b
    Examples:
      noetl register hello.yaml
      noetl register playbooks/ --format json
      noetl register old.yaml --dialect auto
    """

    found: list[_Found] = []

    def before(reporter: Reporter) -> None:
        found.extend(_read(reporter, files, dialect))

    async def work(reporter: Reporter, session: Session) -> int:
        texts = {each.file: each.text for each in found if each.text is not None}
        if any(each.text is None for each in found):
            return _refuse(reporter, found)
        return await _register(reporter, session, found, texts)

    on_session(format, db, server, work, create=True, before=before)


class _Found(NamedTuple):
    file: str
    loaded: LoadedPlaybook
    text: PlaybookText | None  # None: it has errors


def _read(reporter: Reporter, names: Sequence[str], dialect: DialectChoice) -> Iterator[_Found]:
    """Files as they were named; of folders all playbooks, by name. Raises UsageError."""
    from noetl.cli.checker import installed_kinds
    from noetl.cli.output.problems import print_notes
    from noetl.session.sources import STDIN, files_in, load, read_source

    if names.count(STDIN) > 1:
        raise UsageError("standard input can be read only once")
    kinds = installed_kinds()
    for name in names:
        is_folder, empty = os.path.isdir(name), True
        for file in files_in(name) if is_folder else [name]:
            source = read_source(file)
            loaded = load(source, dialect, kinds)
            if is_folder and not loaded.is_playbook:
                reporter.warn(f"{file}: skipped: this is not a playbook")
                continue
            empty = False
            print_notes(loaded.notes, reporter.errors)
            yield _Found(file, loaded, loaded.registered_text(source.origin))
        if empty:
            raise UsageError(f"{name}: there is no playbook in this folder")


async def _register(
    reporter: Reporter, session: Session, found: Sequence[_Found], texts: dict[str, PlaybookText]
) -> int:
    from noetl.net.describe import count

    done = await session.playbooks.register(texts)
    for each in found:
        warnings = sum(problem.severity == "warning" for problem in each.loaded.problems)
        if warnings:
            reporter.warn(f"{count(warnings, 'warning')}; see noetl check {each.file}")
    documents = [
        {
            "file": each.name,
            "path": each.version.path,
            "version": each.version.version,
            "digest": each.version.digest,
            "created": each.change == "new",
            **({"libs": list(each.libs)} if each.libs else {}),
        }
        for each in done
    ]
    rows = [
        [
            Styled(visible(each.version.path), "name"),
            Styled(f"version {each.version.version}"),
            Styled(each.change, "good" if each.change == "new" else "faint"),
            Styled(visible(f"with {_names(each.libs)}" if each.libs else ""), "faint"),
        ]
        for each in done
    ]
    return reporter.show(documents, table(rows, indent=""))


def _names(libs: Sequence[str]) -> str:
    more = f" and {len(libs) - NAMES_MAX} more" if len(libs) > NAMES_MAX else ""
    return f"{', '.join(libs[:NAMES_MAX])}{more}"


def _refuse(reporter: Reporter, found: Sequence[_Found]) -> int:
    import json

    from noetl.cli.output.problems import as_json, print_problems
    from noetl.net.describe import count

    for each in found:
        print_problems(each.loaded.problems, each.loaded.text, reporter.errors)
    wrong = sum(each.text is None for each in found)
    message = f"nothing is registered: {count(wrong, 'playbook')} of {len(found):,} cannot run"
    reporter.warn(message)
    problems = json.loads(as_json(problem for each in found for problem in each.loaded.problems))
    error = {"kind": "problems", "message": message}
    reporter.document({"execution_id": None, "status": "error", "error": error, "problems": problems})
    return WRONG
