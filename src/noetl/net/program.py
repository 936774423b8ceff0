"""What the engine runs: a checked playbook with every value compiled. It knows no state and decides nothing.

A list of loops becomes the outermost loop around a call of a block of its own (D45).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

from noetl.defaults import POOL
from noetl.net.compile import asks_for_failure
from noetl.net.graph import descendants
from noetl.output import JSON, OUTPUT_FIELDS
from noetl.playbook import model
from noetl.playbook.conform import has_braces
from noetl.playbook.kinds import Kinds
from noetl.playbook.language import LIMITS
from noetl.playbook.shapes import TextShape, sql_paths
from noetl.playbook.spec import effective, merge
from noetl.template.compile import Path, Template, Value, compile_template, compile_value
from noetl.template.projection import reads_data

Condition: TypeAlias = Template | bool
ATTEMPTS = 3  # D24
BODY = "body"  # the block inside a list of loops: s#1[3]/body#1
CTX_TARGETS_LIGHT = 16  # so many values of the largest size fit into ctx (D55)


class Write(NamedTuple):
    """One target of a `set`."""

    target: str  # "ctx.user.name"
    scope: str
    path: tuple[str, ...]
    value: Value


class Rule(NamedTuple):
    place: int | str  # its index in the rules, or "else"
    when: Condition
    do: model.Directive
    to: int | None  # jump: the place of the task
    attempts: Value | None
    backoff: model.Backoff
    delay: Value | None
    max_delay: Value | None
    jitter: float
    set: tuple[Write, ...]


class Task(NamedTuple):
    name: str
    kind: str
    auth: str | None
    code: dict[str, JSON]  # program code and other fields that are no templates
    fields: Value  # the other fields beside a free input
    input: Value
    set: tuple[Write, ...]
    skips: tuple[Rule, ...]  # asked before the tool runs (D26)
    rules: tuple[Rule, ...]
    has_policy: bool  # rules other than skips: a policy of skips only counts as none
    on_unmatched: Literal["continue", "fail"]
    spec: dict[str, JSON]
    secret_inputs: frozenset[
        str
    ]  # those that read the keychain: not kept in `input` for rules and `set` (D20)
    secret_fields: frozenset[str]
    kept: bool  # some template reads its output by name
    pure: bool


class Loop(NamedTuple):
    items: Value
    iterator: str
    parallel: bool
    width: Value | None  # None: 10 when parallel, else 1
    reduce: Mapping[tuple[str, ...], str]


class Picked(NamedTuple):
    """Evaluated by control when a run has ended, and as far as it reads output.data by the worker (D52)."""

    value: Value | Template
    asks: bool  # only its truth is asked for


class Pipeline(NamedTuple):
    """What runs in frames: the tasks of a step or of a block."""

    name: str
    block: bool
    input: Value
    loop: Loop | None
    tasks: tuple[Task, ...]
    set: tuple[Write, ...]
    best_effort: bool
    tolerate: int | str | None
    calls_max: int
    timeout_s: float | None
    deadline_s: float | None
    picks: tuple[Picked, ...]  # of `set` and arcs: what reads output.data (D52)
    failure_picks: tuple[Picked, ...]  # the same of arcs that are asked when it has failed
    reads_meta: bool  # some template reads output.meta, so it is recorded
    reads_ref: bool  # some template reads output.ref: results are stored whatever their size (D51)
    weighs_ctx: bool  # the playbook writes to so many paths that ctx may get too large (D55)
    pool: str  # whose workers run it


class Arc(NamedTuple):
    target: str | Template
    targets: frozenset[str] | None  # what a template may give; None: anything
    when: Condition
    set: tuple[Write, ...]
    takes_failure: bool


class Step(NamedTuple):
    pipeline: Pipeline
    admit: tuple[tuple[Condition, bool], ...] | None
    admit_reads: tuple[tuple[str, ...], ...]  # of ctx: a waiting token is tried again when one changes
    join: bool
    inclusive: bool
    arcs: tuple[Arc, ...]

    @property
    def name(self) -> str:
        return self.pipeline.name


class Program(NamedTuple):
    playbook: model.Playbook
    digest: str
    steps: dict[str, Step]
    blocks: dict[str, Pipeline]
    bits: dict[str, int]  # step → its bit
    reach: dict[str, int]  # step → the steps that its arcs lead to, and so on, as bits
    limits: dict[str, int]
    folder: str | None = None  # of the file it came from

    def pipeline(self, name: str, *, block: bool) -> Pipeline:
        return self.blocks[name] if block else self.steps[name].pipeline


def compile_program(playbook: model.Playbook, kinds: Kinds, digest: str) -> Program:
    """The playbook has been checked: what can not be compiled is a bug of ours."""
    return _Compiler(playbook, kinds).program(digest)


class _Compiler:
    def __init__(self, playbook: model.Playbook, kinds: Kinds) -> None:
        self.playbook = playbook
        self.kinds = kinds
        self.blocks: dict[str, Pipeline] = {}
        self.weighs_ctx = len(_ctx_targets(playbook)) > CTX_TARGETS_LIGHT

    def program(self, digest: str) -> Program:
        for block in self.playbook.blocks:
            self.blocks[block.name] = self._pipeline(block, ())
        steps = {step.name: self._step(step) for step in self.playbook.steps}
        follows = {name: _targets(step, steps) for name, step in steps.items()}
        reach = descendants(follows)
        bits = {name: 1 << place for place, name in enumerate(steps)}
        # What a step's arcs lead to; the step itself only if it can come back to itself.
        led = {name: _union(reach[to] for to in targets) for name, targets in follows.items()}
        given = self.playbook.executor.policy.get("limits", {})
        limits = {key: given.get(key, row.default) for key, row in LIMITS.keys.items() if row.default}
        return Program(self.playbook, digest, steps, self.blocks, bits, led, limits)

    def _step(self, step: model.Step) -> Step:
        arcs = tuple(self._arc(arc) for arc in step.arcs or ())
        admit = None
        if step.admit is not None:
            admit = tuple((_condition(guard.when), guard.allow) for guard in step.admit)
        asked = {
            tuple(map(str, read.path[1:]))
            for when, _ in admit or ()
            if isinstance(when, Template)
            for read in when.reads
            if read.path[0] == "ctx"
        }
        return Step(
            pipeline=self._pipeline(step, arcs),
            admit=admit,
            admit_reads=tuple(sorted(asked)),
            join=step.join == "all",
            inclusive=step.mode == "inclusive",
            arcs=arcs,
        )

    def _arc(self, arc: model.Arc) -> Arc:
        when = _condition(arc.when)
        dynamic = has_braces(arc.step)
        return Arc(
            target=compile_template(arc.step) if dynamic else arc.step,
            targets=frozenset(arc.to) if arc.to is not None else None if dynamic else frozenset({arc.step}),
            when=when,
            set=_writes(arc.set),
            takes_failure=isinstance(when, Template) and asks_for_failure(when),
        )

    def _pipeline(self, owner: model.Pipeline, arcs: tuple[Arc, ...]) -> Pipeline:
        policy = merge(
            {key: self.playbook.executor.policy.get(key) or {} for key in ("lifecycle", "failure")},
            owner.policy,
        )
        failure, lifecycle = policy["failure"], policy["lifecycle"]
        tasks, writes = self._tasks(owner), _writes(owner.set)
        after = {*_paths(write.value for write in writes), *_paths(each.value for each in _of_arcs(arcs))}
        read = after.union(*(_paths(_values_of_task(task)) for task in tasks))
        parts = {part for path in read for part in _parts_read(path, {task.name for task in tasks})}
        limit = self.playbook.executor.policy.get("limits", {}).get("calls", LIMITS.keys["calls"].default)
        inner = Pipeline(
            name=owner.name,
            block=isinstance(owner, model.Block),
            input=compile_value(owner.input),
            loop=_loop(owner.loops[-1]) if owner.loops else None,
            tasks=tasks,
            set=writes,
            best_effort=failure.get("mode") == "best_effort",
            tolerate=failure.get("tolerate"),
            calls_max=policy.get("limits", {}).get("calls", limit),
            timeout_s=lifecycle.get("timeout_s"),
            deadline_s=lifecycle.get("deadline_s"),
            picks=_picks((*(Picked(write.value, asks=False) for write in writes), *_of_arcs(arcs))),
            failure_picks=_picks(_of_arcs(arc for arc in arcs if arc.takes_failure)),
            reads_meta="meta" in parts,
            reads_ref="ref" in parts,
            weighs_ctx=self.weighs_ctx,
            pool=owner.spec.get("pool") or self.playbook.executor.spec.get("pool") or POOL,
        )
        for place in range(len(owner.loops) - 2, -1, -1):
            inner = self._around(owner, inner, place)
        return inner

    def _around(self, owner: model.Pipeline, inner: Pipeline, place: int) -> Pipeline:
        """The loop with this number, around a call of a block that holds what is inside it."""
        name = f"{owner.name}/{BODY}" + "." * (len(owner.loops) - 2 - place)
        self.blocks[name] = inner._replace(
            name=name, block=True, set=(), input=compile_value({}),
            timeout_s=None, deadline_s=None, picks=(), failure_picks=(),
        )  # fmt: skip
        call = Task(
            name=BODY, kind="workbook", auth=None, code={"block": name}, fields=compile_value({}),
            input=compile_value({}), set=(), skips=(), rules=(), has_policy=False, on_unmatched="continue",
            spec={}, secret_inputs=frozenset(), secret_fields=frozenset(),
            kept=False, pure=False,
        )  # fmt: skip
        return inner._replace(
            name=owner.name, block=isinstance(owner, model.Block), loop=_loop(owner.loops[place]),
            tasks=(call,), set=_writes(owner.set), input=compile_value(owner.input),
        )  # fmt: skip

    def _tasks(self, owner: model.Pipeline) -> tuple[Task, ...]:
        places = {task.name: place for place, task in enumerate(owner.tasks)}
        tasks = [self._task(task, owner, places) for task in owner.tasks]
        read = {path[0] for task in tasks for path in _paths(_values_of_task(task))}
        return tuple(task._replace(kept=task.name in read) for task in tasks)

    def _task(self, task: model.Task, owner: model.Pipeline, places: dict[str, int]) -> Task:
        kind = self.kinds.get(task.kind)
        rules = [
            _rule(rule, place, places) for place, rule in enumerate(task.policy.rules if task.policy else ())
        ]
        shapes = kind.fields.keys if kind else {}
        compiled = partial(compile_value, statements=True, sql=sql_paths(shapes))
        raw = {key for key, row in shapes.items() if _is_raw(row.shape)}
        written = {key: value for key, value in task.fields.items() if key not in raw}
        input, fields = compiled(task.input), compiled(written)
        return Task(
            name=task.name,
            kind=task.kind,
            auth=task.auth,
            code={key: value for key, value in task.fields.items() if key in raw},
            fields=fields,
            input=input,
            set=_writes(task.set),
            skips=tuple(rule for rule in rules if rule.do == "skip"),
            rules=tuple(rule for rule in rules if rule.do != "skip"),
            has_policy=any(rule.do != "skip" for rule in rules),
            on_unmatched=(task.policy.on_unmatched if task.policy else None) or "continue",
            spec=effective(self.playbook, owner, task, self.kinds).values,
            secret_inputs=_secret_keys(task.input, input),
            secret_fields=_secret_keys(written, fields),
            kept=False,
            pure=bool(kind and kind.pure),
        )


def _targets(step: Step, steps: Mapping[str, Step]) -> list[str]:
    found: dict[str, None] = {}
    for arc in step.arcs:
        found.update(dict.fromkeys(steps if arc.targets is None else arc.targets))
    return [name for name in found if name in steps]


def _union(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _condition(when: model.When | None) -> Condition:
    if when is None or isinstance(when, bool):
        return when is None or when
    return compile_template(when)


def _writes(writes: Mapping[str, JSON]) -> tuple[Write, ...]:
    made = []
    for target, value in writes.items():
        scope, *path = target.split(".")
        made.append(Write(target, scope, tuple(path), compile_value(value)))
    return tuple(made)


def _rule(rule: model.Rule, place: int, places: Mapping[str, int]) -> Rule:
    return Rule(
        place="else" if rule.when is None else place,
        when=_condition(rule.when),
        do=rule.do,
        to=places[rule.to] if rule.to is not None else None,
        attempts=None if rule.attempts is None else compile_value(rule.attempts),
        backoff=rule.backoff or "fixed",
        delay=None if rule.delay is None else compile_value(rule.delay),
        max_delay=None if rule.max_delay is None else compile_value(rule.max_delay),
        jitter=rule.jitter or 0.0,
        set=_writes(rule.set),
    )


def _loop(loop: model.Loop) -> Loop:
    return Loop(
        items=compile_value(loop.items),
        iterator=loop.iterator,
        parallel=loop.mode == "parallel",
        width=None if loop.max_in_flight is None else compile_value(loop.max_in_flight),
        reduce={tuple(target.split(".")[1:]): name for target, name in loop.reduce.items()},
    )


def _is_raw(shape: object) -> bool:
    return isinstance(shape, TextShape) and not shape.templated


def _is_secret(value: Value) -> bool:
    return any(read.path[0] == "keychain" for read in value.reads)


def _secret_keys(written: Mapping[str, JSON], whole: Value) -> frozenset[str]:
    if not _is_secret(whole):
        return frozenset()
    return frozenset(
        key for key, value in written.items() if _is_secret(compile_value(value, statements=True))
    )


def _values_of_task(task: Task) -> Iterator[Value | Template]:
    yield from (task.fields, task.input, *(write.value for write in task.set))
    for rule in (*task.skips, *task.rules):
        if isinstance(rule.when, Template):
            yield rule.when
        yield from (each for each in (rule.attempts, rule.delay, rule.max_delay) if each is not None)
        yield from (write.value for write in rule.set)


def _of_arcs(arcs: Iterable[Arc]) -> Iterator[Picked]:
    for arc in arcs:
        if isinstance(arc.when, Template):
            yield Picked(arc.when, asks=True)
        if isinstance(arc.target, Template):
            yield Picked(arc.target, asks=False)
        yield from (Picked(write.value, asks=False) for write in arc.set)


def _paths(values: Iterable[Value | Template]) -> set[Path]:
    return {read.path for value in values for read in value.reads}


def _parts_read(path: Path, tasks: set[str]) -> tuple[str, ...]:
    """Which parts of outputs a path reads: "data", "ref", "meta", …; the whole is every part."""
    if path[0] != "output" and path[0] not in tasks:
        return ()
    return OUTPUT_FIELDS if len(path) == 1 else (str(path[1]),)


def _picks(values: Iterable[Picked]) -> tuple[Picked, ...]:
    return tuple(each for each in values if reads_data(each.value.reads))


def _ctx_targets(playbook: model.Playbook) -> set[str]:
    written = [each.set for each in playbook.pipelines]
    written += [arc.set for step in playbook.steps for arc in step.arcs or ()]
    for task in (task for each in playbook.pipelines for task in each.tasks):
        written += [task.set, *(rule.set for rule in (task.policy.rules if task.policy else ()))]
    return {target for targets in written for target in targets if target.startswith("ctx.")}
