"""The canonical language as one table of shapes: every key, its type, what it is for.

The reader, the JSON Schema, the language page of the docs and the messages about unknown keys all come from it.
"""

from __future__ import annotations

from noetl.playbook import model
from noetl.playbook.kinds import Kind, Kinds
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

API_VERSION = "noetl.io/v2"
REDUCERS = ("sum", "min", "max", "count", "append", "extend", "merge", "union", "any", "all", "first", "last")
DIRECTIVES = ("continue", "retry", "jump", "break", "fail", "skip")
BACKOFFS = ("none", "fixed", "linear", "exponential")

SCOPES: dict[str, str] = {
    "workload": "inputs of the execution: the defaults of the playbook merged with the request; read-only",
    "ctx": "state of the execution, shared by all steps; written by `set`",
    "step": "state of one run of a step; written by `set`, dropped when the step ends",
    "iter": "state of one loop iteration: `iter.<iterator>`, `iter.index` (from 0), `iter.parent`; written by `set`",
    "input": "values bound by the `input` of the step; in the rules and `set` of a task, the task's `input` is merged over it",
    "output": "result of the preceding task, step or loop: status, data, ref, error, meta, and the part of the tool",
    "keychain": "credentials: `keychain.<name>` or `keychain.<name>.<field>`",
    "execution_id": "id of the execution",
    "event": "the event that has just ended the step: name, status, error, step, run; in a join also tokens",
    "_prev": "data of the preceding task",
    "_task": "name of the task",
    "_attempt": "number of this call of the task, from 1",
}

_MIGRATE = "`noetl migrate` rewrites it"
_SET = MapShape(AnyShape())


def _old(what: str, wrong_types: str) -> RetiredKey:
    return RetiredKey(
        "old-dialect", f"{what} belongs to an older dialect: use {wrong_types}; {_MIGRATE}", wrong_types
    )


def _word(word: str, advice: str) -> RetiredKey:
    return RetiredKey("reserved-word", f'"{word}" does not exist: {advice}')


_RESERVED_WORDS = {
    "case": _word("case", "conditions stand in rules (spec.policy.rules) and on arcs (next.arcs[].when)"),
    "pipe": _word("pipe", "a list under `tool` is a pipeline"),
    "sink": _word("sink", "a task that stores returns a reference; write it as one more task"),
    "retry": _word("retry", "write a rule with `do: retry` under the task's spec.policy.rules"),
}
_SET_UNDER_SPEC = {
    "set": RetiredKey(
        "set-under-spec", '"set" must not stand under spec: move it to the step, task or arc itself'
    )
}
_CONTROL = RetiredKey(
    "control-outside-task",
    "control rules stand in a task's spec.policy.rules; here they would have no meaning",
)
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
            "Seconds, by what is waited for.",
            {
                "connect": KeyShape(NumberShape(0), "seconds until a connection stands"),
                "read": KeyShape(NumberShape(0), "seconds between two pieces of an answer"),
                "total": KeyShape(NumberShape(0), "seconds for the whole call"),
            },
        ),
    )
)
_STORE = RecordShape(
    "result store",
    "Where large results go.",
    {
        "kind": KeyShape(TextShape(), "`files`, `sqlite`, `postgres`, `s3`, `nats_object`", required=True),
        "bucket": KeyShape(TextShape(), "name of the bucket or folder"),
        "prefix": KeyShape(TextShape(), "put before every key"),
        "auth": KeyShape(TextShape(name=True), "keychain entry for the store"),
    },
)
_RESULT = RecordShape(
    "spec.result",
    "How results are kept.",
    {
        "inline_max_bytes": KeyShape(
            NumberShape(0, whole=True),
            "a larger output goes to the result store (D51)",
            default=model.INLINE_BYTES_MAX,
        ),
        "store": KeyShape(_STORE, "where it goes"),
        "ttl": KeyShape(
            UnionShape((NumberShape(0), TextShape())),
            "how long it is kept: seconds, or `24h`, `7d`; else with its execution",
        ),
        "select": KeyShape(
            MapShape(TextShape()),
            "small values that stay beside the reference: name → path in the data; read as output.meta.select.<name>",
        ),
        "compression": KeyShape(ChoiceShape(("none", "gzip")), "how it is written", default="none"),
    },
)
_RETRY = RecordShape(
    "spec.retry",
    "Retry inside the tool (D32): one final output comes out of it. Prefer a rule with `do: retry`, which is recorded.",
    {
        "attempts": KeyShape(NumberShape(1, whole=True), "calls in all"),
        "delay": KeyShape(NumberShape(0), "seconds between two"),
        "backoff": KeyShape(ChoiceShape(BACKOFFS), "how the delay grows"),
    },
)
LIMITS = RecordShape(
    "limits",
    "Upper bounds; passing one ends the execution, or the frame, with kind `limit` or `runaway` (D27, D70).",
    {
        "calls": KeyShape(NumberShape(1, whole=True), "tool calls of one frame", default=100_000),
        "in_flight": KeyShape(
            NumberShape(1, whole=True), "frames of one execution that may be out at once", default=1_000
        ),
        "tokens": KeyShape(
            NumberShape(1, whole=True),
            "live tokens: those that wait, and the runs they became",
            default=10_000,
        ),
        "firings": KeyShape(NumberShape(1, whole=True), "firings of steps", default=1_000_000),
        "iterations": KeyShape(NumberShape(1, whole=True), "iterations of one loop", default=1_000_000),
        "depth": KeyShape(NumberShape(1, whole=True), "child playbooks inside each other", default=16),
        "max_payload_bytes": KeyShape(NumberShape(0, whole=True), "the same as spec.result.inline_max_bytes"),
    },
)
_STEP_LIMITS = RecordShape("limits", LIMITS.doc, {"calls": LIMITS.keys["calls"]})


_POOL = KeyShape(
    TextShape(name=True), "the workers that may run it; embedded there is one for all", default=model.POOL
)


def _spec_keys(kinds: Kinds) -> dict[str, KeyShape]:
    """What may stand under any `spec` that feeds the layering of task specs (D60, D63)."""
    shared = {
        "timeout": KeyShape(_TIMEOUT, "seconds for one call, or {connect, read, total} (D33)", example="30"),
        "result": KeyShape(_RESULT, "how results are kept"),
        "retry": KeyShape(_RETRY, "retry inside the tool (D32)"),
    }
    own = {
        kind.name: KeyShape(
            RecordShape(
                f"spec.{kind.name}", f"For tasks of kind `{kind.name}` only.", {**shared, **kind.knobs.keys}
            ),
            f"applies to tasks of kind `{kind.name}` only (D63)",
        )
        for kind in kinds.values()
    }
    return {**shared, **own}


def _rules(then: RecordShape, title: str) -> Shape:
    moved = {
        key: RetiredKey(
            "missing-then", f'"{key}" stands under "then": write else: {{then: {{{key}: …}}}}', "then:"
        )
        for key in (*then.keys, *_OLD_SETS)
    }
    beside = {
        key: RetiredKey("missing-then", f'"{key}" stands under "then": write then: {{{key}: …}}', "then:")
        for key in then.keys
    }
    otherwise = RecordShape(
        "else", "What holds when no rule before it does.", {"then": KeyShape(then, "what to do")}, moved
    )
    return ListShape(
        RecordShape(
            title,
            "The first rule whose `when` holds decides; `else` stands last.",
            {
                "when": KeyShape(GuardShape(), "the condition"),
                "then": KeyShape(then, "what to do"),
                "else": KeyShape(
                    UnionShape((otherwise, NullShape())),
                    "instead of `when`: holds when nothing before it does",
                ),
            },
            {"expr": _old('"expr"', "when"), **beside},
        )
    )


THEN = RecordShape(
    "then",
    "What a task rule does.",
    {
        "do": KeyShape(ChoiceShape(DIRECTIVES), "the directive", example="continue"),
        "attempts": KeyShape(
            NumberShape(1, whole=True, templated=True),
            "retry: calls in all, the first included (D24)",
            default=model.RETRY_ATTEMPTS,
        ),
        "backoff": KeyShape(ChoiceShape(BACKOFFS), "retry: how the delay grows (D25)", default=model.BACKOFF),
        "delay": KeyShape(NumberShape(0, templated=True), "retry: seconds before the next call"),
        "max_delay": KeyShape(NumberShape(0, templated=True), "retry: the delay never grows beyond this"),
        "jitter": KeyShape(NumberShape(0), "retry: 0.2 means ±20 %, drawn once and recorded (D87)"),
        "to": KeyShape(TextShape(name=True), "jump: the task to go on with"),
        "set": KeyShape(
            _SET, "writes to ctx.*, step.*, iter.* when this rule is taken (D10)", example="{iter.page: 1}"
        ),
    },
    _OLD_SETS,
)
ALLOW = RecordShape(
    "then",
    "Whether the token may enter.",
    {"allow": KeyShape(BooleanShape(), "true: the step is admitted", required=True)},
    {"do": _CONTROL},
)

TASK_POLICY = RecordShape(
    "task.spec.policy",
    "What follows from a task's output.",
    {
        "rules": KeyShape(
            _rules(THEN, "rule"), "asked from top to bottom, the first that holds wins", required=True
        ),
        "on_unmatched": KeyShape(
            ChoiceShape(("continue", "fail")),
            "when no rule holds and there is no else (D23)",
            default=model.ON_UNMATCHED,
        ),
        "limits": KeyShape(_STEP_LIMITS, "the budget of calls of a frame (D87)"),
        **dict.fromkeys(("mode", "before", "after", "finally"), KeyShape(ReservedShape(), "reserved (D64)")),
    },
    wrong_types={
        "a list": RetiredKey(
            "bad-policy", "spec.policy is a mapping with a list `rules`, not a list", "policy: {rules: […]}"
        ),
        "text": RetiredKey(
            "bad-policy", "spec.policy is a mapping with a list `rules`", "policy: {rules: […]}"
        ),
    },
)


def _task_spec(kind: Kind | None, kinds: Kinds) -> RecordShape:
    own = kind.knobs.keys if kind is not None else {}
    keys = {**_spec_keys(kinds), **own, "policy": KeyShape(TASK_POLICY, "rules on the output")}
    return RecordShape("task.spec", "Knobs and rules of one task.", keys, _SET_UNDER_SPEC)


def task_shape(kinds: Kinds) -> KindShape:
    """A task: what every task has, and the fields of its kind (D8, D9)."""
    return KindShape(
        "task",
        "One tool call of a step's pipeline.",
        {kind.name: _task(kind, kinds) for kind in kinds.values()},
        RecordShape(
            "task", "A task of an unknown kind.", _task_keys(None, kinds), _TASK_RETIRED, extra=AnyShape()
        ),
    )


def _task_keys(kind: Kind | None, kinds: Kinds) -> dict[str, KeyShape]:
    return {
        "name": KeyShape(TextShape(name=True), "its name in the pipeline (D8)", example="fetch_page"),
        "kind": KeyShape(TextShape(), "which tool", required=True, example="http"),
        "desc": KeyShape(TextShape(), "for people"),
        "auth": KeyShape(TextShape(name=True), "a keychain entry that the tool signs in with (D57)"),
        "input": KeyShape(_SET, "what the tool is called with"),
        "set": KeyShape(_SET, "writes to ctx.*, step.*, iter.* when the output is ok (D28)"),
        "spec": KeyShape(_task_spec(kind, kinds), "knobs and rules"),
    }


_TASK_RETIRED = {
    "eval": _old('"eval"', "spec.policy.rules"),
    "args": _old('"args"', "input"),
    "policy": RetiredKey("unknown-key", 'a task\'s "policy" stands under "spec"', "spec: {policy: …}"),
    "timeout": RetiredKey("unknown-key", 'a task\'s "timeout" stands under "spec"', "spec: {timeout: …}"),
    **_OLD_SETS,
    **_RESERVED_WORDS,
}


def _task(kind: Kind, kinds: Kinds) -> RecordShape:
    optional = {
        name: key._replace(required=kind.free_input and key.required)
        for name, key in kind.fields.keys.items()
    }
    keys = _task_keys(kind, kinds)
    if kind.free_input:
        keys["input"] = KeyShape(_SET, "arguments, by names of your own")
    else:
        own = RecordShape(f"input of {kind.name}", kind.fields.doc, {**optional, "auth": keys["auth"]})
        keys["input"] = KeyShape(own, "the tool's fields; they may stand beside `kind` as well (D9)")
    retired = {name: each for name, each in _TASK_RETIRED.items() if name not in optional}
    return RecordShape(f"{kind.name} task", kind.doc, {**optional, **keys}, retired)


def _loop(kinds: Kinds) -> RecordShape:
    mode = KeyShape(
        ChoiceShape(("sequential", "parallel")), "one after the other, or together", default="sequential"
    )
    flight = KeyShape(
        NumberShape(1, whole=True, templated=True),
        "parallel: how many at once, exactly (D49)",
        default=model.DEFAULT_MAX_IN_FLIGHT,
    )
    policy = RecordShape(
        "loop.spec.policy",
        "How iterations are spread and their writes folded.",
        {
            "exec": KeyShape(
                ChoiceShape(("distributed", "local")),
                "an intent; results are the same (D43)",
                default="distributed",
            ),
            "mode": mode._replace(doc="the same as loop.spec.mode (D64)"),
            "max_in_flight": flight._replace(doc="the same as loop.spec.max_in_flight (D64)"),
            "reduce": KeyShape(
                MapShape(TextShape()),
                "ctx path → reducer, for writes of parallel iterations (D47)",
                example="{ctx.total: sum}",
            ),
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
            **_spec_keys(kinds),
        },
        _SET_UNDER_SPEC,
    )
    return RecordShape(
        "loop",
        "Runs the pipeline once for each item of a collection.",
        {
            "in": KeyShape(
                UnionShape((TemplateShape(), ListShape(AnyShape()), MapShape())),
                "the items: a list, a mapping, or a template that gives one, or a Ref (D44)",
                required=True,
                example='"{{ workload.items }}"',
            ),
            "iterator": KeyShape(
                TextShape(name=True), "iter.<iterator> is the item", required=True, example="item"
            ),
            "spec": KeyShape(spec, "mode, width, reducers"),
        },
    )


def _step_policy() -> RecordShape:
    admit = RecordShape(
        "admit",
        "Whether a token may enter, decided by the server before the step is scheduled (D35).",
        {
            "rules": KeyShape(
                _rules(ALLOW, "admission rule"), "the first whose `when` holds decides; none: not admitted"
            ),
            "join": KeyShape(
                ChoiceShape(("each", "all")),
                "`all`: fire once, with all tokens that can still arrive (D36)",
                default="each",
            ),
            "mode": KeyShape(ReservedShape(), "reserved (D64)"),
        },
    )
    lifecycle = RecordShape(
        "lifecycle",
        "How long the step may take (D33).",
        {
            "timeout_s": KeyShape(NumberShape(0), "seconds from step.started"),
            "deadline_s": KeyShape(NumberShape(0), "seconds from the making of the token"),
        },
    )
    failure = RecordShape(
        "failure",
        "What a failed iteration means for the loop (D48).",
        {
            "mode": KeyShape(
                ChoiceShape(("fail_fast", "best_effort")),
                "stop at the first, or run all",
                default="fail_fast",
            ),
            "tolerate": KeyShape(
                UnionShape((NumberShape(0, whole=True), TextShape())),
                'best_effort: so many may fail, 5 or "25%" (D87)',
            ),
        },
    )
    emit = RecordShape("emit", "Reserved.", {"events": KeyShape(ReservedShape(), "reserved (D64)")})
    return RecordShape(
        "step.spec.policy",
        "Admission, time and failure of a step.",
        {
            "admit": KeyShape(admit, "admission and joins"),
            "lifecycle": KeyShape(lifecycle, "timeouts"),
            "failure": KeyShape(failure, "failed iterations"),
            "limits": KeyShape(_STEP_LIMITS, "the budget of calls of a frame (D87)"),
            "emit": KeyShape(emit, "reserved (D64)"),
        },
        {"rules": _CONTROL, "do": _CONTROL},
    )


def _arcs() -> RecordShape:
    arc = RecordShape(
        "arc",
        "A way to another step.",
        {
            "step": KeyShape(
                TextShape(templated=True), "the target: a step, `end`, or a template (D41)", required=True
            ),
            "when": KeyShape(
                GuardShape(), "the guard; without one the arc carries every success, and no failure (D37)"
            ),
            "set": KeyShape(_SET, "writes when this arc is taken"),
            "to": KeyShape(ListShape(TextShape(name=True)), "limits the targets of a template (D41)"),
            "spec": KeyShape(ReservedShape(), "reserved (D64)"),
        },
        {
            "args": _old('"args"', "set on the arc, and input on the target step"),
            "input": RetiredKey(
                "payload-on-arc",
                '"input" stands on the target step, not on the arc; the arc may set ctx.*',
                "set: {ctx.…: …}",
            ),
            "expr": _old('"expr"', "when"),
        },
    )
    spec = RecordShape(
        "next.spec",
        "How arcs are chosen.",
        {
            "mode": KeyShape(
                ChoiceShape(("exclusive", "inclusive")),
                "the first arc that holds, or all that hold",
                default="exclusive",
            ),
            "policy": KeyShape(ReservedShape(), "reserved (D64)"),
        },
        _SET_UNDER_SPEC,
    )
    return RecordShape(
        "next",
        "Where tokens go when the step has ended.",
        {
            "spec": KeyShape(spec, "the mode"),
            "arcs": KeyShape(ListShape(arc), "asked in this order", required=True),
        },
        {
            "step": RetiredKey("bad-next", "an arc stands in a list: next: {arcs: [{step: …}]}", "arcs:"),
            "set": RetiredKey(
                "unknown-key",
                '"set" stands on an arc or on the step, not on next',
                "arcs: [{step: …, set: …}]",
            ),
        },
        wrong_types={
            "a list": _old('a list under "next"', "next: {spec: {mode: …}, arcs: […]}"),
            "text": RetiredKey(
                "bad-next", "next is a mapping with a list `arcs`", "next: {arcs: [{step: …}]}"
            ),
        },
    )


def _step(kinds: Kinds) -> RecordShape:
    spec = RecordShape(
        "step.spec",
        "Policy of a step, and defaults for its tasks.",
        {"policy": KeyShape(_step_policy(), "admission, time, failure"), "pool": _POOL, **_spec_keys(kinds)},
        {"next_mode": _old('"next_mode"', "next.spec.mode"), **_SET_UNDER_SPEC},
    )
    return RecordShape(
        "step",
        "A transition of the net: takes a token, runs its tasks, puts tokens on its arcs.",
        {
            "step": KeyShape(TextShape(name=True), "its name", required=True, example="start"),
            "desc": KeyShape(TextShape(), "for people"),
            "input": KeyShape(_SET, "bound when a token is made for the step; read as input.* (D28, D66)"),
            "spec": KeyShape(spec, "policy and defaults"),
            "loop": KeyShape(
                UnionShape((_loop(kinds), ListShape(_loop(kinds)))),
                "once for each item; a list of loops nests, outermost first (D45)",
            ),
            "tool": KeyShape(
                UnionShape((task_shape(kinds), ListShape(task_shape(kinds)))),
                "one task, or a pipeline of tasks",
            ),
            "set": KeyShape(_SET, "writes when the step is done, before its arcs are asked (D28)"),
            "next": KeyShape(_arcs(), "arcs to other steps"),
        },
        {
            "when": _old('"when" on a step', "spec.policy.admit.rules"),
            "args": _old('"args"', "input"),
            "vars": _old('"vars"', "set: {step.…: …}"),
            "eval": _old('"eval"', "spec.policy.rules of the task"),
            "name": RetiredKey("unknown-key", 'a step is named by "step"', "step: …"),
            **_RESERVED_WORDS,
        },
    )


def _block(kinds: Kinds) -> RecordShape:
    step = _step(kinds).keys
    keys = {name: step[name] for name in ("desc", "input", "loop", "tool", "set", "spec")}
    return RecordShape(
        "workbook block", "A named pipeline that tasks of kind `workbook` call (D59).", keys, _RESERVED_WORDS
    )


_SECRET = UnionShape(
    (
        TextShape(),
        NumberShape(),
        RecordShape(
            "secret source",
            "Where a value comes from.",
            {
                "env": KeyShape(TextShape(), "an environment variable"),
                "file": KeyShape(TextShape(), "a file"),
            },
        ),
    )
)
_CREDENTIALS: dict[str, tuple[str, dict[str, str]]] = {
    "env": ("An environment variable.", {"variable": "its name; without it the entry's own"}),
    "file": ("The content of a file.", {"path": "where it lies"}),
    "stored": ("A value kept encrypted by NoETL.", {"key": "its key; without it the entry's own name"}),
    "secret_manager": (
        "A value of a secret manager.",
        {
            "provider": "vault, aws, gcp or env",
            "key": "its key there",
            "version": "which version; the latest without it",
        },
    ),
    "postgres_credential": (
        "How to reach a PostgreSQL database.",
        {"dsn": "all in one", "host": "", "port": "", "user": "", "password": "", "database": ""},
    ),
    "bearer": ("A token for `Authorization: Bearer`.", {"token": "the token"}),
    "basic": ("User and password.", {"user": "", "password": ""}),
    "oauth2_client": (
        "Client credentials; refreshes itself.",
        {"token_url": "", "client_id": "", "client_secret": "", "scope": ""},
    ),
}


def _keychain() -> KindShape:
    shared = {
        "name": KeyShape(TextShape(name=True), "read as keychain.<name>", required=True),
        "kind": KeyShape(TextShape(), "where it comes from", required=True),
        "desc": KeyShape(TextShape(), "for people"),
    }
    kinds = {}
    for kind, (doc, fields) in _CREDENTIALS.items():
        own = {name: KeyShape(_SECRET, words or name.replace("_", " ")) for name, words in fields.items()}
        if kind == "secret_manager":
            own["provider"] = KeyShape(ChoiceShape(("vault", "aws", "gcp", "env")), fields["provider"])
        kinds[kind] = RecordShape(f"{kind} entry", doc, {**shared, **own})
    unknown = RecordShape("keychain entry", "A credential of an unknown kind.", shared, extra=AnyShape())
    return KindShape("keychain entry", "A credential that the playbook needs (D57, D84).", kinds, unknown)


def _executor(kinds: Kinds) -> RecordShape:
    defaults = RecordShape(
        "defaults",
        "Feeds the layering (D64).",
        {
            "timeout": KeyShape(_TIMEOUT, "the same as spec.timeout"),
            "timeouts": KeyShape(_TIMEOUT, "the same as spec.timeout"),
            "resources": KeyShape(ReservedShape(), "reserved"),
        },
    )
    results = RecordShape(
        "results",
        "Feeds the layering (D64).",
        {
            "inline_max_bytes": KeyShape(
                NumberShape(0, whole=True), "the same as spec.result.inline_max_bytes"
            ),
            "store": KeyShape(_STORE, "the same as spec.result.store"),
            "reference_first": KeyShape(BooleanShape(), "true always: large results become references"),
        },
    )
    policy = RecordShape(
        "executor.spec.policy",
        "Limits and defaults of the whole playbook.",
        {
            "limits": KeyShape(LIMITS, "upper bounds"),
            "defaults": KeyShape(defaults, "defaults for all tasks"),
            "results": KeyShape(results, "defaults for results"),
            "lifecycle": _step_policy().keys["lifecycle"],
            "failure": _step_policy().keys["failure"],
        },
        {"rules": _CONTROL, "do": _CONTROL},
    )
    spec = RecordShape(
        "executor.spec",
        "Defaults for every step and task (D60).",
        {
            "entry_step": KeyShape(TextShape(name=True), "the first step (D5)", default=model.ENTRY_STEP),
            "policy": KeyShape(policy, "limits and defaults"),
            "pool": _POOL,
            **_spec_keys(kinds),
        },
        _SET_UNDER_SPEC,
    )
    return RecordShape(
        "executor",
        "How the playbook is run.",
        {
            "profile": KeyShape(ChoiceShape(("local", "distributed")), "where it is meant to run"),
            "version": KeyShape(TextShape(), "the runtime it was written for"),
            "spec": KeyShape(spec, "defaults by layering"),
        },
        {
            "keychain": RetiredKey(
                "unknown-key", 'credentials are declared under the root key "keychain"', "keychain:"
            )
        },
    )


def language(kinds: Kinds) -> RecordShape:
    """The whole document (D3)."""
    metadata = RecordShape(
        "metadata",
        "What the playbook is called.",
        {
            "name": KeyShape(TextShape(), "for people", required=True),
            "path": KeyShape(
                TextShape(), "where the catalog keeps it", required=True, example="examples/hello"
            ),
            "version": KeyShape(UnionShape((TextShape(), NumberShape())), "of the author's own"),
            "description": KeyShape(TextShape(), "what it is for"),
            "labels": KeyShape(
                MapShape(UnionShape((TextShape(), NumberShape(), BooleanShape()))), "for searching"
            ),
        },
    )
    return RecordShape(
        "playbook",
        "A playbook: what is orchestrated, from where to where.",
        {
            "apiVersion": KeyShape(
                ChoiceShape((API_VERSION,)), "the version of the language", required=True, example=API_VERSION
            ),
            "kind": KeyShape(
                ChoiceShape(("Playbook",)), "what the document is", required=True, example="Playbook"
            ),
            "metadata": KeyShape(metadata, "name and path", required=True),
            "keychain": KeyShape(ListShape(_keychain()), "credentials that the playbook needs"),
            "executor": KeyShape(_executor(kinds), "limits and defaults"),
            "workload": KeyShape(
                MapShape(), "inputs and their defaults, merged with the request, then never changed"
            ),
            "workflow": KeyShape(ListShape(_step(kinds)), "the steps", required=True),
            "workbook": KeyShape(MapShape(_block(kinds)), "named blocks for reuse"),
        },
        {
            "vars": RetiredKey(
                "old-dialect",
                'there is no root "vars": inputs stand under workload, state is ctx.* written by set',
                "workload:",
            ),
            "steps": RetiredKey("unknown-key", 'the steps stand under "workflow"', "workflow:"),
            "credentials": RetiredKey("unknown-key", 'credentials stand under "keychain"', "keychain:"),
        },
    )
