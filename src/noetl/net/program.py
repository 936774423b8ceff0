"""The compiled net: what the engine runs, and what checks, drawings and explanations read.

Every part has its `source`: the part of the playbook that it was compiled from. `source.at` is its YAML path.
A list of loops becomes the outermost loop around a call of a block, which holds the inner loops (D45).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from noetl.net.origins import RefOrigins
from noetl.net.scopes import Place
from noetl.output import JSON
from noetl.playbook import model
from noetl.playbook.source import Path
from noetl.template.compile import Template, Value

if TYPE_CHECKING:  # only playbooks with `input` or `triggers`, and tasks with `spec.validate`, need them
    from noetl.net.inputs import Inputs
    from noetl.net.output_schema import OutputSchema
    from noetl.net.triggers import CompiledTrigger

Condition: TypeAlias = Template | bool  # False also for a guard that could not be compiled

ANYWHERE = "*"  # not a step: the target of an arc that may lead to any step
SAVED = "saved"  # the scope of values that outlive an execution
SECRET_INPUT = "input"  # the kind of the keychain entries of secret inputs
BODY = "body"  # the block inside a list of loops: s#1[3]/body#1


class TemplateUse(Struct, frozen=True, eq=False, gc=False):
    """A template and the place in the playbook where it is used."""

    place: Place
    path: Path
    template: Template
    owner: model.Pipeline
    task: model.Task | None  # None: it belongs to the step itself
    loop: int | None = None  # the index of the owner's loop that it belongs to


class Write(Struct, frozen=True, eq=False, gc=False):
    """One target of a `set`."""

    target: str  # "ctx.user.name"
    scope: str
    path: tuple[str, ...]
    value: Value
    origin: bool = False  # the value is a Ref by its origin (D99); only known for names that end in `_ref`


class CompiledRule(Struct, frozen=True, eq=False, gc=False):
    place: int | str  # its index in the rules, or "else"
    when: Condition
    do: model.Directive
    to: int | None  # jump: the place of the task; None also when there is no such task
    attempts: Value | None
    backoff: model.Backoff
    delay: Value | None
    max_delay: Value | None
    jitter: float
    message: Value | None  # fail: the message of its own error (D105)
    details: Value | None
    set: tuple[Write, ...]
    source: model.Rule
    implied: bool = False  # no author wrote it: it leads to the task that follows

    @property
    def always(self) -> bool:
        """Does it match every output?"""
        return self.when is True

    @property
    def title(self) -> str:
        """Its name in messages, which count from 1."""
        return f"rule {self.place + 1}" if isinstance(self.place, int) else f"rule {self.place}"


class CompiledLimit(Struct, frozen=True, eq=False, gc=False):
    """A limit that all executions share: of the runs of a step or the calls of a task (D113)."""

    key: Value
    in_flight: int | None  # at the same time; None: any number
    rate: tuple[int, float] | None  # count, seconds; None: no rate
    respect_retry_after: bool

    @property
    def words(self) -> str:
        """`3 at once, 100 per 60 s`: as the log names it."""
        found = [] if self.in_flight is None else [f"{self.in_flight} at once"]
        return ", ".join(found if self.rate is None else [*found, f"{self.rate[0]} per {self.rate[1]:g} s"])


class CompiledConcurrency(Struct, frozen=True, eq=False, gc=False):
    """A limit of the executions of a playbook (D113)."""

    key: Value | None  # None: all executions of the playbook share it
    limit: int
    when_full: model.WhenFull

    @property
    def words(self) -> str:
        return "1 execution" if self.limit == 1 else f"{self.limit} executions"


class CompiledTask(Struct, frozen=True, eq=False, gc=False):
    name: str
    kind: str
    auth: str | None
    code: dict[str, JSON]  # program code and other fields that are not templates
    fields: Value  # the other fields beside a free input
    input: Value
    set: tuple[Write, ...]
    skips: tuple[CompiledRule, ...]  # evaluated before the tool runs (D26)
    rules: tuple[CompiledRule, ...]
    has_policy: bool  # rules other than skips: a policy of skips only counts as none
    on_unmatched: Literal["continue", "fail"]
    spec: dict[str, JSON]
    secret_inputs: frozenset[str]  # these read the keychain: rules and `set` do not see them in `input` (D20)
    secret_fields: frozenset[str]
    kept: bool  # some template reads its output by name
    pure: bool
    source: model.Task
    refs: tuple[Path, ...] = ()  # the places in its input that are Refs by their origin (D99)
    schema: OutputSchema | None = None  # spec.validate; None: any data is good
    own: dict[str, JSON] = {}  # the tool's own part of an output whose call gave none, with its defaults (D95)
    playbook: object = None  # the same object for all tasks of a compiled playbook
    libs: Mapping[str, str] = {}  # of the playbook
    limit: CompiledLimit | None = None  # of its calls

    @property
    def written_rules(self) -> tuple[CompiledRule, ...]:
        """The rules after the call, as the author wrote them."""
        if not self.rules or not self.rules[-1].implied:  # implied rules are the last ones
            return self.rules
        return tuple(rule for rule in self.rules if not rule.implied)


class UsedFiles(NamedTuple):
    """The files beside the playbook that are a part of a task's code: scripts and modules."""

    digests: Mapping[str, str] = {}  # by path, relative to the playbook
    complete: bool = True  # False: the code may read other files, which only a call would show


FilesOfTask: TypeAlias = Callable[[CompiledTask, str | None], UsedFiles]  # None: the playbook has no folder here


class CompiledLoop(Struct, frozen=True, eq=False, gc=False):
    items: Value
    iterator: str
    parallel: bool
    width: Value | None  # None: model.DEFAULT_MAX_IN_FLIGHT when parallel, else 1
    reduce: Mapping[tuple[str, ...], str]
    origin: bool = False  # the items are a Ref by their origin (D99)


class ProjectedValue(Struct, frozen=True, eq=False, gc=False):
    """Control evaluates it when a run has ended; a worker evaluates the parts that read output.data (D52)."""

    value: Value | Template
    asks: bool  # only its truth is needed


class CompiledPipeline(Struct, frozen=True, eq=False, gc=False):
    """What runs in frames: the tasks of a step or of a block."""

    name: str
    block: bool
    input: Value
    loop: CompiledLoop | None
    tasks: tuple[CompiledTask, ...]
    set: tuple[Write, ...]
    failure_set: tuple[Write, ...]  # the part of `set` that is applied after a failure, too (D102)
    best_effort: bool
    tolerate: int | str | None
    calls_max: int
    value_bytes: int  # the largest value of a `set`
    timeout_s: float | None
    deadline_s: float | None
    picks: tuple[ProjectedValue, ...]  # the values of `set` and arcs that read output.data (D52)
    failure_picks: tuple[ProjectedValue, ...]  # the same for arcs that are evaluated after a failure
    reads_meta: bool  # some template reads output.meta, so it is recorded
    reads_ref: bool  # some template reads output.ref, so results of any size are stored (D51)
    reads_failed: bool  # some template of the playbook reads output.failed, so failed iterations are kept
    notifies: bool  # of a notification: the parts of its workload are scopes of its templates
    weighs_ctx: bool  # the playbook writes to so many paths that ctx may get too large (D55)
    pool: str  # the workers that run it
    source: model.Pipeline
    source_tasks: tuple[CompiledTask, ...]  # the author's tasks; `tasks` is one call when there are several loops
    limit: CompiledLimit | None = None  # of its runs


class CompiledArc(Struct, frozen=True, eq=False, gc=False):
    target: str | Template
    targets: tuple[str, ...] | None  # the steps that it may lead to; None: any
    when: Condition
    set: tuple[Write, ...]
    takes_failure: bool  # evaluated when the step has failed (D37)
    source: model.Arc

    @property
    def takes_every_success(self) -> bool:
        return self.when is True and not self.takes_failure


class CompiledGuard(Struct, frozen=True, eq=False, gc=False):
    when: Condition
    allow: bool
    source: model.Guard


class CompiledStep(Struct, frozen=True, eq=False, gc=False):
    pipeline: CompiledPipeline
    admit: tuple[CompiledGuard, ...] | None
    admit_reads: tuple[tuple[str, ...], ...]  # paths in ctx: a waiting token is tried again when one changes
    join: bool
    inclusive: bool
    arcs: tuple[CompiledArc, ...]
    source: model.Step

    @property
    def name(self) -> str:
        return self.pipeline.name


class CompiledNotification(Struct, frozen=True, eq=False, gc=False):
    when: Condition
    source: model.Notification


class Program(NamedTuple):
    playbook: model.Playbook
    steps: dict[str, CompiledStep]
    blocks: dict[str, CompiledPipeline]  # those of the workbook, bodies of lists of loops, compensations, notifications
    bits: dict[str, int]  # step → its bit
    reach: dict[str, int]  # step → the steps that its arcs lead to, directly or not, as bits
    limits: dict[str, int]
    templates: tuple[TemplateUse, ...]  # all templates of the playbook
    digest: str = ""  # digest of the playbook's text
    folder: str | None = None  # folder of the file from which it was read
    inputs: Inputs | None = None  # the declared inputs; None: `workload` takes any key
    triggers: tuple[CompiledTrigger, ...] = ()
    notifications: tuple[CompiledNotification, ...] = ()
    saves: bool = False  # some step writes saved.*
    saved_reads: frozenset[str] | None = frozenset()  # the names below saved.* that it reads; None: any
    concurrency: CompiledConcurrency | None = None
    limited: bool = False  # it has limits that other executions share
    asks: bool = False  # a task waits for a time or a signal
    faulty: frozenset[str] = frozenset()  # the steps with templates or guards that could not be compiled
    same: frozenset[str] = frozenset()  # the steps that were compiled for an earlier version, and are kept
    origins: RefOrigins | None = None  # None: no author wrote it
    identity: object = None  # that of its tasks
    has_values: bool = False  # a worker decides with it: the state has values instead of marks (D91)

    def pipeline(self, name: str, *, block: bool) -> CompiledPipeline:
        return self.blocks[name] if block else self.steps[name].pipeline

    @property
    def keychain(self) -> tuple[model.Credential, ...]:
        """The entries that the author declared, and those of secret inputs."""
        declared = self.playbook.keychain
        return declared if self.inputs is None else (*declared, *self.inputs.secrets)

    def keychain_of(self, execution_id: str) -> tuple[model.Credential, ...]:
        """The same for an execution. No other execution can read its secret inputs."""
        if self.inputs is None or not self.inputs.secrets:
            return self.playbook.keychain
        bound = {"execution": execution_id}
        return (*self.playbook.keychain, *(replace(each, fields=each.fields | bound) for each in self.inputs.secrets))

    @property
    def has_limits(self) -> bool:
        """Whether a step, a block or a task has a limit that other executions share."""
        pipelines = (*(step.pipeline for step in self.steps.values()), *self.blocks.values())
        return any(each.limit or any(task.limit for task in each.source_tasks) for each in pipelines)

    def uses(self, kind: str) -> bool:
        """Whether a step or a block that the author wrote has a task of the kind."""
        return any(task.kind == kind for pipeline in self.pipelines for task in pipeline.source_tasks)

    def compensation(self, step: str) -> CompiledPipeline:
        """What undoes a completed run of the step (D116)."""
        return self.blocks[f"{step}/{model.COMPENSATE}"]

    @property
    def pipelines(self) -> tuple[CompiledPipeline, ...]:
        """The steps, blocks and notifications that the author wrote."""
        written = self.playbook.pipelines[len(self.playbook.steps) :]
        blocks = dict.fromkeys(block.name for block in written)
        return (*(step.pipeline for step in self.steps.values()), *(self.blocks[name] for name in blocks))
