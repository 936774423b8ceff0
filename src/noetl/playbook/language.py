"""The canonical language as one table of shapes: every key with its type and description.

The reader, the JSON Schema, the language page of the docs and the messages about unknown keys are derived from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, get_args

from noetl.cache import DeferredMapping, LazyMapping
from noetl.defaults import POOL
from noetl.playbook import model
from noetl.playbook.kinds import Kind, Kinds, Sandbox, record_of
from noetl.playbook.shapes import (
    AnyShape,
    BooleanShape,
    ChoiceShape,
    GuardShape,
    KeyShape,
    KindShape,
    ListShape,
    MapShape,
    NullShape,
    NumberShape,
    RecordShape,
    ReservedShape,
    RetiredKey,
    Shape,
    TemplateShape,
    TextShape,
    UnionShape,
)
from noetl.playbook.trigger_shapes import TRIGGER

API_VERSION = "noetl.io/v2"
REDUCERS = ("sum", "min", "max", "count", "append", "extend", "merge", "union", "any", "all", "first", "last")
DIRECTIVES = ("continue", "retry", "jump", "break", "fail", "skip")
BACKOFFS = ("none", "fixed", "linear", "exponential")

SCOPES: dict[str, str] = {
    "workload": "inputs of the execution: the defaults of the playbook merged with the request; read-only",
    "ctx": "state of the execution, shared by all steps; written by `set`",
    "saved": "values that outlive an execution, kept for the path of the playbook, as of the start of this execution; written by the `set` of a step that has succeeded",
    "step": "state of one run of a step; written by `set`, dropped when the step ends",
    "iter": "state of one loop iteration: `iter.<iterator>`, `iter.index` (from 0), `iter.parent`; written by `set`",
    "input": "values bound by the `input` of the step; in the rules and `set` of a task, the task's `input` is merged over it",
    "output": "result of the preceding task, step or loop: status, data, ref, error, meta, and the part of the tool",
    "keychain": "credentials: `keychain.<name>` or `keychain.<name>.<field>`",
    "execution_id": "id of the execution",
    "event": "the latest event: name, status, error, step, run; in a join also tokens",
    "_prev": "data of the preceding task",
    "_task": "name of the task",
    "_attempt": "number of this call of the task, from 1",
}

_MIGRATE = "`noetl migrate` rewrites it"
_SET = MapShape(AnyShape())


def _old(what: str, replacement: str) -> RetiredKey:
    return RetiredKey("old-dialect", f"{what} belongs to an older dialect; use {replacement} ({_MIGRATE})", replacement)


def _word(word: str, advice: str) -> RetiredKey:
    return RetiredKey("reserved-word", f'the language has no "{word}": {advice}')


_RESERVED_WORDS = {
    "case": _word("case", "write conditions in rules (spec.policy.rules) and on arcs (next.arcs[].when)"),
    "pipe": _word("pipe", "a list under `tool` is a pipeline"),
    "sink": _word("sink", "add a task that stores the data and returns a reference"),
    "retry": _word("retry", "write a rule with `do: retry` under spec.policy.rules of the task"),
}
_SET_UNDER_SPEC = {
    "set": RetiredKey("set-under-spec", '"set" is not allowed under spec; move it to the step, task or arc itself')
}
_PARALLEL = "parallel iterations are limited by loop.spec.max_in_flight, connections of postgres by spec.connections"
_POOLS = {
    "pool": RetiredKey(
        "unknown-key",
        "the worker pool belongs under the spec of the step; the connections of a postgres task are spec.connections",
        "connections: 10",
    ),
    "concurrency": RetiredKey("unknown-key", f'a spec has no "concurrency": {_PARALLEL}', "max_in_flight: 10"),
}
_NOT_OF_A_TASK = {
    "concurrency": _POOLS["concurrency"],
    **_SET_UNDER_SPEC,
    "validate": RetiredKey(
        "unknown-key", '"validate" belongs under the "spec" of a task', "tool: {spec: {validate: …}}"
    ),
}
_CONTROL = RetiredKey("control-outside-task", "control rules are allowed only in spec.policy.rules of a task")
_OLD_SETS = {
    "set_ctx": _old('"set_ctx"', "set: {ctx.…: …}"),
    "set_iter": _old('"set_iter"', "set: {iter.…: …}"),
    "set_vars": _old('"set_vars"', "set: {step.…: …}"),
    "set_shared": _old('"set_shared"', "set: {ctx.…: …} with loop.spec.policy.reduce"),
    "set_prev": _old('"set_prev"', "set: {step.…: …}"),
}

_TIMEOUT = UnionShape(
    (
        NumberShape(0),
        RecordShape(
            "timeout",
            "Separate timeouts in seconds for the phases of a call.",
            {
                "connect": KeyShape(NumberShape(0), "seconds to establish a connection"),
                "read": KeyShape(NumberShape(0), "seconds to wait for the next piece of a response"),
                "total": KeyShape(NumberShape(0), "seconds for the whole call"),
            },
        ),
    )
)
_STORE = RecordShape(
    "result store",
    "The store for large results.",
    {
        "kind": KeyShape(
            TextShape(),
            "the type of the store: `files`, `sqlite`, `postgres`, `s3`, `gs`, `az` or `nats_object`",
            required=True,
        ),
        "bucket": KeyShape(TextShape(), "name of the bucket or directory"),
        "prefix": KeyShape(TextShape(), "prefix of every key"),
        "auth": KeyShape(TextShape(name=True), "keychain entry with the credentials for the store"),
    },
)
_RESULT = RecordShape(
    "spec.result",
    "How results are stored.",
    {
        "inline_max_bytes": KeyShape(
            NumberShape(0, whole=True),
            "largest output in bytes that is stored in the log; a larger one goes to the result store",
            default=model.INLINE_BYTES_MAX,
        ),
        "store": KeyShape(_STORE, "the store for large results"),
        "ttl": KeyShape(
            UnionShape((NumberShape(0), TextShape())),
            "how long the result is kept: seconds, or a duration such as `24h` or `7d`; by default as long as its execution",
        ),
        "select": KeyShape(
            MapShape(TextShape()),
            "values of the data to keep in the log beside the reference: name → path in the data; read as output.meta.select.<name>",
        ),
        "compression": KeyShape(ChoiceShape(("none", "gzip")), "compression of the stored result", default="none"),
    },
)
_RETRY = RecordShape(
    "spec.retry",
    "Tries of one call: a call that fails is repeated before rules see its output. The log has one event for all tries.",
    {
        "attempts": KeyShape(
            NumberShape(1, whole=True), "maximum number of tries, including the first", default=model.RETRY_ATTEMPTS
        ),
        "delay": KeyShape(NumberShape(0), "seconds before the next try; without it the call is repeated immediately"),
        "backoff": KeyShape(ChoiceShape(BACKOFFS), "how the delay grows with each try", default=model.BACKOFF),
        "max_delay": KeyShape(NumberShape(0), "upper limit of the delay in seconds"),
        "on": KeyShape(
            ListShape(TextShape()),
            "kinds of errors after which the call is repeated; by default those with `error.retryable`",
            example="[http, timeout]",
        ),
    },
)
LIMITS = RecordShape(
    "limits",
    "Upper bounds. Exceeding one ends the execution or the frame with an error of kind `limit` or `runaway`.",
    {
        "calls": KeyShape(NumberShape(1, whole=True), "maximum number of tool calls in one frame", default=100_000),
        "in_flight": KeyShape(
            NumberShape(1, whole=True),
            "maximum number of frames of one execution that run at the same time",
            default=1_000,
        ),
        "tokens": KeyShape(
            NumberShape(1, whole=True),
            "maximum number of live tokens: waiting tokens and running steps",
            default=10_000,
        ),
        "firings": KeyShape(NumberShape(1, whole=True), "maximum number of step runs", default=1_000_000),
        "iterations": KeyShape(
            NumberShape(1, whole=True), "maximum number of iterations of one loop", default=1_000_000
        ),
        "depth": KeyShape(NumberShape(1, whole=True), "maximum nesting of child playbooks", default=16),
        "value_bytes": KeyShape(
            NumberShape(1, whole=True),
            "maximum size of one value of `ctx`, `step` or `iter`, as JSON; values over 64 KiB are kept in the result store",
            default=model.VALUE_BYTES_MAX,
        ),
        "state_bytes": KeyShape(
            NumberShape(1, whole=True),
            "maximum size of what an execution keeps in memory: tokens, running steps and their values, as JSON",
            default=model.STATE_BYTES_MAX,
        ),
        "compensations": KeyShape(
            NumberShape(1, whole=True),
            "maximum number of completed runs that have a `compensate`: their inputs and outputs are kept",
            default=10_000,
        ),
        "max_payload_bytes": KeyShape(NumberShape(0, whole=True), "the same as spec.result.inline_max_bytes"),
    },
)
_RATE = RecordShape(
    "rate",
    "A token bucket: it holds `count` permits at first, and refills by `count` permits in `per_s` seconds.",
    {
        "count": KeyShape(NumberShape(1, whole=True), "permits that can be used at once", required=True, example="100"),
        "per_s": KeyShape(NumberShape(0.001), "seconds in which the bucket refills", required=True, example="60"),
    },
)
_LIMIT = RecordShape(
    "limit",
    "A limit that all executions, workers and servers share. Calls and runs over the limit wait: first come, first served.",
    {
        "key": KeyShape(
            TextShape(templated=True),
            "the name of what is limited, such as an account or a host; limits with the same key are shared, even between playbooks",
            required=True,
            example='"shop {{ workload.account }}"',
        ),
        "in_flight": KeyShape(NumberShape(1, whole=True), "maximum number at the same time"),
        "rate": KeyShape(_RATE, "maximum number in a time", example="{count: 100, per_s: 60}"),
        "respect_retry_after": KeyShape(
            BooleanShape(),
            "an HTTP response with `Retry-After` holds up everything with this key until then",
            default=False,
        ),
    },
)
_CONCURRENCY = RecordShape(
    "concurrency",
    "Limits how many executions of the playbook run at the same time.",
    {
        "key": KeyShape(
            TextShape(templated=True),
            "executions with the same key share the limit; without a key, all executions of the playbook do",
            example='"{{ workload.account }}"',
        ),
        "limit": KeyShape(NumberShape(1, whole=True), "maximum number of executions with the same key", required=True),
        "when_full": KeyShape(
            ChoiceShape(("queue", "refuse", "replace")),
            "a new execution waits for its turn, is refused, or cancels the oldest one and takes its place",
            default=model.WHEN_FULL,
        ),
    },
)
_STEP_LIMITS = RecordShape("limits", LIMITS.doc, {"calls": LIMITS.keys["calls"]})


_POOL = KeyShape(
    TextShape(name=True), "the worker pool that runs the tasks; embedded execution has a single pool", default=POOL
)


# Of the kinds that run programs. A layer above a task restricts all of them.
_SANDBOX = KeyShape(
    record_of(Sandbox, "sandbox"), "restricts files and network of `python` and `shell` tasks", nullable=True
)


_INSTEAD = {  # what to use instead of a placeholder
    "placement": "spec.pool, which selects workers",
    "partitioning": "spec.pool, which selects workers",
    "quotas": "executor.spec.policy.limits",
    "tracing": "the setting NOETL_TRACES of servers and workers",
    "telemetry": "the settings of servers and workers",
    "quantum": "the fields of a task of kind quantum",
}


def _reserved(*names: str) -> dict[str, KeyShape]:
    """Placeholders of the source documents that have no effect yet (D101)."""
    return {name: KeyShape(ReservedShape(_INSTEAD.get(name)), "reserved") for name in names}


_Keys: TypeAlias = Mapping[str, KeyShape]


def _spec_keys(kinds: Kinds) -> _Keys:
    """The keys of every `spec` that takes part in the layering of task specs (D60, D63)."""
    shared = {
        "timeout": KeyShape(_TIMEOUT, "timeout of one call in seconds, or {connect, read, total}", example="30"),
        "result": KeyShape(_RESULT, "how results are stored"),
        "retry": KeyShape(_RETRY, "how often a call that fails is repeated before rules see its output"),
    }

    def own(name: str) -> KeyShape:
        keys = DeferredMapping(lambda: {**shared, **kinds[name].knobs.keys})
        shape = RecordShape(f"spec.{name}", f"Settings for tasks of kind `{name}`.", keys)
        return KeyShape(shape, f"settings that apply only to tasks of kind `{name}`")

    return {**shared, **{name: own(name) for name in kinds}, "sandbox": _SANDBOX, **_reserved("resources")}


def _rules(then: RecordShape, title: str) -> Shape:
    moved = {
        key: RetiredKey("missing-then", f'"{key}" belongs under "then": write else: {{then: {{{key}: …}}}}', "then:")
        for key in (*then.keys, *_OLD_SETS)
    }
    beside = {
        key: RetiredKey("missing-then", f'"{key}" belongs under "then": write then: {{{key}: …}}', "then:")
        for key in then.keys
    }
    otherwise = RecordShape(
        "else", "The action if no earlier rule matches.", {"then": KeyShape(then, "what to do")}, moved
    )
    return ListShape(
        RecordShape(
            title,
            "Rules are tried in order, and the first whose `when` is true applies. `else` is the last rule.",
            {
                "when": KeyShape(GuardShape(), "the condition of the rule"),
                "then": KeyShape(then, "what to do"),
                "else": KeyShape(
                    UnionShape((otherwise, NullShape())),
                    "replaces `when` in the last rule: applies if no earlier rule matches",
                ),
            },
            {"expr": _old('"expr"', "when"), **beside},
        )
    )


THEN = RecordShape(
    "then",
    "The action of a task rule.",
    {
        "do": KeyShape(
            ChoiceShape(DIRECTIVES),
            "what happens next: `continue` with the next task, `retry` this task, `jump` to a task, `break`: end the pipeline successfully, `fail`: end it with an error, or `skip` this task",
            example="continue",
        ),
        "attempts": KeyShape(
            NumberShape(1, whole=True, templated=True),
            "with retry: maximum number of calls, including the first",
            default=model.RETRY_ATTEMPTS,
        ),
        "backoff": KeyShape(
            ChoiceShape(BACKOFFS), "with retry: how the delay grows with each call", default=model.BACKOFF
        ),
        "delay": KeyShape(NumberShape(0, templated=True), "with retry: seconds before the next call"),
        "max_delay": KeyShape(NumberShape(0, templated=True), "with retry: upper limit of the delay in seconds"),
        "jitter": KeyShape(
            NumberShape(0), "with retry: random variation of the delay, 0.2 means ±20 %; the drawn delay is recorded"
        ),
        "to": KeyShape(TextShape(name=True), "with jump: the task to continue with"),
        "message": KeyShape(
            TextShape(templated=True),
            "with fail: the message of the error; the error of the output becomes its `cause`",
            example='"order {{ input.id }} does not exist"',
        ),
        "details": KeyShape(
            MapShape(), "with fail: values for `error.details`; the error of the output becomes its `cause`"
        ),
        "set": KeyShape(
            _SET, "values to write to ctx.*, step.* and iter.* when this rule applies", example="{iter.page: 1}"
        ),
    },
    _OLD_SETS,
)
ALLOW = RecordShape(
    "then",
    "The decision of an admission rule.",
    {"allow": KeyShape(BooleanShape(), "true admits the token to the step, false does not", required=True)},
    {"do": _CONTROL},
)

TASK_POLICY = RecordShape(
    "task.spec.policy",
    "Rules that decide what happens after a task, depending on its output.",
    {
        "rules": KeyShape(_rules(THEN, "rule"), "rules in order; the first whose `when` is true applies"),
        "on_unmatched": KeyShape(
            ChoiceShape(("continue", "fail")),
            "what an error does if no rule matches it and there is no else",
            default=model.ON_UNMATCHED,
        ),
        "limits": KeyShape(_STEP_LIMITS, "maximum number of tool calls in a frame"),
        "limit": KeyShape(_LIMIT, "limits the calls of the task, across all executions"),
        "mode": KeyShape(ReservedShape(), "reserved"),
        **dict.fromkeys(
            ("before", "after", "finally"), KeyShape(ReservedShape("a task before or after this one"), "reserved")
        ),
    },
    wrong_types={
        "a list": RetiredKey(
            "bad-policy", "spec.policy must be a mapping with a list `rules`, not a list", "policy: {rules: […]}"
        ),
        "text": RetiredKey(
            "bad-policy", "spec.policy must be a mapping with a list `rules`, not text", "policy: {rules: […]}"
        ),
    },
)


def _task_spec(kind: Kind | None, spec: _Keys) -> RecordShape:
    own = kind.knobs.keys if kind is not None else {}
    keys = {
        **spec,
        **own,
        "validate": KeyShape(
            UnionShape((MapShape(), BooleanShape())),
            "JSON Schema for `output.data`; data that does not fit is an error of kind `validation`",
            example="{type: array, items: {type: object, required: [id]}}",
        ),
        "safe": KeyShape(
            BooleanShape(),
            "true declares that the call has no side effects, such as a read; `noetl what-if --live-if-safe` may then make it",
            default=False,
        ),
        "policy": KeyShape(TASK_POLICY, "rules that evaluate the output"),
    }
    retired = {name: each for name, each in _POOLS.items() if name not in keys}
    return RecordShape("task.spec", "Settings and rules of one task.", keys, {**_SET_UNDER_SPEC, **retired})


_PUBLIC_KINDS = {  # of plugins, and of the public NoETL
    "agent": "call the playbook of the agent with a task of kind `playbook`, or its service with `http`",
    "container": "install the plugin noetl-container: `pip install ./plugins/container` in a checkout of NoETL",
    "ducklake": "attach the lake in the SQL of a `duckdb` task: `ATTACH 'ducklake:…'` with `spec.external_access: true`",
    "mcp": "call the service with `http`",
    "provider": "declare a credential under `keychain`, and call the service with `http`",
    "rhai": "write the code in a `python` task",
    "script": "fetch the script with an `object` task, and run it with `files` of a `container` task",
    "snowflake": (
        "install the plugin noetl-snowflake: `pip install './plugins/snowflake[connector]'` in a checkout of NoETL"
    ),
    "snowflake_transfer": "read the rows with one task, and write them with another one: `snowflake` and `postgres`",
    "subscription": "start an execution for each message: `triggers` of kind `nats` or `webhook` at the root",
}


def _task_shape(kinds: Kinds, spec: _Keys) -> KindShape:
    """A task: the keys of every task, and the fields of its kind (D8, D9); or a `choose`, `while` or `until`."""
    others: dict[str, RecordShape] = {}
    task = KindShape(
        "task",
        "One tool call in the pipeline of a step.",
        LazyMapping(kinds, lambda name: _task(kinds[name], spec)),
        RecordShape("task", "A task of an unknown kind.", _task_keys(None, spec), _TASK_RETIRED, extra=AnyShape()),
        others,
        _PUBLIC_KINDS,
    )
    others |= _decisions(task)
    return task


def _decisions(task: KindShape) -> dict[str, RecordShape]:
    """The items of a pipeline that decide which tasks run (003 §14). They contain tasks, and each other."""
    tasks = KeyShape(UnionShape((task, ListShape(task))), "one task, or a list of tasks that run in order")
    otherwise = RecordShape("else branch", "The branch if no guard is true.", {"then": tasks})
    branch = RecordShape(
        "branch",
        "A guard, and the tasks that run if it is the first guard that is true. `else` is the last branch.",
        {
            "when": KeyShape(GuardShape(), "the guard; `output.data` is that of the task before"),
            "then": tasks,
            "else": KeyShape(UnionShape((otherwise, NullShape())), "replaces `when` and `then` in the last branch"),
        },
    )
    passes = {
        "while": "the guard, evaluated before each pass: the tasks run as long as it is true",
        "until": "the guard, evaluated after each pass: the tasks run again until it is true",
    }
    bodies: dict[str, KeyShape] = {
        "choose": KeyShape(ListShape(branch), "the branches, in order; without a match no branch runs", required=True)
    }
    for name, doc in passes.items():
        when = KeyShape(GuardShape(), doc, required=True, example='"{{ step.more }}"')
        loop = RecordShape(f"{name} loop", f"The guard and the tasks of `{name}`.", {"when": when, "tool": tasks})
        bodies[name] = KeyShape(loop, "the guard and the tasks", required=True)
    shared = {
        "name": KeyShape(TextShape(name=True), "name in logs, and target of jumps", example="route"),
        "desc": KeyShape(TextShape(), "description for readers"),
    }
    docs = {
        "choose": "Runs the tasks of the first branch whose guard is true. It replaces a task.",
        "while": "Repeats its tasks as long as the guard is true. It replaces a task.",
        "until": "Runs its tasks, and repeats them until the guard is true. It replaces a task.",
    }
    return {name: RecordShape(name, docs[name], {**shared, name: key}) for name, key in bodies.items()}


def _task_keys(kind: Kind | None, spec: _Keys) -> dict[str, KeyShape]:
    return {
        "name": KeyShape(TextShape(name=True), "name of the task, unique in its pipeline", example="fetch_page"),
        "kind": KeyShape(TextShape(), "kind of the tool", required=True, example="http"),
        "desc": KeyShape(TextShape(), "description for readers"),
        "auth": KeyShape(TextShape(name=True), "keychain entry with the credentials of the tool"),
        "input": KeyShape(_SET, "input of the tool"),
        "set": KeyShape(_SET, "values to write to ctx.*, step.* and iter.* if the output is ok"),
        "spec": KeyShape(_task_spec(kind, spec), "settings and rules"),
    }


_TASK_RETIRED = {
    "eval": _old('"eval"', "spec.policy.rules"),
    "args": _old('"args"', "input"),
    "policy": RetiredKey("unknown-key", 'the "policy" of a task belongs under "spec"', "spec: {policy: …}"),
    "timeout": RetiredKey("unknown-key", 'the "timeout" of a task belongs under "spec"', "spec: {timeout: …}"),
    "do": RetiredKey("unknown-key", '"do" belongs in a rule: spec.policy.rules of a task', "spec: {policy: …}"),
    **{
        name: RetiredKey("misplaced-key", f'"{name}" is an item of its own in the list under "tool", without a kind')
        for name in model.DECISIONS
    },
    **_OLD_SETS,
    **_RESERVED_WORDS,
}


def _task(kind: Kind, spec: _Keys) -> RecordShape:
    optional = {name: key._replace(required=kind.free_input and key.required) for name, key in kind.fields.keys.items()}
    keys = _task_keys(kind, spec)
    if kind.free_input:
        keys["input"] = KeyShape(_SET, "arguments of the tool, with names that you choose")
    else:
        own = RecordShape(f"input of {kind.name}", kind.fields.doc, {**optional, "auth": keys["auth"]})
        keys["input"] = KeyShape(own, "fields of the tool; they may also be written beside `kind`")
    retired = {name: each for name, each in _TASK_RETIRED.items() if name not in optional}
    return RecordShape(f"{kind.name} task", kind.doc, {**optional, **keys}, retired)


def _loop(shared_spec: _Keys) -> RecordShape:
    mode = KeyShape(
        ChoiceShape(("sequential", "parallel")),
        "run iterations one after the other, or in parallel",
        default="sequential",
    )
    flight = KeyShape(
        NumberShape(1, whole=True, templated=True),
        "with mode parallel: number of iterations that run at the same time",
        default=model.DEFAULT_MAX_IN_FLIGHT,
    )
    policy = RecordShape(
        "loop.spec.policy",
        "Where iterations run, and how their writes are combined.",
        {
            "exec": KeyShape(
                ChoiceShape(("distributed", "local")),
                "preferred placement of the iterations; `local` has no effect, and the results are the same",
                default="distributed",
            ),
            "mode": mode._replace(doc="the same as loop.spec.mode"),
            "max_in_flight": flight._replace(doc="the same as loop.spec.max_in_flight"),
            "reduce": KeyShape(
                MapShape(TextShape()),
                "reducers that combine the writes of parallel iterations: ctx path → reducer",
                example="{ctx.total: sum}",
            ),
            "reducers": KeyShape(ReservedShape("reduce"), "reserved"),
            "backpressure": KeyShape(ReservedShape("max_in_flight"), "reserved"),
            "ordering": KeyShape(ReservedShape("mode: sequential"), "reserved"),
            **_reserved("partitioning", "placement"),
        },
        {"rules": _CONTROL, "do": _CONTROL},
    )
    spec = RecordShape(
        "loop.spec",
        "How a loop runs.",
        {
            "mode": mode,
            "max_in_flight": flight,
            "policy": KeyShape(policy, "placement and reducers"),
            **shared_spec,
        },
        _NOT_OF_A_TASK,
    )
    return RecordShape(
        "loop",
        "Runs the pipeline of a step once for each item of a collection.",
        {
            "in": KeyShape(
                UnionShape((TemplateShape(), ListShape(AnyShape()), MapShape())),
                "the items: a list, a mapping, or a template that returns a list, a mapping or a reference",
                required=True,
                example='"{{ workload.items }}"',
            ),
            "iterator": KeyShape(
                TextShape(name=True), "name of the current item, read as iter.<iterator>", required=True, example="item"
            ),
            "spec": KeyShape(spec, "mode, parallelism, reducers"),
        },
    )


def _step_policy() -> RecordShape:
    admit = RecordShape(
        "admit",
        "Decides whether a token may enter the step. The server evaluates it before the step is scheduled.",
        {
            "rules": KeyShape(
                _rules(ALLOW, "admission rule"),
                "rules in order; the first whose `when` is true decides; if none matches, the token is not admitted",
            ),
            "join": KeyShape(
                ChoiceShape(("each", "all")),
                "`each` runs the step for every token; `all` waits for all tokens that can still arrive and runs the step once",
                default="each",
            ),
            "mode": KeyShape(ReservedShape(), "reserved"),
        },
    )
    lifecycle = RecordShape(
        "lifecycle",
        "Time limits of the step.",
        {
            "timeout_s": KeyShape(NumberShape(0), "maximum seconds from the moment at which a worker begins the step"),
            "deadline_s": KeyShape(NumberShape(0), "maximum seconds from the creation of the token"),
        },
    )
    failure = RecordShape(
        "failure",
        "How a failed iteration affects the loop.",
        {
            "mode": KeyShape(
                ChoiceShape(("fail_fast", "best_effort")),
                "stop at the first failed iteration, or run all iterations",
                default="fail_fast",
            ),
            "tolerate": KeyShape(
                UnionShape((NumberShape(0, whole=True), TextShape())),
                'with best_effort: how many iterations may fail, as a number or a percentage: 5 or "25%"',
            ),
        },
    )
    emit = RecordShape("emit", "Reserved.", {"events": KeyShape(ReservedShape(), "reserved")})
    return RecordShape(
        "step.spec.policy",
        "Admission, time limits and failure handling of a step.",
        {
            "admit": KeyShape(admit, "admission rules and joins"),
            "lifecycle": KeyShape(lifecycle, "time limits of the step"),
            "failure": KeyShape(failure, "how failed iterations affect the loop"),
            "limits": KeyShape(_STEP_LIMITS, "maximum number of tool calls in a frame"),
            "limit": KeyShape(_LIMIT, "limits the runs of the step, across all executions"),
            "emit": KeyShape(emit, "reserved"),
            **_reserved("tracing", "quotas", "placement"),
            "compensation": KeyShape(ReservedShape("compensate"), "reserved"),
        },
        {"rules": _CONTROL, "do": _CONTROL},
    )


def _arcs() -> RecordShape:
    arc = RecordShape(
        "arc",
        "A connection to another step.",
        {
            "step": KeyShape(
                TextShape(templated=True), "the target: the name of a step, `end`, or a template", required=True
            ),
            "when": KeyShape(
                GuardShape(), "the guard; without a guard the arc is taken after every success and after no failure"
            ),
            "set": KeyShape(_SET, "values to write to ctx.* and step.* when this arc is taken"),
            "to": KeyShape(ListShape(TextShape(name=True)), "the possible targets if `step` is a template"),
            "spec": KeyShape(ReservedShape(), "reserved"),
        },
        {
            "args": _old('"args"', "set on the arc, and input on the target step"),
            "input": RetiredKey(
                "payload-on-arc",
                '"input" belongs to the target step, not to the arc; the arc may set ctx.*',
                "set: {ctx.…: …}",
            ),
            "expr": _old('"expr"', "when"),
        },
    )
    spec = RecordShape(
        "next.spec",
        "How the arcs are chosen.",
        {
            "mode": KeyShape(
                ChoiceShape(("exclusive", "inclusive")),
                "take the first arc whose guard is true, or all of them",
                default="exclusive",
            ),
            "policy": KeyShape(ReservedShape(), "reserved"),
        },
        _NOT_OF_A_TASK,
    )
    return RecordShape(
        "next",
        "The arcs that a step takes when it ends.",
        {
            "spec": KeyShape(spec, "how the arcs are chosen"),
            "arcs": KeyShape(ListShape(arc), "the arcs; their guards are evaluated in this order", required=True),
        },
        {
            "step": RetiredKey("bad-next", "arcs are written as a list: next: {arcs: [{step: …}]}", "arcs:"),
            "set": RetiredKey(
                "unknown-key", '"set" belongs to an arc or to the step, not to next', "arcs: [{step: …, set: …}]"
            ),
        },
        wrong_types={
            "a list": _old('a list under "next"', "next: {spec: {mode: …}, arcs: […]}"),
            "text": RetiredKey(
                "bad-next", "next must be a mapping with a list `arcs`, not text", "next: {arcs: [{step: …}]}"
            ),
        },
    )


def _step(shared_spec: _Keys, task: KindShape) -> RecordShape:
    spec = RecordShape(
        "step.spec",
        "Policy of the step, and defaults for its tasks.",
        {
            "policy": KeyShape(_step_policy(), "admission, time limits, failure handling"),
            "pool": _POOL,
            "lease": KeyShape(
                ReservedShape("the setting NOETL_LEASE: a worker renews one lease for all frames that it runs"),
                "reserved",
            ),
            **shared_spec,
        },
        {"next_mode": _old('"next_mode"', "next.spec.mode"), **_NOT_OF_A_TASK},
    )
    loop = _loop(shared_spec)
    return RecordShape(
        "step",
        "A step takes a token, runs its tasks, and passes tokens on along its arcs.",
        {
            "step": KeyShape(TextShape(name=True), "name of the step", required=True, example="start"),
            "desc": KeyShape(TextShape(), "description for readers"),
            "input": KeyShape(
                _SET, "values that are evaluated when a token for the step is created, and read as input.*"
            ),
            "spec": KeyShape(spec, "policy of the step, and defaults for its tasks"),
            "loop": KeyShape(
                UnionShape((loop, ListShape(loop))),
                "runs the tasks once for each item; a list of loops is nested, with the outermost first",
            ),
            "tool": KeyShape(
                UnionShape((task, ListShape(task))),
                "one task, or a list of tasks that run in order; `choose`, `while` and `until` may replace a task",
            ),
            "set": KeyShape(
                _SET,
                "values to write to ctx.* and step.* when the step is done, before its arcs are evaluated; a value that reads `event`, `output.status` or `output.error` is also written after a failure",
            ),
            "next": KeyShape(_arcs(), "the arcs to other steps"),
            "compensate": KeyShape(
                _compensation(shared_spec, task),
                "undoes a completed run of the step if the execution fails later or is cancelled",
            ),
        },
        {
            "when": _old('"when" on a step', "spec.policy.admit.rules"),
            "args": _old('"args"', "input"),
            "vars": _old('"vars"', "set: {step.…: …}"),
            "eval": _old('"eval"', "spec.policy.rules of the task"),
            "name": RetiredKey("unknown-key", 'the name of a step is the value of "step"', "step: …"),
            **{
                name: RetiredKey(
                    "misplaced-key", f'"{name}" belongs under "tool", where it replaces a task', f"tool: [{name}: …]"
                )
                for name in model.DECISIONS
            },
            **_RESERVED_WORDS,
        },
    )


def _compensation(shared_spec: _Keys, task: KindShape) -> RecordShape:
    """What undoes a completed run of a step (D116)."""
    policy = RecordShape(
        "compensate.spec.policy",
        "Time limits of the compensation.",
        {key: _step_policy().keys[key] for key in ("lifecycle", "limits")},
        {"rules": _CONTROL, "do": _CONTROL},
    )
    spec = RecordShape(
        "compensate.spec",
        "Policy of the compensation, and defaults for its tasks.",
        {"policy": KeyShape(policy, "time limits"), "pool": _POOL, **shared_spec},
        _SET_UNDER_SPEC,
    )
    return RecordShape(
        "compensate",
        "Undoes a completed run of the step if the execution fails later, or is cancelled with compensation.",
        {
            "desc": KeyShape(TextShape(), "description for readers"),
            "tool": KeyShape(
                UnionShape((task, ListShape(task))),
                "one task, or a list of tasks that run in order; input, output and step are those of the run",
                required=True,
            ),
            "spec": KeyShape(spec, "policy of the compensation, and defaults for its tasks"),
        },
        _RESERVED_WORDS,
    )


def _notification(shared_spec: _Keys, task: KindShape) -> RecordShape:
    compensation = _compensation(shared_spec, task)
    spec = compensation.keys["spec"].shape
    assert isinstance(spec, RecordShape)
    policy = spec.keys["policy"].shape
    assert isinstance(policy, RecordShape)
    policy = policy._replace(title="notify.spec.policy", doc="Time limits of the notification.")
    keys = {**spec.keys, "policy": KeyShape(policy, "time limits")}
    spec = spec._replace(title="notify.spec", doc="Policy of the notification, and defaults for its tasks.", keys=keys)
    return RecordShape(
        "notification",
        "Notifies people or systems about an execution. It runs as a separate execution, which cannot change the first one.",
        {
            "desc": KeyShape(TextShape(), "description for readers"),
            "on": KeyShape(
                ListShape(ChoiceShape(get_args(model.NotifyEvent))),
                "when to notify: `failed`: it ended with an error; `finished`: it ended, with any status; `waiting`: a task waits for a signal; `late`: it takes longer than executor.spec.expected_s",
                required=True,
                example="[failed]",
            ),
            "when": KeyShape(GuardShape(), "a further condition; it reads `execution`, `event` and `workload`"),
            "tool": KeyShape(
                UnionShape((task, ListShape(task))),
                "one task, or a list of tasks that run in order; their templates read `execution`, `event` and `workload`",
                required=True,
            ),
            "spec": KeyShape(spec, "policy of the notification, and defaults for its tasks"),
        },
        _RESERVED_WORDS,
    )


def _block(step: RecordShape) -> RecordShape:
    keys = {name: step.keys[name] for name in ("desc", "input", "loop", "tool", "set", "spec")}
    keys["input"] = KeyShape(_SET, "defaults for the `input` of the tasks that call the block; they are not templates")
    return RecordShape("workbook block", "A named pipeline that tasks of kind `workbook` call.", keys, _RESERVED_WORDS)


_SECRET = UnionShape(
    (
        TextShape(),
        NumberShape(),
        RecordShape(
            "secret source",
            "The source of a value.",
            {
                "env": KeyShape(TextShape(), "name of an environment variable"),
                "file": KeyShape(TextShape(), "path of a file"),
            },
        ),
    )
)
CREDENTIALS: dict[str, tuple[str, dict[str, str]]] = {
    "env": ("An environment variable.", {"variable": "name of the variable; by default the name of the entry"}),
    "file": ("The content of a file.", {"path": "path of the file"}),
    "stored": (
        "A value that NoETL stores encrypted.",
        {"key": "key of the stored value; by default the name of the entry"},
    ),
    "secret_manager": (
        "A value from a secret manager.",
        {
            "provider": "the secret manager: vault, aws, gcp or env",
            "key": "key of the value in the secret manager; by default the name of the entry",
            "version": "version of the value; by default the latest",
        },
    ),
    "postgres_credential": (
        "Connection parameters of a PostgreSQL database.",
        {
            "dsn": "connection string that contains all parameters",
            "host": "",
            "port": "",
            "user": "",
            "password": "",
            "database": "",
        },
    ),
    "nats_credential": (
        "Address and login of a NATS server.",
        {
            "url": "nats://host:port or tls://host:port, several with commas; it may contain user and password",
            "user": "",
            "password": "",
            "token": "instead of user and password",
            "creds": "instead of user and password: text of a `.creds` file",
            "nkey": "instead of user and password: seed of an nkey, which begins with `SU`",
        },
    ),
    "bearer": ("A token for `Authorization: Bearer`.", {"token": "the token"}),
    "basic": ("User and password.", {"user": "", "password": ""}),
    "oauth2_client": (
        "OAuth 2.0 client credentials. The token is refreshed automatically.",
        {"token_url": "", "client_id": "", "client_secret": "", "scope": ""},
    ),
    "aws_credential": (
        "Keys for S3 and services that are compatible with it.",
        {
            "access_key_id": "",
            "secret_access_key": "",
            "session_token": "token of temporary keys",
            "region": "by default AWS_REGION of the worker",
            "endpoint": "address of an S3-compatible service, such as https://minio.example.com",
        },
    ),
    "gcp_credential": (
        "A service account of Google Cloud.",
        {"service_account": "the JSON text of its key file"},
    ),
    "azure_credential": (
        "Access to an account of Azure Blob Storage.",
        {
            "account": "name of the storage account",
            "key": "access key of the account",
            "sas_token": "shared access signature, instead of a key",
            "endpoint": "address of a service that is compatible with Azure Blob Storage",
        },
    ),
}


def _keychain() -> KindShape:
    shared = {
        "name": KeyShape(TextShape(name=True), "name of the entry, read as keychain.<name>", required=True),
        "kind": KeyShape(TextShape(), "source of the credential", required=True),
        "desc": KeyShape(TextShape(), "description for readers"),
    }
    kinds = {}
    for kind, (doc, fields) in CREDENTIALS.items():
        own = {name: KeyShape(_SECRET, words or name.replace("_", " ")) for name, words in fields.items()}
        if kind == "secret_manager":
            own["provider"] = KeyShape(ChoiceShape(("vault", "aws", "gcp", "env")), fields["provider"])
        kinds[kind] = RecordShape(f"{kind} entry", doc, {**shared, **own})
    unknown = RecordShape("keychain entry", "A credential of an unknown kind.", shared, extra=AnyShape())
    return KindShape("keychain entry", "A credential that the playbook needs.", kinds, unknown)


def _executor(shared_spec: _Keys) -> RecordShape:
    defaults = RecordShape(
        "defaults",
        "Defaults for all tasks, overridden by inner `spec` keys.",
        {
            "timeout": KeyShape(_TIMEOUT, "the same as spec.timeout"),
            "timeouts": KeyShape(_TIMEOUT, "the same as spec.timeout"),
            "resources": KeyShape(ReservedShape(), "reserved"),
        },
    )
    results = RecordShape(
        "results",
        "Defaults for results, overridden by inner `spec.result` keys.",
        {
            "inline_max_bytes": KeyShape(NumberShape(0, whole=True), "the same as spec.result.inline_max_bytes"),
            "store": KeyShape(_STORE, "the same as spec.result.store"),
            "reference_first": KeyShape(
                BooleanShape(), "true states what always holds: large results become references"
            ),
        },
    )
    policy = RecordShape(
        "executor.spec.policy",
        "Limits and defaults of the whole playbook.",
        {
            "limits": KeyShape(LIMITS, "upper bounds"),
            "concurrency": KeyShape(_CONCURRENCY, "limits how many executions run at the same time"),
            "defaults": KeyShape(defaults, "defaults for all tasks"),
            "results": KeyShape(results, "defaults for results"),
            "lifecycle": _step_policy().keys["lifecycle"],
            "failure": _step_policy().keys["failure"],
            **_reserved("placement", "cost", "cost_model", "quantum", "tracing", "quotas", "sandbox"),
        },
        {"rules": _CONTROL, "do": _CONTROL},
    )
    spec = RecordShape(
        "executor.spec",
        "Defaults for every step and task.",
        {
            "entry_step": KeyShape(TextShape(name=True), "name of the first step", default=model.ENTRY_STEP),
            "expected_s": KeyShape(
                NumberShape(1), "an execution that takes more seconds than this is late; `notify` can report it"
            ),
            "methods": KeyShape(
                ListShape(ChoiceShape(("POST", "GET"))),
                "methods with which a request to `/run/<path>` of a server runs the playbook: with POST the body is the workload, with GET the query string; `[]`: none",
                default=list(model.RUN_METHODS),
            ),
            "policy": KeyShape(policy, "limits and defaults"),
            "pool": _POOL,
            **_reserved("tracing", "telemetry", "placement"),
            **shared_spec,
        },
        _NOT_OF_A_TASK,
    )
    return RecordShape(
        "executor",
        "How the playbook runs.",
        {
            "profile": KeyShape(
                ChoiceShape(("local", "distributed")), "intended environment; it selects nothing, and the check says so"
            ),
            "version": KeyShape(
                TextShape(), "runtime that the playbook was written for: `noetl-runtime/2`; others are a warning"
            ),
            "spec": KeyShape(spec, "limits, and defaults for every step and task"),
        },
        {"keychain": RetiredKey("unknown-key", 'declare credentials under the root key "keychain"', "keychain:")},
    )


INPUT_TYPES: tuple[model.InputType, ...] = get_args(model.InputType)
INPUT_FORMATS = ("email", "ipv4", "time", "uri", "uuid")


def _value_keys() -> dict[str, KeyShape]:
    """The keys that describe a value: an input, or the items of a list."""
    bound = UnionShape((NumberShape(), TextShape()))
    return {
        "type": KeyShape(ChoiceShape(INPUT_TYPES), "type of the value", required=True, example="string"),
        "desc": KeyShape(TextShape(), "description for readers and callers"),
        "enum": KeyShape(ListShape(AnyShape()), "the allowed values", example="[daily, weekly]"),
        "pattern": KeyShape(
            TextShape(), "with string: RE2 pattern that the whole text must match", example='"[A-Z]{3}"'
        ),
        "min": KeyShape(bound, "smallest number, earliest date, or minimum length of a string, list or map"),
        "max": KeyShape(bound, "largest number, latest date, or maximum length of a string, list or map"),
        "format": KeyShape(ChoiceShape(INPUT_FORMATS), "with string: form of the text"),
    }


INPUT = RecordShape(
    "input",
    "An input of the playbook. It is required unless it has a default, or says `required: false`.",
    {
        **_value_keys(),
        "items": KeyShape(
            RecordShape("items", "The items of a list.", _value_keys()), "with list: what each item must be"
        ),
        "default": KeyShape(
            AnyShape(), "value for a request that gives none; it may be written under `workload` instead"
        ),
        "required": KeyShape(
            BooleanShape(), "false: without a value it is null; by default an input without a default is required"
        ),
        "secret": KeyShape(
            BooleanShape(),
            "true: a text that is stored encrypted and never in the log; tasks read it as keychain.<name>",
        ),
    },
)


def language(kinds: Kinds) -> RecordShape:
    """The whole document (D3)."""
    metadata = RecordShape(
        "metadata",
        "Name, path and description of the playbook.",
        {
            "name": KeyShape(TextShape(), "name for readers", required=True),
            "path": KeyShape(
                TextShape(), "path of the playbook in the catalog", required=True, example="examples/hello"
            ),
            "version": KeyShape(UnionShape((TextShape(), NumberShape())), "version that the author maintains"),
            "description": KeyShape(TextShape(), "purpose of the playbook"),
            "expose_as_tool": KeyShape(
                BooleanShape(),
                "offer it to agents as a tool of its own, with the arguments under `input`: see `noetl mcp`",
            ),
            "labels": KeyShape(
                MapShape(UnionShape((TextShape(), NumberShape(), BooleanShape()))),
                "labels of its executions, by which `noetl list --label` finds them; values become texts",
            ),
        },
    )
    spec = _spec_keys(kinds)
    task = _task_shape(kinds, spec)
    step = _step(spec, task)
    return RecordShape(
        "playbook",
        "A playbook: the steps to run, with their tools, inputs and connections.",
        {
            "apiVersion": KeyShape(
                ChoiceShape((API_VERSION,)), "version of the language", required=True, example=API_VERSION
            ),
            "kind": KeyShape(ChoiceShape(("Playbook",)), "type of the document", required=True, example="Playbook"),
            "metadata": KeyShape(metadata, "name and path of the playbook", required=True),
            "keychain": KeyShape(ListShape(_keychain()), "credentials that the playbook needs"),
            "executor": KeyShape(_executor(spec), "limits and defaults"),
            "workload": KeyShape(
                MapShape(),
                "inputs with their defaults; the request is merged over them, and they never change during a run; `input` declares their types",
            ),
            "input": KeyShape(
                MapShape(INPUT),
                "types of the inputs, by name: a request with other keys or with values that do not fit is refused",
                example="{day: {type: date, desc: the day to load}}",
            ),
            "triggers": KeyShape(
                ListShape(TRIGGER),
                "what starts executions automatically after the playbook was registered on a server: schedules, webhooks, messages",
            ),
            "notify": KeyShape(
                ListShape(_notification(spec, task)),
                "notifications that are sent when an execution ends, waits or is late",
            ),
            "workflow": KeyShape(ListShape(step), "the steps", required=True),
            "workbook": KeyShape(MapShape(_block(step)), "named pipelines that several steps can call"),
            "libs": KeyShape(
                MapShape(TextShape()),
                "modules that the code of `python` tasks can import, by file name; `noetl register` adds those that are beside the file",
                example='{dates.py: "def first_day(): ..."}',
            ),
        },
        {
            "vars": RetiredKey(
                "old-dialect",
                'the language has no root key "vars": write inputs under workload, and state with set: {ctx.…: …}',
                "workload:",
            ),
            "steps": RetiredKey("unknown-key", 'write the steps under "workflow"', "workflow:"),
            "credentials": RetiredKey("unknown-key", 'write credentials under "keychain"', "keychain:"),
        },
    )
