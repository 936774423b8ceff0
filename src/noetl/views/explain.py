"""An explanation of a playbook: its steps in order, and all details of one task; as data and as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct, UnsetType, structs

from noetl.escape import one_line, shorten, visible
from noetl.net import describe
from noetl.net.graph import Carries, carries, live_arcs, steps_in_order, steps_reached
from noetl.net.program import CompiledArc, CompiledStep, Program, TemplateUse
from noetl.net.scopes import task_writes
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import END, NOTIFY, Block, Notification, Pipeline, Step, Task
from noetl.playbook.source import Path
from noetl.playbook.spec import effective_spec
from noetl.views.styled_text import Styled, TreeBranch, branches, folded, table

if TYPE_CHECKING:
    from noetl.net.inputs import CompiledInput


class SpecRow(Struct, frozen=True, kw_only=True):
    path: str  # "timeout.connect"
    value: str
    layer: str  # the layer of the value: "kind defaults", "step.spec", …


class TaskDetails(Struct, frozen=True, kw_only=True):
    owner: str
    task: ExplainedTask
    spec: tuple[SpecRow, ...]
    fields: tuple[tuple[str, str], ...]  # the tool's own fields and its input, as dotted paths
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class NoSuchTask(Exception):
    """The message lists the existing tasks."""


def find_task(program: Program, name: str) -> tuple[Pipeline, Task]:
    """`step.task`, or the name of a step or block with only one task. Raises NoSuchTask."""
    owners: dict[str, Pipeline] = {
        **{block.name: block for block in program.playbook.blocks},
        **{name: step.source for name, step in program.steps.items()},
    }
    owner_name, _, task_name = name.partition(".")
    owner = owners.get(owner_name)
    if owner is None:
        raise NoSuchTask(f'no step "{owner_name}"; there are {", ".join(map(one_line, owners))}')
    if not owner.tasks:
        raise NoSuchTask(f'step "{owner_name}" has no tasks')
    if not task_name and len(owner.tasks) == 1:
        return owner, owner.tasks[0]
    tasks = [task for task in owner.tasks if task.form != "jump"]
    found = next((task for task in tasks if task.name == task_name), None)
    if found is None:
        known = ", ".join(f"{owner_name}.{one_line(task.name)}" for task in tasks)
        what = f'has no task "{task_name}"' if task_name else "has several tasks"
        raise NoSuchTask(f'"{owner_name}" {what}; there are {known}')
    return owner, found


def task_details(program: Program, kinds: Kinds, owner: Pipeline, task: Task) -> TaskDetails:
    spec = effective_spec(program.playbook, owner, task, kinds)
    values = dict(_leaves(spec.values))
    writes = [*task.set, *(target for rule in (task.policy.rules if task.policy else ()) for target in rule.set)]
    return TaskDetails(
        owner=one_line(owner.name),
        task=explain_task(task, kinds, spec.values.get("retry")),
        spec=tuple(
            SpecRow(path=one_line(path), value=describe.value(values.get(path)), layer=layer)
            for path, layer in sorted(spec.origin.items())
        ),
        fields=tuple((one_line(path), describe.value(data)) for path, data in _leaves({**task.fields, **task.input})),
        reads=paths_read(use for use in program.templates if use.task is not None and use.task.at == task.at),
        writes=tuple(one_line(target) for target in dict.fromkeys(writes)),
    )


def _leaves(values: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    if isinstance(values, dict) and (values or not path):
        for key, value in values.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, values


ESSENCE_MAX = 120  # characters of a task's essential field that are displayed
_SHARED = frozenset({"workload", "ctx", "saved", "keychain", "execution_id"})  # scopes outside the step
_JOINS = {
    "all": "fires once, with all waiting tokens, when no other token can still reach it",
    "each": "each token makes a run of its own",
}
_ESSENTIAL = ("url", "query", "command", "code", "script", "sh", "argv", "block", "path", "document", "ref", "name")


class Input(Struct, frozen=True, kw_only=True):
    """A key of the workload and its default."""

    name: str
    type: str
    default: str  # of a declared input without a default: "required" or "null"
    required: bool = False  # a request must give a value
    limits: tuple[str, ...] = ()  # of a declared input: "at least 1", "one of …"
    desc: str | None = None
    secret: bool = False  # a request gives it under `secrets`, and tasks read it as keychain.<name>


class ExplainedTask(Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    desc: str | None
    essence: str | None  # the most important field: method and URL, the first line of SQL
    auth: str | None
    input: tuple[tuple[str, str], ...]  # the author's own arguments
    set: tuple[str, ...]
    rules: tuple[str, ...]
    retry: str | None = None  # how often a call that fails is repeated; None: it is not
    branches: tuple[ExplainedBranch, ...] = ()  # of a choose, or the one of a loop


class ExplainedBranch(Struct, frozen=True, kw_only=True):
    when: str  # "when ctx.n > 1", "else", "while step.more"
    tasks: tuple[ExplainedTask, ...]


class ExplainedArc(Struct, frozen=True, kw_only=True):
    to: str
    when: str | None  # None: every success
    carries: Carries
    back: bool  # it leads to an earlier step
    dead: bool  # it can never fire
    missing: bool  # there is no such step
    set: tuple[str, ...]


class ExplainedPart(Struct, frozen=True, kw_only=True):
    """A step, or a block of the workbook."""

    name: str
    desc: str | None
    entry: bool = False
    reached: bool = True
    join: str | None = None  # None: not declared
    admission: tuple[str, ...] = ()
    input: tuple[tuple[str, str], ...]
    loops: tuple[str, ...]
    policy: tuple[str, ...]
    tasks: tuple[ExplainedTask, ...]
    reads: tuple[str, ...]  # paths in shared scopes
    writes: tuple[str, ...]  # paths in ctx
    set: tuple[str, ...]
    set_on_failure: tuple[str, ...] = ()  # the part of `set` that is written after a failure, too
    mode: Literal["exclusive", "inclusive"] = "exclusive"
    arcs: tuple[ExplainedArc, ...] = ()
    ends: bool = False  # a step without arcs
    compensate: ExplainedPart | None = None  # what undoes a completed run of the step
    on: str | UnsetType = UNSET  # of a notification: the events that it tells


class Explanation(Struct, frozen=True, kw_only=True):
    name: str
    path: str
    version: str | None
    desc: str | None
    inputs: tuple[Input, ...]
    credentials: tuple[tuple[str, str], ...]  # name, kind
    steps: tuple[ExplainedPart, ...]
    blocks: tuple[ExplainedPart, ...]
    triggers: tuple[tuple[str, str], ...] | UnsetType = UNSET  # name, when it fires
    concurrency: str | UnsetType = UNSET  # how many executions may run at once; absent: any number
    notifications: tuple[ExplainedPart, ...] | UnsetType = UNSET


def explain(program: Program, kinds: Kinds) -> Explanation:
    playbook = program.playbook
    explainer = _Explainer(program, kinds)
    version = playbook.metadata.get("version")
    return Explanation(
        name=one_line(playbook.name),
        path=one_line(playbook.path),
        version=None if version is None else one_line(str(version)),
        desc=_text(playbook.metadata.get("description")),
        inputs=_inputs(program),
        credentials=tuple((one_line(each.name), one_line(each.kind)) for each in playbook.keychain),
        steps=tuple(explainer.step(program.steps[name]) for name in explainer.place),
        blocks=tuple(explainer.part(each) for each in playbook.blocks),
        triggers=tuple((each.name, one_line(each.schedule)) for each in playbook.triggers) or UNSET,
        concurrency=describe.concurrency(limit) if (limit := playbook.executor.policy.get("concurrency")) else UNSET,
        notifications=tuple(map(explainer.notification, playbook.notifications)) or UNSET,
    )


def _inputs(program: Program) -> tuple[Input, ...]:
    playbook = program.playbook
    if program.inputs is not None:
        return tuple(_input(each) for each in program.inputs.fields.values())
    return tuple(
        Input(name=one_line(key), type=describe.type_of(each), default=describe.value(each))
        for key, each in playbook.workload.items()
    )


def _input(each: CompiledInput) -> Input:
    without = "required" if each.required else "null"
    return Input(
        name=one_line(each.field.name),
        type=each.field.type if each.field.items is None else f"list of {each.field.items.type}",
        default=without if each.default is UNSET else describe.value(each.default),
        required=each.required,
        limits=(*(("secret",) if each.field.secret else ()), *describe.limits(each.field)),
        secret=each.field.secret,
        desc=_text(each.field.desc),
    )


class _Explainer:
    def __init__(self, program: Program, kinds: Kinds) -> None:
        self.program = program
        self.kinds = kinds
        self.place = {name: index for index, name in enumerate(steps_in_order(program).names)}
        self.reached = steps_reached(program)
        self.uses: dict[Path, list[TemplateUse]] = {}
        for use in program.templates:
            self.uses.setdefault(use.owner.at, []).append(use)

    def step(self, each: CompiledStep) -> ExplainedPart:
        live = {id(arc) for arc in live_arcs(each)}
        return structs.replace(
            self.part(each.source),
            entry=each.source.name == self.program.playbook.entry,
            reached=each.source.name in self.reached,
            join=None if each.source.join is None else _JOINS[each.source.join],
            admission=tuple(describe.admission(each.source.admit or ())),
            mode=each.source.mode,
            ends=not each.arcs,
            arcs=tuple(self._arc(arc, each, dead=id(arc) not in live) for arc in each.arcs),
            compensate=None if each.source.compensate is None else self.part(each.source.compensate),
        )

    def notification(self, each: Notification) -> ExplainedPart:
        on = ", ".join(each.on)
        return structs.replace(
            self.part(each.block),
            name=f"{NOTIFY}[{each.at[-1]}]",
            on=on if each.when is None else f"{on}; only when {one_line(str(each.when))}",
        )

    def part(self, owner: Pipeline) -> ExplainedPart:
        written = dict.fromkeys(target for writes, _ in task_writes(owner) for target in writes)
        written |= dict.fromkeys(owner.set)
        if isinstance(owner, Step):
            written |= dict.fromkeys(target for arc in owner.arcs or () for target in arc.set)
        pipeline = self.program.pipeline(owner.name, block=isinstance(owner, Block))
        return ExplainedPart(
            name=one_line(owner.name),
            desc=_text(owner.desc),
            input=_pairs(owner.input),
            loops=tuple(describe.loop(loop) for loop in owner.loops),
            policy=tuple(describe.policy(owner)),
            tasks=self._tasks(owner.tasks, owner),
            reads=paths_read(self.uses.get(owner.at, ()), _SHARED),
            writes=tuple(sorted(one_line(target) for target in written if target.startswith("ctx."))),
            set=tuple(map(one_line, owner.set)),
            set_on_failure=tuple(one_line(write.target) for write in pipeline.failure_set),
        )

    def _tasks(self, tasks: Sequence[Task], owner: Pipeline) -> tuple[ExplainedTask, ...]:
        """The tasks as the author wrote them: those of a choose or a loop are inside it."""
        tasks = [task for task in tasks if task.form != "jump"]
        decisions = [task for task in tasks if task.form != "task"]
        outer = [task for task in tasks if not any(_is_inside(task, each.at) for each in decisions)]
        return tuple(
            self._task(task, owner)
            if task.form == "task"
            else structs.replace(self._task(task, owner), branches=tuple(self._branches(task, tasks, owner)))
            for task in outer
        )

    def _branches(self, decision: Task, tasks: Sequence[Task], owner: Pipeline) -> Iterator[ExplainedBranch]:
        for rule in decision.policy.rules if decision.policy else ():
            if rule.at == decision.at:
                continue  # it only leads on
            inside = [task for task in tasks if _is_inside(task, rule.at)]
            word = "when" if decision.form == "choose" else decision.form
            when = "else" if rule.when is None else f"{word} {describe.guard(rule.when) or 'true'}"
            yield ExplainedBranch(when=when, tasks=self._tasks(inside, owner))

    def _task(self, task: Task, owner: Pipeline) -> ExplainedTask:
        spec = effective_spec(self.program.playbook, owner, task, self.kinds)
        return explain_task(task, self.kinds, spec.values.get("retry"))

    def _arc(self, arc: CompiledArc, step: CompiledStep, *, dead: bool) -> ExplainedArc:
        targets = arc.targets or ()
        to = one_line(arc.source.step)
        if arc.source.to is not None:
            to = f"{describe.expression(arc.source.step)} (one of {', '.join(map(one_line, arc.source.to))})"
        elif arc.targets is None:
            to = f"{describe.expression(arc.source.step)} (any step)"
        here = self.place[step.name]
        return ExplainedArc(
            to=to,
            when=describe.guard(arc.source.when),
            carries=carries(arc, step),
            back=any(self.place.get(target, here + 1) <= here for target in targets),
            dead=dead,
            missing=any(target not in self.program.steps and target != END for target in targets),
            set=tuple(map(one_line, arc.source.set)),
        )


def _is_inside(task: Task, at: Path) -> bool:
    return len(task.at) > len(at) and task.at[: len(at)] == at


def explain_task(task: Task, kinds: Kinds, retry: JSON = None) -> ExplainedTask:
    """`retry`: its effective `spec.retry`; None: it has none."""
    policy = task.policy
    rules = [describe.rule(rule) for rule in (policy.rules if policy else ())]
    if otherwise := describe.unmatched(policy):
        rules.append(otherwise)
    if policy is not None and policy.limit:
        rules.append(describe.shared_limit(policy.limit, "call"))
    free = task.kind in kinds and kinds[task.kind].free_input
    repeats = task.kind in kinds and kinds[task.kind].repeats
    return ExplainedTask(
        name=one_line(task.name),
        kind=one_line(task.kind if task.form == "task" else task.form),
        desc=_text(task.desc),
        essence=_essence(task.fields if free else task.input),
        auth=None if task.auth is None else one_line(task.auth),
        input=_pairs(task.input) if free else (),
        set=tuple(map(one_line, task.set)),
        rules=tuple(rules),
        retry=describe.tries(retry) if repeats else None,
    )


def paths_read(uses: Iterable[TemplateUse], scopes: frozenset[str] | None = None) -> tuple[str, ...]:
    """The dotted paths that templates read; a path includes everything below it."""
    found = {
        tuple(map(str, read.path))
        for use in uses
        for read in use.template.reads
        if scopes is None or read.path[0] in scopes
    }
    whole = [path for path in found if not any(path[:length] in found for length in range(1, len(path)))]
    return tuple(one_line(".".join(path)) for path in sorted(whole))


def _essence(fields: dict[str, JSON]) -> str | None:
    match fields:
        case {"source": dict(source), "target": dict(target)}:
            return f"{_side(source)} → {_side(target)}"
    key = next((key for key in _ESSENTIAL if fields.get(key)), None)
    if key is None:
        return None
    data = fields[key]
    text = " ".join(map(str, data)) if isinstance(data, list) else str(data)
    lines = text.strip().splitlines() or [""]
    said = one_line(lines[0]) + (" …" if len(lines) > 1 else "")
    if key == "url":
        said = f"{one_line(str(fields.get('method', 'GET')))} {said}"
    return shorten(said, ESSENCE_MAX)


def _side(side: dict[str, JSON]) -> str:
    """One side of a `transfer`."""
    words = [side.get("kind")] + [side.get(key) for key in ("path", "table", "query", "url")]
    return shorten(" ".join(one_line(str(word)) for word in words if word), ESSENCE_MAX // 2)


def _pairs(values: dict[str, JSON]) -> tuple[tuple[str, str], ...]:
    return tuple((one_line(key), describe.value(each)) for key, each in values.items())


def _text(text: JSON) -> str | None:
    return one_line(text) if isinstance(text, str) and text.strip() else None


# An explanation as lines: headings, tables, a tree for each step. noetl.net.describe has the wording.


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
        yield from table(_input_rows(explanation.inputs))
    if explanation.credentials:
        yield from _heading("Credentials")
        yield from table([(Styled(name), Styled(kind, "kind")) for name, kind in explanation.credentials])
    if explanation.concurrency:
        yield from _heading("Executions")
        yield [Styled(f"  {explanation.concurrency}")]
    if explanation.triggers:
        yield from _heading("Triggers")
        yield from table([(Styled(name), Styled(when, "kind")) for name, when in explanation.triggers])
    told = explanation.notifications or ()
    for title, parts in (("Steps", explanation.steps), ("Blocks", explanation.blocks), ("Notifications", told)):
        if parts or title == "Steps":
            yield from _heading(title)
        for number, part in enumerate(parts):
            if number:
                yield []
            yield from _part(part, columns)


def _input_rows(inputs: Sequence[Input]) -> list[list[Styled]]:
    rows = [
        [Styled(each.name), Styled(each.type, "kind"), Styled(each.default, "warning" if each.required else "")]
        for each in inputs
    ]
    notes = ["; ".join((*each.limits, each.desc) if each.desc else each.limits) for each in inputs]
    return [[*row, Styled(note, "faint")] for row, note in zip(rows, notes, strict=True)] if any(notes) else rows


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
    if part.on is not UNSET:
        yield _fact("on", part.on)
    if part.join is not None:
        yield _fact("join", part.join)
    input = [f"{name} = {value}" for name, value in part.input]
    for label, lines in (("token", part.admission), ("input", input), ("loop", part.loops), ("policy", part.policy)):
        for words in lines:
            yield _fact(label, words)
    for number, task in enumerate(part.tasks, 1):
        yield _task(task, f"{number} " if len(part.tasks) > 1 else "")
    if part.set:
        also = f"; after a failure only {', '.join(part.set_on_failure)}" if part.set_on_failure else ""
        yield _fact("set", ", ".join(part.set) + also)
    for label, names in (("reads", part.reads), ("writes", part.writes)):
        if names:
            yield _fact(label, ", ".join(names))
    if len(part.arcs) > 1:
        forks = part.mode == "inclusive"
        yield _fact("next", "every arc whose guard is true (fork)" if forks else "the first arc whose guard is true")
    for arc in part.arcs:
        yield _arc(arc)
    if part.ends:
        yield TreeBranch((Styled("the token ends here", "faint"),))
    if part.compensate is not None:
        words = "undone by these tasks, if the execution fails later or is cancelled with --compensate"
        line = (Styled("compensate", "strong"), Styled(f"  {part.compensate.desc or words}", "faint"))
        yield TreeBranch(line, tuple(_branches(part.compensate)))


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
    below += [_fact("retry", task.retry)] if task.retry else []
    for branch in task.branches:
        several = len(branch.tasks) > 1
        inside = (_task(each, f"{place} " if several else "") for place, each in enumerate(branch.tasks, 1))
        below.append(TreeBranch((Styled(branch.when),), tuple(inside)))
    below += [] if task.branches else [TreeBranch((Styled(rule),)) for rule in task.rules]
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
    if task.retry is not None:
        yield from _heading("Retry")
        yield from _listed((task.retry,), columns)
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
