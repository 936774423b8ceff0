"""An explanation as lines: headings, tables, a tree for each step. The words are noetl.net's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noetl.net.explain import ExplainedArc, ExplainedPart, ExplainedTask, Explanation
from noetl.net.sheet import TaskSheet
from noetl.net.visible import visible
from noetl.views.tree import Branch, Piece, branches, folded, table

TEXT_COLUMNS = 100  # of an explanation that is no screen's


def as_text(explanation: Explanation) -> str:
    """The same for whoever reads it elsewhere; control characters in it are made visible."""
    lines = ("".join(visible(piece.text) for piece in line) for line in told(explanation, TEXT_COLUMNS))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def told(explanation: Explanation, columns: int) -> Iterator[list[Piece]]:
    head = [Piece(explanation.name or "(no name)", "strong")]
    head += [Piece(f"  {part}", "faint") for part in (explanation.path, explanation.version) if part]
    yield head
    if explanation.desc:
        yield from folded([Piece(explanation.desc)], columns)
    if explanation.inputs:
        yield from _heading("Inputs")
        rows = [
            (Piece(each.name), Piece(each.type, "kind"), Piece(each.default)) for each in explanation.inputs
        ]
        yield from table(rows)
    if explanation.credentials:
        yield from _heading("Credentials")
        yield from table([(Piece(name), Piece(kind, "kind")) for name, kind in explanation.credentials])
    yield from _heading("Steps")
    for number, part in enumerate(explanation.steps):
        if number:
            yield []
        yield from _part(part, columns)
    if explanation.blocks:
        yield from _heading("Blocks")
    for number, part in enumerate(explanation.blocks):
        if number:
            yield []
        yield from _part(part, columns)


def _heading(text: str) -> Iterator[list[Piece]]:
    yield []
    yield [Piece(text, "strong")]


def _part(part: ExplainedPart, columns: int) -> Iterator[list[Piece]]:
    mark = "● " if part.entry else "○ "
    line = [Piece(mark, "good" if part.entry else "faint"), Piece(part.name or "(no name)", "name")]
    if part.desc:
        line.append(Piece(f"  {part.desc}"))
    if not part.reached:
        line.append(Piece("  (nothing leads here)", "warning"))
    for place, pieces in enumerate(folded(line, columns - 2)):
        yield pieces if place == 0 else [Piece("│ ", "faint"), *pieces]
    yield from branches(list(_branches(part)), columns)


def _branches(part: ExplainedPart) -> Iterator[Branch]:
    if part.join is not None:
        yield _fact("join", part.join)
    for words in part.admission:
        yield _fact("token", words)
    for name, value in part.input:
        yield _fact("input", f"{name} = {value}")
    for words in part.loops:
        yield _fact("loop", words)
    for words in part.policy:
        yield _fact("policy", words)
    for number, task in enumerate(part.tasks, 1):
        yield _task(task, f"{number} " if len(part.tasks) > 1 else "")
    if part.set:
        yield _fact("set", ", ".join(part.set))
    if part.reads:
        yield _fact("reads", ", ".join(part.reads))
    if part.writes:
        yield _fact("writes", ", ".join(part.writes))
    if len(part.arcs) > 1:
        forks = part.mode == "inclusive"
        yield _fact("next", "every arc that holds: a fork" if forks else "the first arc that holds")
    for arc in part.arcs:
        yield _arc(arc)
    if part.ends:
        yield Branch((Piece("the token ends here", "faint"),))


def _fact(label: str, words: str) -> Branch:
    return Branch((Piece(f"{label:<7}", "faint"), Piece(words)), hang=7)


def _task(task: ExplainedTask, number: str) -> Branch:
    line = [Piece(number, "faint"), Piece(f"{task.name}  ", "strong"), Piece(task.kind, "kind")]
    if task.essence:
        line.append(Piece(f"  {task.essence}"))
    if task.auth:
        line.append(Piece(f"  auth {task.auth}", "faint"))
    below = [Branch((Piece(task.desc, "faint"),))] if task.desc else []
    below += [_fact("input", f"{name} = {value}") for name, value in task.input]
    below += [Branch((Piece(rule),)) for rule in task.rules]
    below += [_fact("set", ", ".join(task.set))] if task.set else []
    return Branch(tuple(line), tuple(below))


def _arc(arc: ExplainedArc) -> Branch:
    line = [Piece(arc.to, "error" if arc.missing else "name")]
    marks = {"failure": "  on failure", "both": "  also on failure", "success": ""}[arc.carries]
    if marks:
        line.append(Piece(marks, "error" if arc.carries == "failure" else "warning"))
    if arc.when is not None:
        line += [Piece("  when ", "faint"), Piece(arc.when)]
    if arc.set:
        line += [Piece("  sets ", "faint"), Piece(", ".join(arc.set))]
    if arc.back:
        line.append(Piece("  ↺ leads back", "info"))
    if arc.missing:
        line.append(Piece("  no such step", "error"))
    if arc.dead:
        line.append(Piece("  never fires", "warning"))
    return Branch(tuple(line), arrow=True)


def told_task(sheet: TaskSheet, columns: int) -> Iterator[list[Piece]]:
    task = sheet.task
    yield [Piece(f"{sheet.owner}.{task.name}", "strong"), Piece(f"  {task.kind}", "kind")]
    if task.desc:
        yield from folded([Piece(task.desc)], columns)
    yield from _heading("Spec")
    rows = [(Piece(row.path), Piece(row.value), Piece(row.layer, "faint")) for row in sheet.spec]
    titles = (Piece("key", "faint"), Piece("value", "faint"), Piece("from", "faint"))
    yield from table([titles, *rows]) if rows else [[Piece("  nothing is set", "faint")]]
    if sheet.fields:
        yield from _heading("Fields")
        yield from table([(Piece(path), Piece(value)) for path, value in sheet.fields])
    yield from _heading("Rules")
    yield from _listed(task.rules or ("ok continues, an error fails",), columns)
    for title, paths in (("Reads", sheet.reads), ("Writes", sheet.writes)):
        if paths:
            yield from _heading(title)
            yield from _listed((", ".join(paths),), columns)


def _listed(lines: Sequence[str], columns: int) -> Iterator[list[Piece]]:
    for line in lines:
        for place, pieces in enumerate(folded([Piece(line)], columns - 4)):
            yield [Piece("    " if place else "  "), *pieces]
