"""`noetl check` and `noetl register` read files and folders the same way; `check` prints all problems."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from noetl.cli.arguments import CheckFormatChoice, CheckOptions, DialectChoice
from noetl.cli.execute import OK, WRONG, Reporter, execute
from noetl.cli.output import problems
from noetl.cli.output.screen import Screen, is_terminal
from noetl.errors import Problem, Severity
from noetl.playbook.kinds import Kinds
from noetl.session.errors import UsageError
from noetl.session.sources import LoadedPlaybook, files_in, load, read_source
from noetl.tool import Tools
from noetl.views.styled_text import Styled

GC_THRESHOLD: Final = 200_000  # a check makes many objects and few cycles: examining them takes a third of its time
VERDICTS: Final = {
    "sound": Styled(
        "sound: every token can reach an end, assuming that each guard can be true and can be false", "good"
    ),
    "unsound": Styled("not sound: a token can be caught in a cycle", "error"),
    "not-provable": Styled("soundness not provable: the target of an arc is a template", "warning"),
    None: Styled("soundness not checked, because of the errors", "faint"),
}


def installed_kinds() -> Kinds:
    return Tools.installed().kinds()


def check(options: CheckOptions) -> int:
    # Standard output is one array of problems, even when a file cannot be read: no error document.
    with rare_collections():
        return execute("auto", lambda reporter: _check(reporter, options))


@contextmanager
def rare_collections() -> Iterator[None]:
    threshold = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)


def _check(reporter: Reporter, options: CheckOptions) -> int:
    counted: frozenset[Severity] = frozenset({"error", "warning"} if options.strict else {"error"})
    kinds, printer = installed_kinds(), _Printer(options.format, counted)
    found: list[Problem] = []
    unreadable = False
    for loaded in _playbooks(options.files, options.dialect, kinds, reporter):
        if loaded is None:
            unreadable = True
            continue
        problems.print_notes(loaded.notes, reporter.errors)
        found += loaded.problems
        printer.show(loaded)
    printer.finish()
    return WRONG if unreadable or any(each.severity in counted for each in found) else OK


def _playbooks(
    names: Sequence[str], dialect: DialectChoice, kinds: Kinds, reporter: Reporter
) -> Iterator[LoadedPlaybook | None]:
    """None: the file could not be read, and the reason was printed."""
    for name in names:
        if os.path.isdir(name):
            found = False
            for loaded in _in_folder(name, dialect, kinds, reporter):
                found = True
                yield loaded
            if found:
                continue
            reporter.warn(f"{name}: there is no playbook in this folder")
            yield None
        elif _is_suite(name):
            reporter.warn(f"{name}: skipped: this is a test file; noetl test {name} checks and runs it")
            if all(map(_is_suite, names)):
                yield None
        else:
            yield _loaded(name, dialect, kinds, reporter)


def _is_suite(name: str) -> bool:
    if ".test." not in name:
        return False
    from noetl.replay.suite import SUFFIXES

    return name.lower().endswith(SUFFIXES)


def _in_folder(
    folder: str, dialect: DialectChoice, kinds: Kinds, reporter: Reporter
) -> Iterator[LoadedPlaybook | None]:
    for file in files_in(folder):
        loaded = _loaded(file, dialect, kinds, reporter)
        if loaded is None or loaded.is_playbook:
            yield loaded
        else:
            reporter.warn(f"{file}: skipped: this is not a playbook")


def _loaded(file: str, dialect: DialectChoice, kinds: Kinds, reporter: Reporter) -> LoadedPlaybook | None:
    try:
        return load(read_source(file), dialect, kinds)
    except UsageError as error:
        reporter.warn(str(error))
        return None


class _Printer:
    """Prints playbooks as they are checked; formats for programs are one document, printed at the end."""

    def __init__(self, format: CheckFormatChoice, counted: frozenset[Severity]) -> None:
        if format == "auto":
            format = "rich" if is_terminal(sys.stdout) else "plain"
        self._format = format
        self._counted = counted  # severities that make the check fail
        self._checked: list[tuple[str, tuple[Problem, ...]]] = []
        self.screen = Screen(sys.stdout, colour=format == "rich")

    def show(self, loaded: LoadedPlaybook) -> None:
        self._checked.append((loaded.name, loaded.problems))
        if self._format not in ("rich", "plain"):
            return
        problems.print_problems(loaded.problems, loaded.text, self.screen)
        verdict = Styled("cannot be upgraded", "faint")
        if loaded.checked is not None:
            verdict = VERDICTS[loaded.checked.verdict]
        tally = problems.tally(loaded.problems)
        self.screen.line(Styled(loaded.name, "strong"), ": ", *tally, "; ", verdict)

    def finish(self) -> None:
        if self._format not in ("rich", "plain") and (document := self._document()):
            self.screen.stream.write(document + "\n")

    def _document(self) -> str:
        found = [each for _, of_playbook in self._checked for each in of_playbook]
        if self._format == "json":
            return problems.as_json(found)
        from noetl.cli.output import reports

        match self._format:
            case "github":
                return reports.github(found)
            case "sarif":
                return reports.sarif(found)
        return reports.junit(self._checked, self._counted)
