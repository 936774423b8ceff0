"""`noetl migrate --report FOLDER`: how many playbooks of a folder can be migrated, and what prevents the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from noetl.errors import PlaybookError, Problem
from noetl.playbook.dialects.notes import NOTES

if TYPE_CHECKING:
    from noetl.playbook.kinds import Kinds

FileState = Literal["migrated", "with notes", "by hand", "refused"]

_MEANINGS: dict[FileState, str] = {
    "migrated": "pass the check, without notes",
    "with notes": "pass the check, with notes about differences in meaning",
    "by hand": "the result has problems that need a change by hand",
    "refused": "a part has no counterpart",
}
SHOWN_MAX = 5  # positions of one cause
_QUOTED = re.compile(r'"[^"]*"')


class ReportedFile(NamedTuple):
    """The result of one file."""

    name: str
    state: FileState
    notes: tuple[str, ...] = ()  # the codes
    problems: tuple[Problem, ...] = ()


def report_file(name: str, text: str, kinds: Kinds) -> ReportedFile:
    """Migrate one text in memory, and check the result."""
    from noetl.playbook.migrate import migrate
    from noetl.session.sources import remaining_problems

    try:
        migration = migrate(text, name)
    except PlaybookError as error:
        return ReportedFile(name, "refused", (), tuple(error.problems))
    notes = tuple(dict.fromkeys(note.code for note in migration.notes))
    left = remaining_problems(migration, name, kinds)
    if left:
        return ReportedFile(name, "by hand", notes, tuple(left))
    return ReportedFile(name, "with notes" if notes else "migrated", notes)


def report_lines(files: list[ReportedFile]) -> list[str]:
    """The table of a folder: states, causes with an example and a way out, notes."""
    lines = [f"{len(files)} playbooks"]
    for state, meaning in _MEANINGS.items():
        count = sum(file.state == state for file in files)
        lines.append(f"  {count:5}  {state:<10}  {meaning}")
    for state in ("refused", "by hand"):
        found = _causes([file for file in files if file.state == state])
        if found:
            lines += ["", f"{state}, by cause:"]
        for cause, problems in found:
            first = problems[0]
            lines.append(f"  {len(problems):5}  {cause}")
            lines.append(f"         {first.at}: {first.message}")
            if first.fix:
                lines.append(f"         fix: {first.fix.splitlines()[0]}")
            lines += [f"         also {each.at}" for each in problems[1:SHOWN_MAX]]
            if len(problems) > SHOWN_MAX:
                lines.append(f"         and {len(problems) - SHOWN_MAX} more")
    codes: dict[str, int] = {}
    for file in files:
        for code in file.notes:
            codes[code] = codes.get(code, 0) + 1
    if codes:
        lines += ["", "notes, by the number of playbooks:"]
        width = max(map(len, codes))
        ordered = sorted(codes.items(), key=lambda each: (-each[1], each[0]))
        lines += [f"  {count:5}  {code:<{width}}  {NOTES[code]}" for code, count in ordered]
    return lines


def _causes(files: list[ReportedFile]) -> list[tuple[str, list[Problem]]]:
    """The causes with the first problem of each playbook that has it, the most frequent first."""
    found: dict[str, list[Problem]] = {}
    for file in files:
        own: dict[str, Problem] = {}
        for problem in file.problems:
            own.setdefault(f"{problem.code}: {_QUOTED.sub('…', problem.message)}", problem)
        for cause, problem in own.items():
            found.setdefault(cause, []).append(problem)
    return sorted(found.items(), key=lambda each: (-len(each[1]), each[0]))
