"""An explanation as lines: headings, tables, a tree for each step. noetl.net.describe has the wording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noetl.escape import visible
from noetl.views.explain.playbook import ExplainedArc, ExplainedPart, ExplainedTask, Explanation, TaskDetails
from noetl.views.styled_text import Styled, TreeBranch, branches, folded, table

TEXT_COLUMNS = 100  # width of an explanation that is not printed on a screen


def explanation_text(explanation: Explanation) -> str:
    """The explanation as plain text, with visible control characters."""
    lines = ("".join(visible(piece.text) for piece in line) for line in explanation_lines(explanation, TEXT_COLUMNS))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def explanation_lines(explanation: Explanation, columns: int) -> Iterator[list[Styled]]:
    head = [Styled(explanation.name or "(no name)", "strong")]
    head += [Styled(f"  {part}", "faint") for part in (explanation.path, explanation.version) if part]
    yield head
    if explanation.desc:
        yield from folded([Styled(explanation.desc)], columns)
    if explanation.inputs:
        yield from _heading("Inputs")
        rows = [(Styled(each.name), Styled(each.type, "kind"), Styled(each.default)) for each in explanation.inputs]
        yield from table(rows)
    if explanation.credentials:
        yield from _heading("Credentials")
        yield from table([(Styled(name), Styled(kind, "kind")) for name, kind in explanation.credentials])
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


def _heading(text: str) -> Iterator[list[Styled]]:
    yield []
    yield [Styled(text, "strong")]


def _part(part: ExplainedPart, columns: int) -> Iterator[list[Styled]]:
    mark = "● " if part.entry else "○ "
    line = [Styled(mark, "good" if part.entry else "faint"), Styled(part.name or "(no name)", "name")]
    if part.desc:
        line.append(Styled(f"  {part.desc}"))
    if not part.reached:
        line.append(Styled("  (unreachable)", "warning"))
    for place, pieces in enumerate(folded(line, columns - 2)):
        yield pieces if place == 0 else [Styled("│ ", "faint"), *pieces]
    yield from branches(list(_branches(part)), columns)


def _branches(part: ExplainedPart) -> Iterator[TreeBranch]:
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
        yield _fact("next", "every arc that holds (fork)" if forks else "the first arc that holds")
    for arc in part.arcs:
        yield _arc(arc)
    if part.ends:
        yield TreeBranch((Styled("the token ends here", "faint"),))


def _fact(label: str, words: str) -> TreeBranch:
    return TreeBranch((Styled(f"{label:<7}", "faint"), Styled(words)), hang=7)


def _task(task: ExplainedTask, number: str) -> TreeBranch:
    line = [Styled(number, "faint"), Styled(f"{task.name}  ", "strong"), Styled(task.kind, "kind")]
    if task.essence:
        line.append(Styled(f"  {task.essence}"))
    if task.auth:
        line.append(Styled(f"  auth {task.auth}", "faint"))
    below = [TreeBranch((Styled(task.desc, "faint"),))] if task.desc else []
    below += [_fact("input", f"{name} = {value}") for name, value in task.input]
    below += [TreeBranch((Styled(rule),)) for rule in task.rules]
    below += [_fact("set", ", ".join(task.set))] if task.set else []
    return TreeBranch(tuple(line), tuple(below))


def _arc(arc: ExplainedArc) -> TreeBranch:
    line = [Styled(arc.to, "error" if arc.missing else "name")]
    marks = {"failure": "  on failure", "both": "  also on failure", "success": ""}[arc.carries]
    if marks:
        line.append(Styled(marks, "error" if arc.carries == "failure" else "warning"))
    if arc.when is not None:
        line += [Styled("  when ", "faint"), Styled(arc.when)]
    if arc.set:
        line += [Styled("  sets ", "faint"), Styled(", ".join(arc.set))]
    if arc.back:
        line.append(Styled("  ↺ leads back", "info"))
    if arc.missing:
        line.append(Styled("  no such step", "error"))
    if arc.dead:
        line.append(Styled("  never fires", "warning"))
    return TreeBranch(tuple(line), arrow=True)


def task_lines(sheet: TaskDetails, columns: int) -> Iterator[list[Styled]]:
    task = sheet.task
    yield [Styled(f"{sheet.owner}.{task.name}", "strong"), Styled(f"  {task.kind}", "kind")]
    if task.desc:
        yield from folded([Styled(task.desc)], columns)
    yield from _heading("Spec")
    rows = [(Styled(row.path), Styled(row.value), Styled(row.layer, "faint")) for row in sheet.spec]
    titles = (Styled("key", "faint"), Styled("value", "faint"), Styled("from", "faint"))
    yield from table([titles, *rows]) if rows else [[Styled("  nothing is set", "faint")]]
    if sheet.fields:
        yield from _heading("Fields")
        yield from table([(Styled(path), Styled(value)) for path, value in sheet.fields])
    yield from _heading("Rules")
    yield from _listed(task.rules or ("ok continues, an error fails",), columns)
    for title, paths in (("Reads", sheet.reads), ("Writes", sheet.writes)):
        if paths:
            yield from _heading(title)
            yield from _listed((", ".join(paths),), columns)


def _listed(lines: Sequence[str], columns: int) -> Iterator[list[Styled]]:
    for line in lines:
        for place, pieces in enumerate(folded([Styled(line)], columns - 4)):
            yield [Styled("    " if place else "  "), *pieces]
