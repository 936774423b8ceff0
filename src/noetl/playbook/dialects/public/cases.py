"""`case` blocks: branches that route, retry, set values or call tools (§4)."""

from __future__ import annotations

import re
from typing import NamedTuple

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.scalars import TextEdit, replace
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, Node, item, leaves, quoted, rename, table
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.public.book import PAGES, Book, discard, move, new, scalar, text_of
from noetl.playbook.dialects.public.guards import inner_of
from noetl.playbook.dialects.public.outcomes import as_pipeline, pass_on, point, read_elsewhere
from noetl.playbook.dialects.public.retries import add_rule, retry_action
from noetl.playbook.dialects.public.routes import Branch, targets, write_branches
from noetl.playbook.dialects.public.saves import fill, is_recorded
from noetl.playbook.dialects.template_tokens import parse

_OWN = ("response", "result", "this")
_REFUSED = {
    "collect": PAGES,
    "call": PAGES,
    "pipe": "write the tasks as a list under `tool`, with rules under `spec.policy.rules`",
    "catch": "write an arc with the guard `{{ event.name == 'step.failed' }}`",
    "finally": "write a step that all arcs lead to",
}


_FAILED = re.compile(r"(?<![\w.])error(?: is defined|\.\w)")


class _Actions(NamedTuple):
    arcs: list[Map]
    writes: list[LayoutEntry]
    retries: list[LayoutEntry]
    tools: list[LayoutEntry]


def case_blocks(book: Book) -> None:
    """The branches of `case` become arcs, rules and steps."""
    for step in book.steps:
        case = step.body.entry("case")
        if case is not None:
            _case(book, step, case)
        else:
            _drop_modes(book, step)


def event_names(book: Book) -> None:
    """Guards of arcs that read the events of the public engine."""
    for step in book.owners:
        for arc in parts.arcs(step.body):
            when = arc.entry("when")
            if when is not None and isinstance(when.value, Leaf) and "event" in when.value.text:
                _events(book, step, when)


def _case(book: Book, step: StepPart, case: LayoutEntry) -> None:
    items = [case.value] if isinstance(case.value, Map) else parts.maps(case.value)
    if not items:
        book.refuse(case.start, "`case` must be a list of branches", "write guards on `next.arcs`")
        return
    spec = step.body.map("spec")
    mode = spec.entry("case_mode") if spec is not None else None
    exclusive = mode is None or text_of(mode.value) != "inclusive"
    _drop_modes(book, step)
    branches: list[Branch] = []
    count = len(book.findings.problems)
    for body in items:
        branch = _branch(book, step, body)
        if branch is not None:
            branches.append(branch)
        otherwise = body.entry("else")
        if otherwise is not None:
            branches.append(Branch(None, targets(book, otherwise.value, otherwise.start), True))
    if len(book.findings.problems) > count:
        return
    tasks = parts.tasks(step.body)
    if step.body.get("loop") is not None and len(tasks) > 1 and tasks[0].name:
        pass_on(book, step, tasks[0].name, tasks[0].kind or "")
    following = step.body.entry("next")
    if following is not None:
        rest = targets(
            book,
            following.value.get("arcs")
            if isinstance(following.value, Map) and following.value.get("arcs")
            else following.value,
            following.start,
        )
        plain_arcs = [arc for arc in rest if arc.get("when") is None]
        branches += [Branch(arc.entry("when"), [arc]) for arc in rest if arc.get("when") is not None]
        if plain_arcs:
            branches.append(Branch(None, plain_arcs, True))
        step.body.entries.remove(case)
        following.lead = [*case.lead, *following.lead]
    else:
        rename(case, "next")
        following = case
    if any(branch.arcs for branch in branches):
        write_branches(book, following, branches, exclusive=exclusive, first=book.local)
    else:
        discard(step.body, following)
    book.changed()


def _drop_modes(book: Book, step: StepPart) -> None:
    spec = step.body.map("spec")
    for key in ("case_mode", "eval_mode"):
        entry = spec.entry(key) if spec is not None else None
        if spec is not None and entry is not None:
            discard(spec, entry)
            book.changed()
    holder = step.body.entry("spec")
    if spec is not None and not spec.entries and holder is not None:
        discard(step.body, holder)


def _branch(book: Book, step: StepPart, body: Map) -> Branch | None:
    when = body.entry("when")
    then = body.entry("then")
    if when is None or then is None:
        if body.get("step") is not None:
            return Branch(when, [body])
        if body.get("else") is None:
            book.refuse(body.start, "this branch of `case` has no `when` or no `then`", "write a guard on `next.arcs`")
        return None
    if not isinstance(when.value, Leaf):
        book.refuse(when.start, "the condition of this branch is not a template", 'write it as `"{{ … }}"`')
        return None
    actions = _actions(book, step, then.value)
    if actions is not None and actions.tools and step.body.get("loop") is not None:
        _iteration_tools(book, step, when, actions)
        if not actions.arcs:
            return None
    _events(book, step, when)
    if actions is None:
        return None
    for entry in actions.retries:
        _retry(book, step, when, entry)
    if actions.tools and step.body.get("loop") is None and not _tools(book, step, when, actions):
        return None
    if actions.writes:
        _writes(book, step, when, actions)
    return Branch(when, actions.arcs) if actions.arcs else None


def _actions(book: Book, step: StepPart, then: Node) -> _Actions | None:
    made = _Actions([], [], [], [])
    bodies = [then] if isinstance(then, Map | Leaf) else [each.value for each in then.entries]
    refused = False
    for body in bodies:
        if isinstance(body, Leaf):
            made.arcs.extend(targets(book, body, body.start))
            continue
        if not isinstance(body, Map):
            continue
        if body.get("step") is not None:
            made.arcs.append(body)
            continue
        for entry in body.entries:
            if entry.name == "next":
                made.arcs.extend(targets(book, entry.value, entry.start))
            elif entry.name in ("set", "vars", "set_ctx"):
                made.writes.append(entry)
            elif entry.name == "retry":
                made.retries.append(entry)
            elif entry.name == "log" and isinstance(entry.value, Leaf):
                book.note(entry.start, "dropped", "the event log contains the result anyway; `log` was removed")
            elif entry.name == "result":
                refused = not _result(book, step, entry) or refused
            elif entry.name in _REFUSED or not isinstance(entry.value, Map):
                refused = True
                fix = _REFUSED.get(entry.name, "write an arc, a rule or a step for it")
                book.refuse(entry.start, f"`{entry.name}` in a branch of `case` has no replacement", fix)
            elif _stores(entry):
                refused = not _stored(book, entry, made.tools) or refused
            else:
                made.tools.append(entry)
    return None if refused else made


def _stores(entry: LayoutEntry) -> bool:
    """Is it a `sink` or `save`, or a tool with a table instead of a statement?"""
    assert isinstance(entry.value, Map)
    tool = entry.value.map("tool") or entry.value
    if tool.text("kind") not in (None, "postgres", "duckdb", "http", "python", "event", "event_log"):
        return False  # a tool like any other
    bare = all(tool.get(key) is None for key in ("query", "command", "commands", "statement"))
    return entry.name in ("sink", "save") or (tool.get("table") is not None and bare)


def _stored(book: Book, entry: LayoutEntry, tools: list[LayoutEntry]) -> bool:
    """A branch that stores the result: its task is a tool of the branch. False: refused."""
    assert isinstance(entry.value, Map)
    if is_recorded(entry.value):
        book.note(entry.start, "dropped", f"the event log contains the result anyway; `{entry.name}` was removed")
        return True
    task = Map(start=entry.start)
    if not fill(book, task, entry.value, entry):
        return False
    task.entries = [each for each in task.entries if each.name != "name"]
    tools.append(new(entry.name, Map(entries=[new("tool", task, entry.start)]), entry.start))
    return True


def _result(book: Book, step: StepPart, entry: LayoutEntry) -> bool:
    """`result: {from: response}` is the result that the step has anyway; False: refused."""
    source = entry.value.text("from") if isinstance(entry.value, Map) else text_of(entry.value)
    if source is not None and source.strip("{} ") in ("response", "result", "this"):
        book.changed()
        return True
    if read_elsewhere(book, step.name):
        message = "`result` in a branch of `case` replaces the result of the step, which other steps read"
        book.refuse(entry.start, message, "add a last task to the pipeline: `{kind: noop, input: {…}}`")
        return False
    book.note(entry.start, "dropped", "no other step reads the result of this one, so `result` was removed")
    return True


def _events(book: Book, step: StepPart, when: LayoutEntry) -> None:
    """The event names of a guard."""
    leaf = when.value
    assert isinstance(leaf, Leaf)
    parsed = parse(leaf.text)
    looped = step.body.get("loop") is not None
    failed = _FAILED.search(leaf.text) is not None  # early engines sent `call.done` with an error, too
    edits: list[TextEdit] = []
    for index, token in enumerate(parsed.tokens if parsed is not None else []):
        word = token.text[1:-1] if token.type == "string" else ""
        if word == "step.enter":
            message = "a step cannot be left before it has run"
            book.refuse(when.start, message, "write an admission rule, or a step before it")
        elif word in ("call.done", "step.exit", "call.error"):
            made = (
                "step.failed"
                if word == "call.error" or (failed and word == "call.done")
                else "loop.done"
                if looped
                else "step.done"
            )
            edits.append(TextEdit(token.start + 1, token.end - 1, made))
            before = parsed.tokens[index - 1] if parsed is not None and index else None
            if word == "step.exit" and book.exact and before is not None and before.text == "==":
                edits[-1] = TextEdit(before.start, token.end, f"in ['{made}', 'step.failed']")
            elif word == "step.exit":
                book.findings.note(
                    when.start,
                    "arc-on-failure",
                    "`step.exit` was also true after a failure; the arc is taken after success",
                )
            if looped and word == "call.done":
                book.note(
                    when.start,
                    "per-iteration",
                    "`call.done` was true once for each iteration; the arc is taken after the loop",
                )
    if edits:
        made_leaf = replace(leaf, edits)
        leaf.raw, leaf.text, leaf.style = made_leaf.raw, made_leaf.text, made_leaf.style
        book.changed()


def _retry(book: Book, step: StepPart, when: LayoutEntry, entry: LayoutEntry) -> None:
    """`then.retry` becomes a rule of the task."""
    tasks = parts.tasks(step.body)
    condition = inner_of(text_of(when.value))
    if not tasks or condition is None or not isinstance(entry.value, Map):
        book.refuse(entry.start, "this retry has no task", "write a rule with `do: retry` on the task")
        return
    if entry.value.get("params") is not None or entry.value.get("url") is not None or entry.value.get("next_call"):
        book.refuse(entry.start, "this retry changes the request, which reads pages", PAGES)
        return
    condition = _without_event(condition)
    add_rule(book, tasks[-1].body, condition, retry_action(book, entry.value), entry.start)


def _without_event(condition: str) -> str:
    """A rule has no event: `event.name == 'step.failed'` is `output.status == 'error'`."""
    condition = condition.replace("event.name == 'step.failed'", "output.status == 'error'")
    condition = condition.replace('event.name == "step.failed"', "output.status == 'error'")
    for word in ("step.done", "loop.done"):
        for quote in ("'", '"'):
            condition = condition.replace(f"event.name == {quote}{word}{quote}", "output.status == 'ok'")
    return condition


def _writes(book: Book, step: StepPart, when: LayoutEntry, actions: _Actions) -> None:
    """`set` and `vars` of a branch are written by its arcs; without arcs, by a rule."""
    entries: list[LayoutEntry] = []
    for write in actions.writes:
        found = _assignments(write)
        if found is None:
            book.refuse(
                write.start, f"`{write.name}` of a branch must be a mapping", "write `set: {ctx.<name>: …}` on the arc"
            )
            return
        entries += found
    for entry in entries:
        if entry.key is not None and not entry.name.startswith(("ctx.", "iter.", "step.")):
            rename(entry, f"ctx.{entry.name}")
    if actions.arcs:
        for index, arc in enumerate(actions.arcs):
            copies = entries if index == 0 else []
            if copies:
                arc.entries.append(new("set", Map(entries=copies), when.start))
        return
    condition = inner_of(text_of(when.value))
    tasks = parts.tasks(step.body)
    if condition is None or not tasks:
        book.refuse(
            when.start, "this branch only sets values, but no task has a rule for it", "write `set` on the step"
        )
        return
    add_rule(
        book,
        tasks[-1].body,
        _without_event(condition),
        Map(entries=[new("do", scalar("continue"), when.start), new("set", Map(entries=entries), when.start)]),
        when.start,
    )


def _assignments(entry: LayoutEntry) -> list[LayoutEntry] | None:
    """The values that `set` or `vars` writes: a mapping, or a list of `{name, value}`; None: another form."""
    if isinstance(entry.value, Map):
        return list(entry.value.entries)
    if not isinstance(entry.value, List):
        return None
    made: list[LayoutEntry] = []
    for each in entry.value.entries:
        body = each.value if isinstance(each.value, Map) else Map()
        name, value = body.text("name"), body.entry("value")
        if name is None or value is None or len(body.entries) != 2:
            return None
        rename(value, name)
        made.append(value)
    return made


def _iteration_tools(book: Book, step: StepPart, when: LayoutEntry, actions: _Actions) -> None:
    """Tools of a branch in a loop run in each iteration: they are further tasks of its pipeline."""
    tasks = parts.tasks(step.body)
    condition = _call_done(text_of(when.value) or "")
    if not tasks or condition is None or (actions.arcs and condition) or actions.retries or actions.writes:
        message = "a tool in a branch of a looped step runs once for each iteration"
        book.refuse(actions.tools[0].start, message, "add it as a further task to the pipeline of the step")
        return
    owner = tasks[0]
    name = owner.name or "main"
    pipeline = as_pipeline(step, owner, name)
    for entry in actions.tools:
        assert isinstance(entry.value, Map)
        body = entry.value.map("tool") or entry.value
        for leaf in leaves(body):
            point(leaf, _OWN, name)
        if body.get("name") is None:
            body.entries.insert(0, new("name", scalar(entry.name), entry.start))
        if condition:
            guard = quoted(f"{{{{ {condition} }}}}")
            point(guard, _OWN, name)
            skip = Map(entries=[new("do", scalar("skip"), when.start)])
            add_rule(book, body, f"not ({guard.text[3:-3]})", skip, when.start)
        holder = item(body)
        holder.start = entry.start
        pipeline.entries.append(holder)
        book.note(entry.start, "step-made", f'the tool "{entry.name}" of a branch is now a task of each iteration')


def _call_done(text: str) -> str | None:
    """The condition of a branch after a call: what is left without the event; None: another event."""
    condition = inner_of(text)
    parsed = parse(f"{{{{ {condition} }}}}") if condition is not None else None
    if condition is None or parsed is None:
        return None
    left = [each.strip() for each in re.split(r"\band\b", condition)]
    if (
        not re.fullmatch(r"event\.name\s*==\s*['\"](call\.done|step\.exit)['\"]", left[0])
        or " or " in condition.split("and")[0]
    ):
        return None
    rest = [each for each in left[1:] if not re.fullmatch(r"(response|result|this) is defined", each)]
    joined = " and ".join(rest)
    return joined if "event." not in joined and joined.count("(") == joined.count(")") else None


def _tools(book: Book, step: StepPart, when: LayoutEntry, actions: _Actions) -> bool:
    """Tools of a branch become steps between this one and the targets of the branch."""
    workflow = book.root.get("workflow")
    assert isinstance(workflow, List)
    position = next(index for index, each in enumerate(workflow.entries) if each.value is step.body)
    names = book.step_names
    made: list[tuple[str, Map]] = []
    made_name = step.name.replace("-", "_")
    reads_error = False
    for entry in actions.tools:
        name = f"{step.name}_{entry.name}"
        while name in names:
            name += "_2"
        names.add(name)
        body = Map(entries=[new("step", scalar(name), entry.start)], start=entry.start)
        assert isinstance(entry.value, Map)
        tool = entry.value
        for leaf in leaves(tool) if step.name.isidentifier() else ():
            point(leaf, _OWN, step.name)  # the result of the step that had the branch
            reads_error = _read_error(leaf, f"ctx.{made_name}_error") or reads_error
        if tool.get("tool") is not None:
            for each in list(tool.entries):
                move(each, tool, body)
        else:
            body.entries.append(new("tool", tool, entry.start))
        made.append((name, body))
        message = f'the tool "{entry.name}" of a branch is now the step "{name}"'
        book.note(entry.start, "step-made", message)
    for index, (_, body) in enumerate(made):
        following = (
            [Map(entries=[new("step", quoted(made[index + 1][0]), body.start)])]
            if index + 1 < len(made)
            else actions.arcs
        )
        if following:
            body.entries.append(new("next", table(arcs=List(entries=[item(arc) for arc in following])), body.start))
        holder = item(body)
        holder.start = body.start
        workflow.entries.insert(position + 1 + index, holder)
    arc = Map(entries=[new("step", scalar(made[0][0]), when.start)], start=when.start)
    if reads_error:
        value = quoted("{{ output.error.message | default(none) }}")
        arc.entries.append(new("set", Map(entries=[new(f"ctx.{made_name}_error", value, when.start)]), when.start))
    actions.arcs[:] = [arc]
    return True


def _read_error(leaf: Leaf, name: str) -> bool:
    """`event.error` exists on arcs only: the tool of a branch reads what the arc stores."""
    parsed = parse(leaf.text)
    edits = [
        TextEdit(reading.start, reading.parts[0].end, name)
        for reading in (parsed.readings if parsed is not None else [])
        if reading.path[:2] == ("event", "error")
    ]
    if edits:
        made = replace(leaf, edits)
        leaf.raw, leaf.text, leaf.style = made.raw, made.text, made.style
    return bool(edits)
