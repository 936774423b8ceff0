"""The immutable model of a playbook in the canonical form.

`at` is the path of the YAML value that a part was read from. The document maps a path to line and column.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field

from noetl.output import JSON
from noetl.playbook.source import Path

Directive: TypeAlias = Literal["continue", "retry", "jump", "break", "fail", "skip"]
Backoff: TypeAlias = Literal["none", "fixed", "linear", "exponential"]
When: TypeAlias = str | bool  # a template, or a boolean
InputType: TypeAlias = Literal["string", "integer", "number", "boolean", "date", "datetime", "list", "map", "file"]
TriggerKind: TypeAlias = Literal["cron", "interval", "webhook", "nats"]
Catchup: TypeAlias = Literal["none", "last", "all"]
WhenFull: TypeAlias = Literal["queue", "refuse", "replace"]
NotifyEvent: TypeAlias = Literal["failed", "finished", "waiting", "late"]
Form: TypeAlias = Literal["task", "choose", "while", "until", "jump"]

END = "end"  # an arc may lead here without such a step (D6)
PIPELINE_END = ""  # not a task: what follows the last one
DECISIONS: tuple[Form, ...] = ("choose", "while", "until")  # items of a pipeline that decide which tasks run
COMPENSATE = "compensate"  # the block that undoes a run of a step: s/compensate, and its runs s#1/compensate#1
NOTIFY = "notify"  # the step of a notification; the blocks notify/0, notify/1, … hold its tasks

# Defaults of the language: the only definition, for the table of the language and for all who run or show it.
ENTRY_STEP = "start"  # D5
DEFAULT_MAX_IN_FLIGHT = 10  # iterations of a parallel loop that run at once (D49)
RUN_METHODS: tuple[str, ...] = ("POST",)  # of a request to /run/<path>
RETRY_ATTEMPTS = 3  # calls in all, the first included (D24)
BACKOFF: Backoff = "fixed"  # D25
WHEN_FULL: WhenFull = "queue"  # D113
ON_UNMATCHED: Literal["continue", "fail"] = "continue"  # D23
INLINE_BYTES_MAX = 65_536  # of an output or a value in the log; larger ones are in the result store (D51, D91)
VALUE_BYTES_MAX = 64 * 1024 * 1024  # the default of limits.value_bytes
STATE_BYTES_MAX = 256 * 1024 * 1024  # the default of limits.state_bytes


class Guard(Struct, frozen=True, kw_only=True):
    """An admission rule of a step: the first guard whose `when` is true decides."""

    when: When | None  # None: else
    allow: bool
    at: Path


class Rule(Struct, frozen=True, kw_only=True):
    """A rule of a task: the first rule whose `when` is true decides what happens next in the pipeline."""

    when: When | None  # None: else
    do: Directive
    to: str | None = None  # jump: a task of this pipeline
    attempts: int | str | None = None  # retry: maximum number of calls; None: RETRY_ATTEMPTS
    backoff: Backoff | None = None  # None: BACKOFF
    delay: float | str | None = None  # retry: seconds, or a template; None: immediately
    max_delay: float | str | None = None
    jitter: float | None = None
    message: str | None = None  # fail: the message of the error; None: that of the output
    details: dict[str, JSON] = {}  # fail: the details of the error
    set: dict[str, JSON] = {}
    at: Path


class Policy(Struct, frozen=True, kw_only=True):
    """The rules that decide what happens after a task."""

    rules: tuple[Rule, ...]
    on_unmatched: Literal["continue", "fail"] | None = None  # None: ON_UNMATCHED
    limits: dict[str, JSON] = {}
    whole: bool = True  # False: one of its rules could not be read
    limit: dict[str, JSON] = {}  # shared by all executions; empty: none (D113)
    at: Path


SAFE = "safe"  # spec.safe of a task: the call changes nothing outside


class Task(Struct, frozen=True, kw_only=True):
    """One tool call of a pipeline."""

    name: str
    kind: str
    desc: str | None = None
    auth: str | None = None  # a keychain entry
    fields: dict[str, JSON] = {}  # the fields of kinds with free `input`; otherwise empty
    input: dict[str, JSON] = {}  # input of the tool
    set: dict[str, JSON] = {}
    policy: Policy | None = None
    spec: dict[str, JSON] = {}  # as written on the task, without the policy
    form: Form = "task"  # as the author wrote it; the reader makes tasks of kind noop from the other forms
    after: str | None = None  # the task that follows it; None: the next one of the list
    at: Path


class Loop(Struct, frozen=True, kw_only=True):
    """Runs the pipeline once for each item."""

    items: JSON  # a template, a list or a mapping
    iterator: str
    mode: Literal["sequential", "parallel"] = "sequential"
    max_in_flight: int | str | None = None  # None: DEFAULT_MAX_IN_FLIGHT when parallel
    exec: Literal["distributed", "local"] | None = None
    reduce: dict[str, str] = {}  # "ctx.total" → "sum"
    spec: dict[str, JSON] = {}  # the part that takes part in the layering
    at: Path


class Arc(Struct, frozen=True, kw_only=True):
    """A connection to another step."""

    step: str  # a step, "end", or a template
    when: When | None = None  # None: every success
    set: dict[str, JSON] = {}
    to: tuple[str, ...] | None = None  # the possible targets of a template; None: any step
    at: Path


class Block(Struct, frozen=True, kw_only=True):
    """A named pipeline of the workbook, the compensation of a step, or the tasks of a notification."""

    name: str
    desc: str | None = None
    input: dict[str, JSON] = {}
    loops: tuple[Loop, ...] = ()
    tasks: tuple[Task, ...] = ()
    set: dict[str, JSON] = {}
    policy: dict[str, JSON] = {}
    spec: dict[str, JSON] = {}
    notifies: bool = False  # of a notification: its templates read the execution that it speaks of
    at: Path


class Step(Struct, frozen=True, kw_only=True):
    """A transition of the net: takes a token, runs its tasks, and passes tokens on along its arcs."""

    name: str
    desc: str | None = None
    input: dict[str, JSON] = {}
    loops: tuple[Loop, ...] = ()  # outermost first
    tasks: tuple[Task, ...] = ()
    set: dict[str, JSON] = {}
    admit: tuple[Guard, ...] | None = None  # None: every token enters
    join: Literal["each", "all"] | None = None  # None: not declared, the same as each
    mode: Literal["exclusive", "inclusive"] = "exclusive"
    arcs: tuple[Arc, ...] | None = None  # None: no `next`
    whole: bool = True  # False: a part of `next` could not be read
    compensate: Block | None = None  # what undoes a completed run (D116); None: nothing
    policy: dict[str, JSON] = {}  # lifecycle, failure, limits, limit
    spec: dict[str, JSON] = {}  # the part that takes part in the layering
    at: Path


Pipeline: TypeAlias = Step | Block  # a part that has tasks


class Credential(Struct, frozen=True, kw_only=True):
    """One entry of the keychain: the source of a secret, never the secret itself."""

    name: str
    kind: str
    fields: dict[str, JSON] = {}
    at: Path


class InputField(Struct, frozen=True, kw_only=True):
    """A declared input, or the items of a list (D104)."""

    name: str
    type: InputType
    desc: str | None = None
    default: JSON | UnsetType = UNSET  # UNSET: none is written here; `workload` may have one
    required: bool | None = None  # None: required if there is no default
    enum: tuple[JSON, ...] | None = None  # None: any value
    pattern: str | None = None  # of the whole text
    min: float | str | None = None  # of a number or date; of a text, list or map: its length
    max: float | str | None = None
    format: str | None = None
    items: InputField | None = None  # None: any items
    secret: bool = False
    whole: bool = True  # False: it could not be read
    at: Path


class Verify(Struct, frozen=True, kw_only=True):
    """How a webhook proves where it comes from: a signature of the body, or a token in a header."""

    secret: str  # a keychain entry
    header: str
    signed: bool  # False: the header holds the secret itself
    algorithm: Literal["sha256", "sha512", "sha1"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"


class Trigger(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What starts executions of the playbook automatically, where it is registered on a server (D112)."""

    name: str
    kind: TriggerKind
    workload: dict[str, JSON] = {}
    cron: str | None = None
    timezone: str = "UTC"
    every_s: float | None = None
    jitter_s: float = 0.0
    catchup: Catchup = "last"
    path: str | None = None  # of a webhook: it follows /hooks/
    method: str = "POST"
    verify: Verify | None = None  # None: the request needs an API token
    key: str | None = None  # requests or messages with the same key start one execution
    subject: str | None = None  # of messages; None: all of the stream
    stream: str | None = None  # of JetStream; None: messages that are not stored
    deliver: Literal["new", "all"] = "new"  # which messages of a stream: those since the registration, or all
    group: str | None = None  # of the receivers, of which one takes each message; None: derived from path and name
    auth: str | None = None  # a keychain entry with the address of NATS; None: the NATS of the server
    at: Path = ()

    @property
    def schedule(self) -> str:
        """When it fires, for people."""
        if self.kind == "cron":
            return f"{self.cron} {self.timezone}"
        if self.kind == "nats":
            parts = (self.stream and f"stream {self.stream}", self.subject and f"subject {self.subject}")
            return "NATS " + " ".join(each for each in parts if each)
        return f"every {self.every_s:g} s" if self.kind == "interval" else f"{self.method} /hooks/{self.path}"

    @property
    def is_timed(self) -> bool:
        return self.kind in ("cron", "interval")


class Notification(Struct, frozen=True, kw_only=True):
    """Tasks that run as an execution of their own when an execution of the playbook ends, waits or is late."""

    on: tuple[NotifyEvent, ...]
    when: When | None = None  # None: always
    block: Block
    at: Path


class Executor(Struct, frozen=True, kw_only=True):
    """How the playbook runs."""

    profile: Literal["local", "distributed"] | None = None
    version: str | None = None
    entry_step: str | None = None  # None: ENTRY_STEP
    expected_s: float | None = None  # an execution that takes longer is late; None: none is
    methods: tuple[str, ...] = RUN_METHODS  # with which a request to /run/<path> runs it
    policy: dict[str, JSON] = {}  # limits, concurrency, defaults, results
    spec: dict[str, JSON] = {}  # the part that takes part in the layering


class Playbook(Struct, frozen=True, kw_only=True):
    """A playbook. An execution refers to it by the digest of its text."""

    name: str
    path: str
    metadata: dict[str, JSON] = {}  # version, description, labels
    executor: Executor = field(default_factory=Executor)
    keychain: tuple[Credential, ...] = ()
    workload: dict[str, JSON] = {}
    inputs: tuple[InputField, ...] | None = None  # None: not declared, and `workload` takes any key
    steps: tuple[Step, ...] = ()
    blocks: tuple[Block, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    notifications: tuple[Notification, ...] = ()
    libs: dict[str, str] = {}  # modules for the code of `python` tasks: "pkg/dates.py" → its text (D108)

    @property
    def entry(self) -> str:
        """The name of the first step (D5)."""
        return self.executor.entry_step or ENTRY_STEP

    @property
    def compensations(self) -> tuple[Block, ...]:
        return tuple(step.compensate for step in self.steps if step.compensate is not None)

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """All parts that have tasks: steps, their compensations, blocks, then notifications."""
        return (*self.steps, *self.compensations, *self.blocks, *(each.block for each in self.notifications))
