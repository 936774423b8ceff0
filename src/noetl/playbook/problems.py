"""Every problem code there is: how severe it is, which level of the check finds it, what it means and how to mend it.

The reference page docs/reference/problems.md is made from this table and from tests/fixtures/problems.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from noetl.errors import Mark, Problem, Related, Severity

Level: TypeAlias = Literal["L1", "L2", "L3", "L4", "L5", "L6"]

LEVELS: dict[Level, str] = {
    "L1": "YAML: the text itself",
    "L2": "Shape: keys, types and values",
    "L3": "Names: steps, tasks, scopes, credentials, references",
    "L4": "Templates and code: syntax, filters, guards",
    "L5": "Soundness of the net and of each pipeline",
    "L6": "Advice",
}


class Code(NamedTuple):
    """What a code stands for."""

    level: Level
    severity: Severity
    meaning: str
    remedy: str


CODES: dict[str, Code] = {
    # L1
    "yaml-syntax": Code("L1", "error", "The text is not YAML.", "Mend the place; indentation and quotes are the usual cause."),
    "yaml-encoding": Code("L1", "error", "The text is not UTF-8, or holds a control character.", "Save the file as UTF-8."),
    "yaml-too-large": Code("L1", "error", "A playbook may have 1 MiB of text.", "Move data into a file or a result store, or split the playbook."),
    "yaml-too-deep": Code("L1", "error", "Values may be nested 64 levels deep.", "Flatten the structure."),
    "yaml-too-many-values": Code("L1", "error", "A playbook may hold 200,000 values.", "Move data out of the playbook."),
    "yaml-alias-limit": Code("L1", "error", "Aliases may stand for 10,000 values in all.", "Write the values out, or share less."),
    "yaml-alias-cycle": Code("L1", "error", "An alias stands inside its own anchor, so the value would have no end.", "Break the circle."),
    "yaml-tag": Code("L1", "error", "YAML tags (`!name`, `!!str`) are refused: they make programs out of data.", "Remove the tag; put text in quotes."),
    "yaml-merge": Code("L1", "error", "The merge key `<<` belongs to YAML 1.1; NoETL reads YAML 1.2.", "Write the keys out, or alias a whole value (`spec: *defaults`)."),
    "yaml-key": Code("L1", "error", "A key of a mapping must be text.", "Put the key in quotes."),
    "yaml-documents": Code("L1", "error", "One file holds one playbook; a second document begins.", "Split the file at `---`."),
    "duplicate-key": Code("L1", "error", "The same key stands twice in one mapping; one of the two would be lost.", "Remove or rename one."),
    "bad-number": Code("L1", "error", "The number does not fit: whole numbers have 64 bits, others are finite.", "Put it in quotes to keep it as text."),
    # L2
    "not-a-playbook": Code("L2", "error", "The document is not a mapping with `apiVersion`, `kind`, `metadata` and `workflow`.", "Start from `noetl schema` or an example."),
    "unknown-key": Code("L2", "error", "Nothing reads this key. Nothing is ever dropped in silence (D4).", "Correct the spelling or remove the key."),
    "missing-key": Code("L2", "error", "A key that must be there is not.", "Add it."),
    "wrong-type": Code("L2", "error", "The value has another type than the key takes.", "Write a value of the type that the message names."),
    "bad-value": Code("L2", "error", "The value is not one that the key takes.", "Choose one that the message names."),
    "bad-name": Code("L2", "error", "Names begin with a letter or `_` and go on with letters, digits, `_` and `-`; task names must not hide a scope.", "Rename it."),
    "old-dialect": Code("L2", "error", "A construct of the older dialects v2 or v10 (D1).", "Run `noetl migrate FILE`, which rewrites it, or write the replacement that the message names."),
    "mixed-dialects": Code("L2", "error", "Constructs of two dialects in one document; dialects never mix (D1).", "Decide for one: best the canonical form."),
    "reserved-word": Code("L2", "error", "`case`, `pipe`, `sink` and `retry` blocks do not exist (D61).", "Use rules, the tool list, a tool that stores, or a rule with `do: retry`."),
    "reserved": Code("L2", "warning", "A placeholder of the language: it is accepted and has no effect (D64).", "Remove it, so that nobody counts on it."),
    "duplicate-step": Code("L2", "error", "Two steps have one name.", "Rename one."),
    "duplicate-task": Code("L2", "error", "Two tasks of one pipeline have one name (D8).", "Rename one."),
    "duplicate-name": Code("L2", "error", "Two entries of a list have one name.", "Rename one."),
    "duplicate-field": Code("L2", "error", "A field of a tool stands both beside `kind` and under `input` (D9).", "Keep one of the two."),
    "conflicting-values": Code("L2", "error", "The same setting is given twice with different values (D64).", "Keep one of the two."),
    "missing-then": Code("L2", "error", "A rule, or its `else`, says what to do under `then` (D11, D89).", "Write `then: {do: …}`."),
    "missing-do": Code("L2", "error", "`then` of a task rule must say `do`.", "Add `do: continue`, `retry`, `jump`, `break`, `fail` or `skip`."),
    "misplaced-key": Code("L2", "error", "The key has a meaning only beside another one, for example `tolerate` with `mode: best_effort`.", "Remove it, or change what it belongs to."),
    "no-effect": Code("L2", "warning", "The key has no effect beside this directive: `to` belongs to `jump`, `attempts` and `delay` to `retry`.", "Remove it, or change the directive."),
    "rule-order": Code("L2", "error", "`else` is the last rule, and there is one at most.", "Move it to the end."),
    "control-outside-task": Code("L2", "error", "Control directives (`do`) stand in a task's rules and nowhere else.", "Move the rules to the task's `spec.policy.rules`."),
    "set-under-spec": Code("L2", "error", "`set` stands on a step, a task, an arc, or in `then`; never elsewhere under `spec` (D10).", "Move it out of `spec`."),
    "bad-set-target": Code("L2", "error", "`set` writes to `ctx.*`, `step.*` or `iter.*` and nothing else (D29).", "Choose one of these scopes."),
    "payload-on-arc": Code("L2", "error", "An arc carries no payload of its own (004 §9): it may `set`, and the target binds its `input`.", "Write `set:` on the arc and `input:` on the target step."),
    "bad-policy": Code("L2", "error", "`task.spec.policy` is a mapping with a list `rules`.", "Write `policy: {rules: [...]}`."),
    "bad-next": Code("L2", "error", "`next` is a mapping with `arcs` and, if wanted, `spec`.", "Write `next: {arcs: [{step: …}]}`."),
    "else-skip": Code("L2", "error", "`do: skip` under `else` would skip the task always (D26).", "Give the rule a `when`, or remove the task."),
    "empty-step": Code("L2", "warning", "The step has neither `tool` nor `next`: it does nothing (D7).", "Give it work, or lead the arc to `end`."),
    "unknown-kind": Code("L2", "error", "No installed tool has this kind.", "Correct the spelling, or install the package that brings it."),
    "template-in-data": Code("L2", "warning", "`workload` and `keychain` are data and are never rendered: the braces stay as they are.", "Build the value where it is used."),
    "not-a-template": Code("L2", "error", "The value must be fixed text: a template can not stand here.", "Write the value out."),
    # L3
    "no-start": Code("L3", "error", "No step is the entry: neither `executor.spec.entry_step` nor a step `start` (D5).", "Name the first step `start`, or set `executor.spec.entry_step`."),
    "unknown-step": Code("L3", "error", "The arc leads to a step that does not exist.", "Correct the name; `end` ends the token without a step (D6)."),
    "unknown-task": Code("L3", "error", "The jump leads to a task that this pipeline does not have.", "Correct the name."),
    "unknown-block": Code("L3", "error", "`workbook` has no block of this name.", "Correct the name, or write the block."),
    "block-cycle": Code("L3", "error", "The block calls itself, directly or through others, so a call would have no end.", "Use a loop, a jump or a child playbook."),
    "unused-block": Code("L3", "warning", "Nothing calls this block.", "Call it or remove it."),
    "unknown-credential": Code("L3", "error", "`keychain` declares no entry of this name.", "Declare it under `keychain`."),
    "unknown-name": Code("L3", "error", "No scope has this name (D14).", "Correct the spelling, or write the scope before it: `workload.x`, `ctx.x`, `iter.x`."),
    "not-in-scope": Code("L3", "error", "The scope exists, but not at this place (D18).", "Carry the value by `set` or `input`."),
    "unknown-field": Code("L3", "error", "The scope has fixed parts, and this is none of them.", "Correct the spelling."),
    "secret-in-log": Code("L3", "error", "`keychain` may be read in a task's own fields only: anywhere else the secret would enter the log (D20).", "Read it in the task that needs it, or use `auth:`."),
    "impure": Code("L3", "error", "`now()` and `uuid()` can not be asked for here: admission is tried again and must give the same answer (D17).", "Take the time in a task and `set` it."),
    "output-in-skip": Code("L3", "error", "A rule with `do: skip` is asked before the tool runs, so there is no `output` yet (D26).", "Ask for something else, or use another directive."),
    "undeclared-workload": Code("L3", "warning", "`workload` declares no default for this key, so a run without it fails here.", "Declare it under `workload`, or give a `default`."),
    "unset-ctx": Code("L3", "warning", "Nothing in the playbook sets this part of `ctx`.", "Set it, correct the spelling, or give a `default`."),
    "unset-step": Code("L3", "warning", "Nothing in this step sets this part of `step`.", "Set it, correct the spelling, or give a `default`."),
    "unset-iter": Code("L3", "warning", "Nothing in this step sets this part of `iter`, and it is not the iterator.", "Set it, correct the spelling, or give a `default`."),
    "unbound-input": Code("L3", "warning", "`input` does not bind this key here.", "Bind it in the step's or the task's `input`."),
    "task-not-run": Code("L3", "warning", "No way through the pipeline runs that task before this one.", "Read a task that runs earlier, or reorder."),
    "no-output-yet": Code("L3", "warning", "The fields of a task see the output of the task before it in the same step; before this one none runs.", "Keep the value where the output is: `set: {ctx.x: \"{{ output.data.x }}\"}` on the step before, or on the arc that leads here; then read `ctx.x`."),
    "ref-expected": Code("L3", "error", "A name that ends in `_ref` takes a reference (D54).", "Give it `output.ref`, or drop the ending."),
    "ref-unexpected": Code("L3", "error", "A reference goes into a name that ends in `_ref` (D54).", "Rename the target, or store `output.data`."),
    "ref-read-through": Code("L3", "error", "A reference holds no payload: its content can not be read through it (D54).", "Fetch it with a task of kind `resolve`."),
    "iter-after-loop": Code("L3", "error", "A step's `set` runs after the loop is done, when no iteration exists (D28).", "Set it in a task, or write to `ctx` or `step`."),
    "unknown-reducer": Code("L3", "error", "No reducer has this name (D47).", "Choose one that the message names."),
    # L4
    "bad-template": Code("L4", "error", "The template can not be parsed, or is too long or too deep.", "Mend the expression."),
    "unknown-filter": Code("L4", "error", "No filter has this name.", "Correct the spelling; docs/reference/filters.md lists them."),
    "unknown-test": Code("L4", "error", "No test (`is …`) has this name.", "Correct the spelling; docs/reference/filters.md lists them."),
    "bad-arguments": Code("L4", "error", "The filter, test or function does not take these arguments.", "Write them as the signature in the message says."),
    "not-allowed": Code("L4", "error", "Templates are pure expressions: no calls but the listed ones, no statements outside the text fields of tools (D13).", "Use a filter, or compute it in a `python` task."),
    "not-a-guard": Code("L4", "error", "`when` takes a template or a boolean (D15).", "Write `\"{{ … }}\"`."),
    "never-equal": Code("L4", "warning", "The value is compared with something that it never is: `output.status` is `ok` or `error` (D21), a looped step ends by `loop.done` and never by `step.done` (D40).", "Compare with a value that the message names."),
    "constant-guard": Code("L4", "warning", "The guard reads nothing, so it is always the same.", "Remove it, or let it read something."),
    "sql-in-quotes": Code("L4", "error", "Every `{{ }}` in SQL is bound as a value, and inside quotes or a comment it would be a part of them. Only quotes that hold nothing else, `'{{ x }}'`, are understood: they are dropped.", "Take it out of the quotes, and join text inside: `{{ '%' ~ name ~ '%' }}`; a name of a table or column is written `{{ name | sql_ident }}`."),
    "sql-in-word": Code("L4", "error", "Every `{{ }}` in SQL is bound as a value, so it can not be a part of a word or of a dotted name.", "Join the parts inside: `{{ ('sales_' ~ year) | sql_ident }}`."),
    "sql-not-a-value": Code("L4", "error", "Every `{{ }}` in SQL is bound as a value, and here stands something else: a name of a table, a word or sign of SQL, or a whole statement.", "Write names as `{{ name | sql_ident }}`, and words of SQL outside of `{{ }}`, between `{% if %}` and `{% endif %}`."),
    "bad-code": Code("L4", "warning", "The `code` of a `python` task can not be compiled by the Python that checks it, so the task will fail there. It is no error, since a worker may have a newer Python. Of one playbook 32,768 characters of code are looked at.", "Mend the code."),
    # L5
    "unreachable-step": Code("L5", "warning", "No arcs lead here from the entry.", "Lead an arc here, or remove the step."),
    "unreachable-task": Code("L5", "warning", "No way through the pipeline comes here.", "Change the rules before it, or remove the task."),
    "dead-arc": Code("L5", "warning", "The arc can never fire: in exclusive mode an arc before it always does, or its guard is false.", "Reorder the arcs, give the earlier one a `when`, or remove this one."),
    "dead-rule": Code("L5", "warning", "A rule before this one always matches, so it is never asked.", "Reorder the rules."),
    "endless-cycle": Code("L5", "error", "The steps lead round in a circle that no arc leaves, so no token that enters it can end.", "Add an arc with a `when` that leaves the circle."),
    "endless-jump": Code("L5", "error", "The tasks jump round in a circle that no rule leaves.", "Add a rule with `break`, `fail` or `continue` that leaves it."),
    "undeclared-join": Code("L5", "warning", "Branches of one fork meet here, so the step runs once for each of them.", "Say what you mean: `spec.policy.admit.join: all` or `each`."),
    "fall-through": Code("L5", "warning", "A jump leads forward to this task, and the task before it falls through into it as well.", "End the task before with an explicit `jump` or `break`."),
    "not-provable": Code("L5", "info", "An arc's target is a template, so it can not be proved that the net is sound (D41).", "List the targets: `to: [a, b]`."),
    # L6
    "no-else": Code("L6", "warning", "The rules have no `else`: an error that no rule fits goes on as if it were fine (D23).", "Write `on_unmatched: fail` beside `rules`: an error that no rule fits then fails the task, and a success goes on. `on_unmatched: continue`, or an `else`, says that it is meant."),
    "unseen-error": Code("L6", "warning", "The rules ask for the data, and never how the call went: an error may fall through to the `else` and go on as if it were fine.", "Ask for it first: `- when: \"{{ output.status == 'error' }}\"` with `then: {do: fail}`."),
    "retry-without-attempts": Code("L6", "warning", "`do: retry` without `attempts` makes 3 calls in all (D24).", "Say how many."),
    "retry-without-delay": Code("L6", "warning", "`do: retry` without `delay` calls again at once, which rarely helps.", "Add `delay`, and `backoff: exponential` for a busy service."),
    "parallel-ctx": Code("L6", "warning", "Iterations run in parallel and write the same `ctx` path without a reducer: the first different value fails the step (D47).", "Declare `loop.spec.policy.reduce`, or keep the value in `iter` or the output."),
    "failure-without-arc": Code("L6", "info", "No arc takes a failure of this step, so it ends the execution in error (D38).", "Add an arc with `when: \"{{ event.name == 'step.failed' }}\"` if there is something to be done."),
    "unused-credential": Code("L6", "info", "Nothing uses this entry of the keychain, and the playbook does not begin without it (D57).", "Name it where it is needed, by `auth:` or `keychain.<name>`, or remove it."),
    "nothing-selected": Code("L6", "warning", "`spec.result.select` takes paths of keys with dots between, through mappings only; this one keeps nothing.", "Write it as `paging.next`; of a list, `set` what you need in the task."),
    "secret-near-log": Code("L6", "warning", "It looks like a secret in plain sight: this value is recorded in the log.", "Declare it under `keychain` and use `auth:` or `keychain.<name>`."),
}  # fmt: skip


def problem(
    code: str,
    at: Mark,
    message: str,
    *,
    fix: str | None = None,
    related: tuple[Related, ...] = (),
    severity: Severity | None = None,
) -> Problem:
    """A Problem whose severity is that of its code, unless said otherwise."""
    return Problem(code, severity or CODES[code].severity, message, at, fix, related)
