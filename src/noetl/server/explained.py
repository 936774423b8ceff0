"""An explanation as plain text, for whoever reads it in an answer. The words are noetl.net's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noetl.net.explain import ExplainedArc, ExplainedPart, ExplainedTask, Explanation

_CARRIES = {"failure": "on failure", "both": "also on failure", "success": ""}


def as_text(explanation: Explanation) -> str:
    return "".join(f"{line.rstrip()}\n" for line in _told(explanation))


def _told(explanation: Explanation) -> Iterator[str]:
    named = (explanation.name or "(no name)", explanation.path, explanation.version)
    yield "  ".join(filter(None, named))
    if explanation.desc:
        yield explanation.desc
    if explanation.inputs:
        yield from ("", "Inputs")
        yield from _indented(f"{each.name}  {each.type}  {each.default}" for each in explanation.inputs)
    if explanation.credentials:
        yield from ("", "Credentials")
        yield from _indented(f"{name}  {kind}" for name, kind in explanation.credentials)
    for title, parts in (("Steps", explanation.steps), ("Blocks", explanation.blocks)):
        if parts:
            yield from ("", title)
        for number, part in enumerate(parts):
            yield from ([""] if number else [])
            yield from _part(part)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _part(part: ExplainedPart) -> Iterator[str]:
    head = f"{'●' if part.entry else '○'} {part.name or '(no name)'}"
    unreached = "" if part.reached else "  (nothing leads here)"
    yield f"{head}{'  ' + part.desc if part.desc else ''}{unreached}"
    yield from _indented(_facts(part))


def _facts(part: ExplainedPart) -> Iterator[str]:
    if part.join is not None:
        yield f"join    {part.join}"
    yield from (f"token   {words}" for words in part.admission)
    yield from (f"input   {name} = {value}" for name, value in part.input)
    yield from (f"loop    {words}" for words in part.loops)
    yield from (f"policy  {words}" for words in part.policy)
    for number, task in enumerate(part.tasks, 1):
        yield from _task(task, f"{number} " if len(part.tasks) > 1 else "")
    for label, paths in (("set", part.set), ("reads", part.reads), ("writes", part.writes)):
        if paths:
            yield f"{label:<7} {', '.join(paths)}"
    if len(part.arcs) > 1:
        forks = part.mode == "inclusive"
        yield f"next    {'every arc that holds: a fork' if forks else 'the first arc that holds'}"
    yield from map(_arc, part.arcs)
    if part.ends:
        yield "the token ends here"


def _task(task: ExplainedTask, number: str) -> Iterator[str]:
    essence = f"  {task.essence}" if task.essence else ""
    auth = f"  auth {task.auth}" if task.auth else ""
    yield f"{number}{task.name}  {task.kind}{essence}{auth}"
    below = [task.desc] if task.desc else []
    below += [f"input   {name} = {value}" for name, value in task.input]
    below += [*task.rules, *([f"set     {', '.join(task.set)}"] if task.set else [])]
    yield from _indented(below)


def _arc(arc: ExplainedArc) -> str:
    marks = [
        _CARRIES[arc.carries],
        f"when {arc.when}" if arc.when is not None else "",
        f"sets {', '.join(arc.set)}" if arc.set else "",
        "↺ leads back" if arc.back else "",
        "no such step" if arc.missing else "",
        "never fires" if arc.dead else "",
    ]
    return "  ".join([f"→ {arc.to}", *filter(None, marks)])
