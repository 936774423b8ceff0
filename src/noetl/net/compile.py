"""Playbook → Program. Each template is compiled once, and what cannot be compiled is reported (level L4).

A playbook with problems also gives a program, for drawings and explanations; only one without errors may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from noetl.defaults import POOL
from noetl.net.graph import reach_of
from noetl.net.kept import KeptStep, kept_steps
from noetl.net.origins import SUFFIX, RefOrigins
from noetl.net.program import (
    BODY,
    SAVED,
    CompiledArc,
    CompiledConcurrency,
    CompiledGuard,
    CompiledLimit,
    CompiledLoop,
    CompiledNotification,
    CompiledPipeline,
    CompiledRule,
    CompiledStep,
    CompiledTask,
    Condition,
    Program,
    ProjectedValue,
    TemplateUse,
    Write,
)
from noetl.net.scopes import Place
from noetl.net.template_reads import output_parts, reads_failed_iterations, reads_failure, saved_reads
from noetl.output import JSON
from noetl.playbook import model
from noetl.playbook.branches import with_jumps
from noetl.playbook.kinds import Kind, Kinds
from noetl.playbook.language import LIMITS
from noetl.playbook.model import Arc, Block, Loop, Notification, Pipeline, Playbook, Rule, Step, Task, When
from noetl.playbook.shapes import BooleanShape, NumberShape, TextShape, sql_paths
from noetl.playbook.source import Path
from noetl.playbook.spec import SpecLayer, merge, playbook_layers, task_layers
from noetl.playbook.validation import ProblemReport
from noetl.template.compile import BadTemplate, Template, TemplateError, Value, build_value, compile_template
from noetl.template.guards import as_one_expression, is_text_around
from noetl.template.projection import reads_data
from noetl.template.values import contains_template, is_template

if TYPE_CHECKING:
    from noetl.net.inputs import Inputs
    from noetl.net.output_schema import OutputSchema
    from noetl.net.triggers import CompiledTrigger

TEMPLATES_CACHED = 12_000  # about 2 KiB each; two versions of a large playbook
CTX_TARGETS_LIGHT = 16  # this many values of the maximum size fit into ctx (D55)


@lru_cache(maxsize=TEMPLATES_CACHED)
def compiled_template(source: str, statements: bool, sql: bool, shell: bool) -> Template | BadTemplate:
    try:
        return compile_template(source, statements=statements, sql=sql, shell=shell)
    except BadTemplate as error:
        return error


def compile_playbook(playbook: Playbook, kinds: Kinds, report: ProblemReport, before: Program | None = None) -> Program:
    """`before`: an earlier version, compiled with the same kinds, of which the unchanged steps are kept."""
    return _Compiler(playbook, kinds, report, before).program()


class _Fields(NamedTuple):
    """What a tool kind says about its fields."""

    values: frozenset[str]  # numbers and booleans: only `{{ }}` gives one, `{% %}` gives text (D106)
    raw: frozenset[str]  # program code and names: never templates
    sql: frozenset[tuple[str, ...]]
    shell: frozenset[str]  # shell scripts
    own: dict[str, JSON]  # the defaults of the tool's own part of the output


class _Compiler:
    def __init__(self, playbook: Playbook, kinds: Kinds, report: ProblemReport, before: Program | None) -> None:
        self.playbook = playbook
        self.kinds = kinds
        self.report = report
        self.templates: list[TemplateUse] = []
        self.blocks: dict[str, CompiledPipeline] = {}
        self.faulty: set[str] = set()
        self.same: dict[str, Step] = {}
        self.origins = RefOrigins(playbook)
        self.fields: dict[str, _Fields] = {}
        self.specs: dict[str, dict[str, JSON]] = {}
        self.policy = {key: playbook.executor.policy.get(key) or {} for key in ("lifecycle", "failure")}
        limits = playbook.executor.policy.get("limits", {})
        self.limits = {key: limits.get(key, row.default) for key, row in LIMITS.keys.items() if row.default}
        self.weighs_ctx = len(self.origins.ctx_targets) > CTX_TARGETS_LIGHT
        self.kept: dict[str, KeptStep] = {}
        if before is not None:
            self.kept = kept_steps(before, playbook, self.origins, weighs_ctx=self.weighs_ctx)
        # Of this playbook: the same for all of its tasks.
        self.identity = before.identity if before is not None and self.kept else object()

    def program(self) -> Program:
        steps: dict[str, CompiledStep] = {}
        for step in self.playbook.steps:
            steps.setdefault(step.name, self._kept(step))  # of two steps with one name the first counts
        for block in self.playbook.pipelines[len(self.playbook.steps) :]:
            if isinstance(block, Block) and block.name not in self.blocks:
                self.blocks[block.name], _ = self._pipeline(block)
        reads_failed = reads_failed_iterations(self.templates, self.playbook)
        for name, compiled in steps.items():
            if compiled.pipeline.reads_failed != reads_failed:
                steps[name] = replace(compiled, pipeline=replace(compiled.pipeline, reads_failed=reads_failed))
        for name, pipeline in self.blocks.items():
            if pipeline.reads_failed != reads_failed:
                self.blocks[name] = replace(pipeline, reads_failed=reads_failed)
        concurrency = self._concurrency()
        bits = {name: 1 << place for place, name in enumerate(steps)}
        program = Program(self.playbook, steps, self.blocks, bits, reach_of(steps), self.limits, tuple(self.templates))
        program = program._replace(origins=self.origins, identity=self.identity)
        same = frozenset(name for name, step in self.same.items() if steps[name].source is step)
        program = program._replace(faulty=frozenset(self.faulty), same=same)
        if self.playbook.notifications:
            notifications = tuple(map(self._notification, self.playbook.notifications))
            program = program._replace(notifications=notifications, templates=tuple(self.templates))
        if self.playbook.triggers:
            program = program._replace(triggers=self._triggers())
        saves = any(target.startswith(f"{SAVED}.") for step in self.playbook.steps for target in step.set)
        program = program._replace(saves=saves, saved_reads=saved_reads(self.templates), asks=program.uses("wait"))
        if concurrency is not None or program.has_limits:
            program = program._replace(concurrency=concurrency, limited=True)
        return program if self.playbook.inputs is None else program._replace(inputs=self._inputs())

    def _concurrency(self) -> CompiledConcurrency | None:
        written = self.playbook.executor.policy.get("concurrency")
        if not written or "limit" not in written or not self.playbook.steps:
            return None
        path: Path = ("executor", "spec", "policy", "concurrency", "key")
        entry = next((step for step in self.playbook.steps if step.name == self.playbook.entry), self.playbook.steps[0])
        key = written.get("key")
        value = None if key is None else self._value(key, "concurrency", path, entry)
        return CompiledConcurrency(value, written["limit"], written.get("when_full", model.WHEN_FULL))

    def _limit(
        self, written: dict[str, JSON] | None, place: Place, path: Path, owner: Pipeline, task: Task | None = None
    ) -> CompiledLimit | None:
        if not written or "key" not in written:
            return None
        rate = written.get("rate") or {}
        return CompiledLimit(
            key=self._value(written["key"], place, (*path, "key"), owner, task),
            in_flight=written.get("in_flight"),
            rate=(rate["count"], float(rate["per_s"])) if rate.keys() >= {"count", "per_s"} else None,
            respect_retry_after=written.get("respect_retry_after", False),
        )

    def _notification(self, source: Notification) -> CompiledNotification:
        when = self._when(source.when, "notification", (*source.at, "when"), source.block)
        return CompiledNotification(when, source)

    def _triggers(self) -> tuple[CompiledTrigger, ...]:
        from noetl.net.triggers import compile_triggers

        return compile_triggers(self.playbook, self.report)

    def _inputs(self) -> Inputs:
        from noetl.net.inputs import compile_inputs

        inputs, faults = compile_inputs(self.playbook)
        for code, path, message, fix, key in faults:
            self.report.add(code, path, message, fix=fix, key=key)
        return inputs

    def _kept(self, step: Step) -> CompiledStep:
        """The step as it was compiled before, if it and everything that it depends on is the same."""
        known = self.kept.get(step.name)
        kept = known.as_step(step, self.report.document) if known is not None else None
        if kept is not None:
            self.same[step.name] = step
            self.templates += kept.templates
            self.blocks |= kept.blocks
            return kept.step
        problems = len(self.report.problems)
        made = self._step(step)
        if len(self.report.problems) > problems:
            self.faulty.add(step.name)
        return made

    def _step(self, step: Step) -> CompiledStep:
        admit = None
        reads: set[tuple[str, ...]] = set()
        if step.admit is not None:
            admit = tuple(
                CompiledGuard(self._when(guard.when, "admission", (*guard.at, "when"), step), guard.allow, guard)
                for guard in step.admit
            )
            for guard in admit:
                if isinstance(guard.when, Template):
                    ctx = (read.path[1:] for read in guard.when.reads if read.path[0] == "ctx")
                    reads.update(tuple(map(str, path)) for path in ctx)
        pipeline, arcs = self._pipeline(step)
        return CompiledStep(
            pipeline=pipeline,
            admit=admit,
            admit_reads=tuple(sorted(reads)),
            join=step.join == "all",
            inclusive=step.mode == "inclusive",
            arcs=arcs,
            source=step,
        )

    def _pipeline(self, owner: Pipeline) -> tuple[CompiledPipeline, tuple[CompiledArc, ...]]:
        first = len(self.templates)
        input = self._value(owner.input, "step input", (*owner.at, "input"), owner)
        loops = [self._loop(loop, index, owner) for index, loop in enumerate(owner.loops)]
        tasks = self._tasks(owner)
        writes = self._writes(owner.set, "step set", (*owner.at, "set"), owner)
        failure_writes = tuple(write for write in writes if reads_failure(write.value.reads) and write.scope != SAVED)
        arcs: tuple[CompiledArc, ...] = ()
        if isinstance(owner, Step):
            arcs = tuple(self._arc(arc, owner) for arc in owner.arcs or ())
        policy = merge(self.policy, owner.policy)
        failure, lifecycle = policy["failure"], policy["lifecycle"]
        parts = output_parts(self.templates[first:], {task.name for task in owner.tasks})
        inner = CompiledPipeline(
            name=owner.name,
            block=isinstance(owner, Block),
            input=input,
            loop=loops[-1] if loops else None,
            tasks=tasks,
            set=writes,
            failure_set=failure_writes,
            best_effort=failure.get("mode") == "best_effort",
            tolerate=failure.get("tolerate"),
            calls_max=min(policy.get("limits", {}).get("calls", self.limits["calls"]), *_task_limits(owner)),
            value_bytes=self.limits["value_bytes"],
            timeout_s=lifecycle.get("timeout_s"),
            deadline_s=lifecycle.get("deadline_s"),
            picks=_projected(writes, arcs),
            failure_picks=_projected(failure_writes, [arc for arc in arcs if arc.takes_failure]),
            reads_meta="meta" in parts,
            reads_ref="ref" in parts,
            reads_failed=False,
            notifies=isinstance(owner, Block) and owner.notifies,
            weighs_ctx=self.weighs_ctx,
            pool=owner.spec.get("pool") or self.playbook.executor.spec.get("pool") or POOL,
            source=owner,
            source_tasks=tasks,
            limit=self._limit(owner.policy.get("limit"), "step limit", (*owner.at, "spec", "policy", "limit"), owner),
        )
        return self._nested(inner, loops), arcs

    def _nested(self, inner: CompiledPipeline, loops: Sequence[CompiledLoop]) -> CompiledPipeline:
        """The pipeline with its outermost loop; each loop but the last is around a call of a block (D45)."""
        made, owner = inner, inner.source
        for depth, loop in enumerate(reversed(loops[:-1])):
            name = f"{owner.name}/{BODY}" + "." * depth
            self.blocks[name] = replace(
                made, name=name, block=True, set=(), failure_set=(), input=_constant({}),
                timeout_s=None, deadline_s=None, picks=(), failure_picks=(), limit=None,
            )  # fmt: skip
            made = replace(inner, loop=loop, tasks=(_call_of(name, owner),))
        return made

    def _loop(self, loop: Loop, index: int, owner: Pipeline) -> CompiledLoop:
        items = self._value(loop.items, "loop", (*loop.at, "in"), owner, loop=index)
        width = None
        if loop.max_in_flight is not None:
            path: Path = (*loop.at, "spec", "max_in_flight")
            if self.report.document.find(path) is None:
                path = (*loop.at, "spec", "policy", "max_in_flight")
            width = self._value(loop.max_in_flight, "loop", path, owner, loop=index)
        return CompiledLoop(
            items=items,
            iterator=loop.iterator,
            parallel=loop.mode == "parallel",
            width=width,
            reduce={tuple(target.split(".")[1:]): name for target, name in loop.reduce.items()},
            origin=self.origins.gives_ref(loop.items, owner),
        )

    def _tasks(self, owner: Pipeline) -> tuple[CompiledTask, ...]:
        first = len(self.templates)
        places = {task.name: place for place, task in enumerate(owner.tasks)}
        tasks = [self._task(task, owner, places) for task in owner.tasks]
        read = {read.path[0] for use in self.templates[first:] for read in use.template.reads}
        return tuple(replace(task, kept=True) if task.name in read else task for task in tasks)

    def _task(self, task: Task, owner: Pipeline, places: Mapping[str, int]) -> CompiledTask:
        kind = self.kinds.get(task.kind)
        known = self._kind_fields(task.kind, kind)
        code, templated = {}, task.fields
        if task.fields:
            code = {key: value for key, value in task.fields.items() if key in known.raw}
            templated = {key: value for key, value in task.fields.items() if key not in known.raw}
        fields, secret_fields = self._fields(templated, known, owner, task)
        free = kind is None or kind.free_input
        given = self._with_defaults(task) if task.kind == "workbook" else task.input
        input, secret_inputs = self._fields(given, _NO_FIELDS if free else known, owner, task, "input")
        writes = self._writes(task.set, "task result", (*task.at, "set"), owner, task)
        rules = self._rules(task, places, owner)
        policy = with_jumps(task).policy
        skips = [rule for rule in rules if rule.do == "skip"]
        after = [rule for rule in rules if rule.do != "skip"]
        return CompiledTask(
            name=task.name,
            kind=task.kind,
            auth=task.auth,
            code=code,
            fields=fields,
            input=input,
            set=writes,
            skips=tuple(skips),
            rules=tuple(after),
            has_policy=bool(after),
            on_unmatched=(policy.on_unmatched if policy else None) or model.ON_UNMATCHED,
            spec=self._spec(owner, task),
            secret_inputs=secret_inputs,
            secret_fields=secret_fields,
            kept=False,
            pure=bool(kind and kind.pure),
            source=task,
            refs=() if free and task.kind != "playbook" else tuple(self.origins.refs_in(task.input, owner)),
            schema=self._schema(task) if "validate" in task.spec else None,
            own=known.own,
            playbook=self.identity,
            libs=self.playbook.libs,
            limit=self._limit(policy.limit, "task limit", (*task.at, "spec", "policy", "limit"), owner, task)
            if policy
            else None,
        )

    def _with_defaults(self, task: Task) -> dict[str, JSON]:
        """The input of a call of a block: its `input` has the defaults, which are not templates."""
        block = next((each for each in self.playbook.blocks if each.name == task.fields.get("block")), None)
        defaults = block.input if block is not None else {}
        return {**{key: value for key, value in defaults.items() if not contains_template(value)}, **task.input}

    def _schema(self, task: Task) -> OutputSchema | None:
        from noetl.net.output_schema import compile_schema

        schema, faults = compile_schema(task.spec["validate"])
        for fault in faults:
            path = (*task.at, "spec", "validate", *fault.path)
            self.report.add("bad-schema", path, fault.message, key=bool(fault.path), fix=fault.fix)
        return schema

    def _kind_fields(self, name: str, kind: Kind | None) -> _Fields:
        if name not in self.fields:
            shapes = kind.fields.keys if kind else {}
            texts = {key: row.shape for key, row in shapes.items() if isinstance(row.shape, TextShape)}
            self.fields[name] = _Fields(
                frozenset(key for key, row in shapes.items() if isinstance(row.shape, NumberShape | BooleanShape)),
                frozenset(key for key, shape in texts.items() if not shape.templated),
                sql_paths(shapes),
                frozenset(key for key, shape in texts.items() if shape.shell),
                _own_part(kind) if kind else {},
            )
        return self.fields[name]

    def _fields(
        self, values: dict[str, JSON], known: _Fields, owner: Pipeline, task: Task, under: str | None = None
    ) -> tuple[Value, frozenset[str]]:
        """The value, and the keys in it whose templates read the keychain."""
        if not values:
            return _constant(values), _NO_KEYS
        secrets: set[str] = set()
        places: dict[str | int, Path] = {}

        def compile_one(text: str, at: Path) -> Template | None:
            key = at[0]
            if key in known.raw:
                return None
            if key not in places:
                places[key] = self._field_path(task, str(key), under)
            template = self._template(
                text, "task", (*places[key], *at[1:]), owner, task,
                statements=key not in known.values, sql=at in known.sql, shell=key in known.shell,
                key=isinstance(at[-1], str),
            )  # fmt: skip
            if template is not None and any(read.path[0] == "keychain" for read in template.reads):
                secrets.add(str(key))
            return template

        return build_value(values, compile_one, known.sql), frozenset(secrets) if secrets else _NO_KEYS

    def _field_path(self, task: Task, key: str, under: str | None) -> Path:
        """The path of a field, which is under `input` or beside `kind` (D9)."""
        if under is not None:
            path: Path = (*task.at, under, key)
            if self.report.document.find(path) is not None:
                return path
        return (*task.at, key)

    def _spec(self, owner: Pipeline, task: Task) -> dict[str, JSON]:
        """Tasks of a kind that add nothing to its layers share one spec, which is never changed."""
        if task.kind not in self.specs:
            shared = playbook_layers(self.playbook, task.kind, self.kinds)
            self.specs[task.kind] = _merged({}, shared)
        return _merged(self.specs[task.kind], task_layers(owner, task, self.kinds))

    def _rules(self, task: Task, places: Mapping[str, int], owner: Pipeline) -> list[CompiledRule]:
        """The rules of a task, with jumps to the task after it; `source` is the rule that the author wrote."""
        policy = with_jumps(task).policy
        numbered = enumerate(policy.rules if policy else ())
        rules = [self._rule(rule, place, places, owner, task) for place, rule in numbered]
        if task.after is None:
            return rules
        written = task.policy.rules if task.policy else ()
        made = [replace(rule, source=source) for rule, source in zip(rules, written, strict=False)]
        return [*made, *(replace(rule, place="else", implied=True) for rule in rules[len(made) :])]

    def _rule(self, rule: Rule, place: int, places: Mapping[str, int], owner: Pipeline, task: Task) -> CompiledRule:
        scope: Place = "skip rule" if rule.do == "skip" else "task result"
        then: Path = (*rule.at, "then") if rule.when is not None else (*rule.at, "else", "then")

        def value(written: JSON, key: str) -> Value | None:
            return None if written is None else self._value(written, scope, (*then, key), owner, task)

        return CompiledRule(
            place="else" if rule.when is None else place,
            when=self._when(rule.when, scope, (*rule.at, "when"), owner, task),
            do=rule.do,
            to=None if rule.to is None else places.get(rule.to),
            attempts=value(rule.attempts, "attempts"),
            backoff=rule.backoff or model.BACKOFF,
            delay=value(rule.delay, "delay"),
            max_delay=value(rule.max_delay, "max_delay"),
            jitter=rule.jitter or 0.0,
            message=value(rule.message, "message"),
            details=value(rule.details or None, "details"),
            set=self._writes(rule.set, scope, (*then, "set"), owner, task),
            source=rule,
        )

    def _arc(self, arc: Arc, step: Step) -> CompiledArc:
        when = self._when(arc.when, "arc", (*arc.at, "when"), step)
        writes = self._writes(arc.set, "arc", (*arc.at, "set"), step)
        target: str | Template = arc.step
        targets: tuple[str, ...] | None = (arc.step,)
        if is_template(arc.step):
            target = self._template(arc.step, "arc", (*arc.at, "step"), step) or arc.step
            targets = arc.to
        takes_failure = isinstance(when, Template) and reads_failure(when.reads)
        return CompiledArc(target, targets, when, writes, takes_failure, arc)

    def _when(
        self, when: When | None, place: Place, path: Path, owner: Pipeline, task: Task | None = None
    ) -> Condition:
        """None (`else`, or no guard) always holds. A guard that is not a template is reported (D15)."""
        if when is None:
            return True
        if isinstance(when, bool):
            if not when:
                self.report.add("constant-guard", path, '"when" is always false')
            return when
        if not is_template(when):
            message = f'"when" takes a template or a boolean, not the text "{when}"'
            self.report.add("not-a-guard", path, message, fix=f'"{{{{ {when} }}}}"')
            return False
        template = self._template(when, place, path, owner, task)
        if template is None:
            return False
        if is_text_around(template):
            fix = as_one_expression(when)
            message = f'"when" is text around a template, which is always true{f"; write {fix}" if fix else ""}'
            self.report.add("not-a-guard", path, message, fix=fix and f'"{fix}"')
        return self._constant_guard(template, path) if template.constant else template

    def _constant_guard(self, template: Template, path: Path) -> Condition:
        try:
            holds = template.holds({})
        except TemplateError:
            return template
        if not (holds and template({}) is True):
            words = "true" if holds else "false"
            self.report.add("constant-guard", path, f'"when" reads nothing: it is always {words}')
        return holds

    def _writes(
        self, writes: Mapping[str, JSON], place: Place, path: Path, owner: Pipeline, task: Task | None = None
    ) -> tuple[Write, ...]:
        if not writes:
            return ()
        made = []
        for target, value in writes.items():
            scope, *inside = target.split(".")
            compiled = self._value(value, place, (*path, target), owner, task)
            origin = target.endswith(SUFFIX) and self.origins.gives_ref(value, owner, task)
            made.append(Write(target, scope, tuple(inside), compiled, origin))
        return tuple(made)

    def _value(
        self,
        value: JSON,
        place: Place,
        path: Path,
        owner: Pipeline,
        task: Task | None = None,
        *,
        loop: int | None = None,
    ) -> Value:
        if not value:
            return _constant(value)

        def compile_one(text: str, at: Path) -> Template | None:
            key = bool(at) and isinstance(at[-1], str)
            return self._template(text, place, (*path, *at), owner, task, key=key, loop=loop)

        return build_value(value, compile_one)

    def _template(
        self,
        text: str,
        place: Place,
        path: Path,
        owner: Pipeline,
        task: Task | None = None,
        *,
        statements: bool = False,
        sql: bool = False,
        shell: bool = False,
        key: bool = False,  # it is the value of a key inside an evaluated mapping
        loop: int | None = None,
    ) -> Template | None:
        compiled = compiled_template(text, statements, sql, shell)
        if isinstance(compiled, Template):
            if compiled.omits and not (key and compiled.typed):
                message = "omit() leaves out a key of a mapping, so it must give the whole value of one"
                self.report.add("not-allowed", path, message, word="omit")
            self.templates.append(TemplateUse(place, path, compiled, owner, task, loop))
            return compiled
        for fault in compiled.faults:
            self.report.add(fault.code, path, fault.message, word=fault.needle, line=fault.line, fix=fault.fix)
        return None


_NO_KEYS: frozenset[str] = frozenset()
_NO_FIELDS = _Fields(_NO_KEYS, _NO_KEYS, frozenset(), _NO_KEYS, {})


def _own_part(kind: Kind) -> dict[str, JSON]:
    if kind.output is None or kind.output_fields is None:
        return {}
    fields = kind.output_fields.keys.items()
    # A field that is neither nullable nor has a default is undefined, unless the tool gives it.
    return {kind.output: {name: key.default for name, key in fields if key.nullable or key.default is not None}}


def _task_limits(owner: Pipeline) -> list[float]:
    """The budgets of calls that its tasks state: the smallest one holds for the frame (D87)."""
    policies = [task.policy for task in owner.tasks if task.policy is not None]
    return [inf, *(policy.limits["calls"] for policy in policies if "calls" in policy.limits)]


def _merged(values: dict[str, JSON], over: Iterable[SpecLayer]) -> dict[str, JSON]:
    for layer in over:
        values = merge(values, layer.values)
    return values


def _constant(value: JSON) -> Value:
    return Value(None, value, [])


def _call_of(block: str, owner: Pipeline) -> CompiledTask:
    """The task that calls a body block. No author wrote it."""
    return CompiledTask(
        name=BODY, kind="workbook", auth=None, code={"block": block}, fields=_constant({}),
        input=_constant({}), set=(), skips=(), rules=(), has_policy=False, on_unmatched=model.ON_UNMATCHED,
        spec={}, secret_inputs=_NO_KEYS, secret_fields=_NO_KEYS, kept=False, pure=False,
        source=Task(name=BODY, kind="workbook", fields={"block": block}, at=owner.at),
    )  # fmt: skip


def _projected(writes: Iterable[Write], arcs: Iterable[CompiledArc]) -> tuple[ProjectedValue, ...]:
    """The values of a step's `set` and of arcs that read output.data."""
    found = [ProjectedValue(write.value, asks=False) for write in writes if reads_data(write.value.reads)]
    for arc in arcs:
        when, target = arc.when, arc.target
        if isinstance(when, Template) and reads_data(when.reads):
            found.append(ProjectedValue(when, asks=True))
        if isinstance(target, Template) and reads_data(target.reads):
            found.append(ProjectedValue(target, asks=False))
        if arc.set:
            found += _projected(arc.set, ())
    return tuple(found)
