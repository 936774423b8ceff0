"""Playbook → Net: every template is compiled once, with the place it stands at; its faults are told (L4)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from noetl.net.net import Condition, Net, NetArc, NetBlock, NetGuard, NetRule, NetStep, NetTask, Spot
from noetl.net.scopes import Place
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Arc, Block, Loop, Pipeline, Playbook, Rule, Step, Task, When
from noetl.playbook.report import ProblemReport
from noetl.playbook.shapes import KeyShape, TextShape, sql_paths
from noetl.playbook.source import Path
from noetl.template.compile import BadTemplate, Template, TemplateError, compile_template
from noetl.template.values import is_template

_RETRY_KEYS = ("attempts", "delay", "max_delay")


@lru_cache(maxsize=4096)
def _compiled(source: str, statements: bool, sql: bool) -> Template | BadTemplate:
    try:
        return compile_template(source, statements=statements, sql=sql)
    except BadTemplate as error:
        return error


def compile_net(playbook: Playbook, kinds: Kinds, report: ProblemReport) -> Net:
    """Whatever can not be compiled is told; the net holds the rest."""
    return _Compiler(kinds, report).net(playbook)


class _Compiler:
    def __init__(self, kinds: Kinds, report: ProblemReport) -> None:
        self.kinds = kinds
        self.report = report
        self.spots: list[Spot] = []

    def net(self, playbook: Playbook) -> Net:
        steps = {step.name: self._step(step) for step in reversed(playbook.steps)}  # of namesakes the first
        blocks = {block.name: self._block(block) for block in playbook.blocks}
        in_order = {step.name: steps[step.name] for step in playbook.steps}
        return Net(playbook, in_order, blocks, tuple(self.spots))

    def _step(self, step: Step) -> NetStep:
        at = step.at
        self._values(step.input, "step input", (*at, "input"), step)
        admit = None
        if step.admit is not None:
            admit = tuple(
                NetGuard(guard, self._when(guard.when, "admission", (*guard.at, "when"), step, None))
                for guard in step.admit
            )
        tasks = self._pipeline(step)
        arcs = tuple(self._arc(arc, step) for arc in step.arcs or ())
        return NetStep(step, admit, tasks, arcs)

    def _block(self, block: Block) -> NetBlock:
        self._values(block.input, "step input", (*block.at, "input"), block)
        return NetBlock(block, self._pipeline(block))

    def _pipeline(self, owner: Pipeline) -> tuple[NetTask, ...]:
        for index, loop in enumerate(owner.loops):
            self._loop(loop, index, owner)
        tasks = tuple(self._task(task, owner) for task in owner.tasks)
        self._values(owner.set, "step set", (*owner.at, "set"), owner)
        return tasks

    def _loop(self, loop: Loop, index: int, owner: Pipeline) -> None:
        self._values(loop.items, "loop", (*loop.at, "in"), owner, loop=index)
        for inside in ((), ("policy",)):
            path: Path = (*loop.at, "spec", *inside, "max_in_flight")
            if self.report.document.find(path) is not None:
                self._values(loop.max_in_flight, "loop", path, owner, loop=index)

    def _task(self, task: Task, owner: Pipeline) -> NetTask:
        kind = self.kinds.get(task.kind)
        shapes = kind.fields.keys if kind else {}
        for key, value in task.fields.items():
            self._field(value, shapes.get(key), (*task.at, key), owner, task)
        for key, value in task.input.items():
            own = shapes.get(key) if kind and not kind.free_input else None
            under: Path = (*task.at, "input", key)
            path = under if self.report.document.find(under) is not None else (*task.at, key)
            self._field(value, own, path, owner, task)
        self._values(task.set, "task result", (*task.at, "set"), owner, task)
        rules = [self._rule(rule, owner, task) for rule in (task.policy.rules if task.policy else ())]
        asked_after = tuple(rule for rule in rules if rule.rule.do != "skip")
        return NetTask(task, asked_after, tuple(rule for rule in rules if rule.rule.do == "skip"))

    def _field(self, value: JSON, key: KeyShape | None, path: Path, owner: Pipeline, task: Task) -> None:
        """A field of a tool. Program code is no template; `{% %}` may stand in text fields only (D13)."""
        shape = key.shape if key else None
        if isinstance(shape, TextShape) and not shape.templated:
            return
        statements = isinstance(shape, TextShape) and shape.statements
        sql = {(*path, *inside[1:]) for inside in sql_paths({"": key} if key else {})}
        for where, text in _texts(value, path):
            allowed = statements and where == path
            self._template(text, "task", where, owner, task, statements=allowed, sql=where in sql)

    def _rule(self, rule: Rule, owner: Pipeline, task: Task) -> NetRule:
        place: Place = "skip rule" if rule.do == "skip" else "task result"
        then: Path = (*rule.at, "then") if rule.when is not None else (*rule.at, "else", "then")
        when = self._when(rule.when, place, (*rule.at, "when"), owner, task)
        self._values(rule.set, place, (*then, "set"), owner, task)
        for key in _RETRY_KEYS:
            self._values(getattr(rule, key), place, (*then, key), owner, task)
        return NetRule(rule, when)

    def _arc(self, arc: Arc, step: Step) -> NetArc:
        when = self._when(arc.when, "arc", (*arc.at, "when"), step, None)
        self._values(arc.set, "arc", (*arc.at, "set"), step)
        targets: tuple[str, ...] | None = (arc.step,)
        if is_template(arc.step):
            self._values(arc.step, "arc", (*arc.at, "step"), step)
            targets = arc.to
        return NetArc(arc, when, targets, isinstance(when, Template) and asks_for_failure(when))

    def _when(
        self, when: When | None, place: Place, path: Path, owner: Pipeline, task: Task | None
    ) -> Condition:
        """None (else, or no guard) holds always. A guard that is no template is told (D15)."""
        if when is None:
            return True
        if isinstance(when, bool):
            if not when:
                self.report.tell("constant-guard", path, '"when" is always false')
            return when
        if not is_template(when):
            message = f'"when" takes a template or a boolean, not the text "{when}"'
            self.report.tell("not-a-guard", path, message, fix=f'"{{{{ {when} }}}}"')
            return False
        template = self._template(when, place, path, owner, task)
        if template is None:
            return False
        if template.constant:
            return self._constant(template, path)
        return template

    def _constant(self, template: Template, path: Path) -> Condition:
        try:
            holds = template.holds({})
        except TemplateError:
            return template
        if not (holds and template({}) is True):
            words = "true" if holds else "false"
            self.report.tell("constant-guard", path, f'"when" reads nothing: it is always {words}')
        return holds

    def _values(
        self,
        value: JSON,
        place: Place,
        path: Path,
        owner: Pipeline,
        task: Task | None = None,
        *,
        loop: int | None = None,
    ) -> None:
        for where, text in _texts(value, path):
            self._template(text, place, where, owner, task, loop=loop)

    def _template(
        self,
        text: str,
        place: Place,
        path: Path,
        owner: Pipeline,
        task: Task | None,
        *,
        statements: bool = False,
        sql: bool = False,
        loop: int | None = None,
    ) -> Template | None:
        compiled = _compiled(text, statements, sql)
        if isinstance(compiled, Template):
            self.spots.append(Spot(place, path, compiled, owner, task, loop))
            return compiled
        for fault in compiled.faults:
            self.report.tell(fault.code, path, fault.message, word=fault.needle, fix=fault.fix)
        return None


def asks_for_failure(when: Template) -> bool:
    """Does the guard read what a failure is told by? Then it is asked when the step has failed (D37)."""
    return any(
        read.path[0] == "event" or read.path[:2] in (("output", "status"), ("output", "error"))
        for read in when.reads
    )


def _texts(value: JSON, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text with braces in it, and where it stands."""
    if isinstance(value, str):
        if is_template(value):
            yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, (*path, index))
