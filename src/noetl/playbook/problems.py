"""All problem codes: severity, level of the check, meaning and fix.

The reference page docs/reference/problems.md is generated from this table and from tests/fixtures/problems.
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


class ProblemCode(NamedTuple):
    """The meaning of a problem code."""

    level: Level
    severity: Severity
    meaning: str
    fix: str


CODES: dict[str, ProblemCode] = {
    # L1
    "yaml-syntax": ProblemCode("L1", "error", "The text is not valid YAML.", "Correct the text at this position. The usual causes are indentation and missing quotes."),
    "yaml-encoding": ProblemCode("L1", "error", "The text is not UTF-8, or it contains a control character.", "Save the file as UTF-8, and remove control characters."),
    "yaml-too-large": ProblemCode("L1", "error", "The text of a playbook is limited to 1 MiB.", "Move data into a file or a result store, or split the playbook."),
    "yaml-too-deep": ProblemCode("L1", "error", "Values are nested more than 64 levels deep.", "Flatten the structure."),
    "yaml-too-many-values": ProblemCode("L1", "error", "A playbook is limited to 200,000 values.", "Move data out of the playbook."),
    "yaml-alias-limit": ProblemCode("L1", "error", "The aliases of a playbook may expand to at most 10,000 values in total.", "Write the values out, or use fewer aliases."),
    "yaml-alias-cycle": ProblemCode("L1", "error", "An alias is inside its own anchor, so the value would be infinite.", "Remove the alias from the anchored value."),
    "yaml-tag": ProblemCode("L1", "error", "YAML tags (`!name`, `!!str`) are not supported, because a tag can turn data into program objects.", "Remove the tag. To make a value text, put it in quotes."),
    "yaml-merge": ProblemCode("L1", "error", "The merge key `<<` is part of YAML 1.1. NoETL reads YAML 1.2.", "Write the keys out, or alias a whole value (`spec: *defaults`)."),
    "yaml-key": ProblemCode("L1", "error", "A key of a mapping is not text.", "Put the key in quotes."),
    "yaml-documents": ProblemCode("L1", "error", "The file contains a second YAML document. A file contains exactly one playbook.", "Split the file at `---`."),
    "duplicate-key": ProblemCode("L1", "error", "A mapping contains the same key twice, so one of the two values would be lost.", "Remove or rename one of the keys."),
    "bad-number": ProblemCode("L1", "error", "The number is out of range: whole numbers must fit in 64 bits, other numbers must be finite.", "To keep it as text, put it in quotes."),
    # L2
    "not-a-playbook": ProblemCode("L2", "error", "The document is not a mapping with `apiVersion`, `kind`, `metadata` and `workflow`.", "Start from an example, or use the JSON Schema that `noetl schema` prints."),
    "unknown-key": ProblemCode("L2", "error", "The language has no such key here. Unknown keys are never ignored.", "Correct the spelling, or remove the key."),
    "missing-key": ProblemCode("L2", "error", "A required key is missing or has no value.", "Add the key that the message names."),
    "wrong-type": ProblemCode("L2", "error", "The value has the wrong type for this key.", "Write a value of the type that the message names."),
    "bad-value": ProblemCode("L2", "error", "The key does not accept this value.", "Use one of the values that the message names."),
    "bad-name": ProblemCode("L2", "error", "The name is not valid. A name starts with a letter or `_`, followed by letters, digits, `_` and `-`. A task must not have the name of a scope or a function.", "Choose another name."),
    "old-dialect": ProblemCode("L2", "error", "The construct belongs to one of the older dialects v2 and v10.", "Run `noetl migrate FILE`, which rewrites the file, or write the replacement that the message names."),
    "mixed-dialects": ProblemCode("L2", "error", "The document mixes constructs of two dialects.", "Write the whole document in one dialect, preferably in the canonical form."),
    "reserved-word": ProblemCode("L2", "error", "The language has no `case`, `pipe`, `sink` or `retry` blocks.", "Use rules instead of `case`, a list under `tool` instead of `pipe`, a task that stores the data instead of `sink`, and a rule with `do: retry` instead of `retry`."),
    "reserved": ProblemCode("L2", "warning", "The key is reserved for a later version. It is accepted and has no effect.", "Remove the key."),
    "tool-name": ProblemCode("L2", "error", "A playbook with `metadata.expose_as_tool` is a tool for agents, and its path gives a name that such a tool cannot have.", "Choose another path. `noetl mcp` calls the playbook `shop/orders` `shop_orders`."),
    "duplicate-step": ProblemCode("L2", "error", "Two steps have the same name.", "Rename one of the steps."),
    "duplicate-task": ProblemCode("L2", "error", "Two tasks of one pipeline have the same name.", "Rename one of the tasks."),
    "duplicate-name": ProblemCode("L2", "error", "Two entries of a list have the same name.", "Rename one of the entries."),
    "duplicate-field": ProblemCode("L2", "error", "A field of a tool is set both beside `kind` and under `input`.", "Keep one of the two."),
    "conflicting-values": ProblemCode("L2", "error", "The same setting has two different values.", "Keep one of the two."),
    "missing-then": ProblemCode("L2", "error", "The action of a rule is not under `then`. A rule is `when` with `then`, or `else` with `then` inside it.", "Write `then: {do: …}`."),
    "missing-do": ProblemCode("L2", "error", "The `then` of a task rule has no `do`.", "Add `do: continue`, `retry`, `jump`, `break`, `fail` or `skip`."),
    "misplaced-key": ProblemCode("L2", "error", "The key is valid only in combination with another key, for example `tolerate` with `mode: best_effort`.", "Remove the key, or change the key that it depends on."),
    "no-effect": ProblemCode("L2", "warning", "The key has no effect here. The message says why: it belongs to another directive or another kind of task, or another key overrides it. A key that states only an intention, such as `executor.profile`, is an info.", "Remove the key, or change the part that the message names."),
    "rule-order": ProblemCode("L2", "error", "`else` is not the last rule. A list of rules has at most one `else`, at its end.", "Move the `else` to the end."),
    "control-outside-task": ProblemCode("L2", "error", "The directive `do` is allowed only in the rules of a task.", "Move the rules to `spec.policy.rules` of the task."),
    "set-under-spec": ProblemCode("L2", "error", "`set` is not allowed here under `spec`. It belongs to a step, a task, an arc or the `then` of a rule.", "Move `set` out of `spec`."),
    "bad-set-target": ProblemCode("L2", "error", "`set` can write only to `ctx.*`, `step.*` and `iter.*`. The `set` of a step can also write to `saved.*`.", "Use a target in one of these scopes."),
    "payload-on-arc": ProblemCode("L2", "error", "An arc has no `input`. It may `set` values, and the target step declares its own `input`.", "Write `set:` on the arc and `input:` on the target step."),
    "bad-policy": ProblemCode("L2", "error", "`spec.policy` of a task is not a mapping with a list `rules`.", "Write `policy: {rules: [...]}`."),
    "bad-next": ProblemCode("L2", "error", "`next` is not a mapping with the list `arcs` and an optional `spec`.", "Write `next: {arcs: [{step: …}]}`."),
    "else-skip": ProblemCode("L2", "error", "`do: skip` under `else` would always skip the task.", "Give the rule a `when`, or remove the task."),
    "empty-step": ProblemCode("L2", "warning", "The step has neither `tool` nor `next`, so it does nothing.", "Add a `tool` or `next`, or lead the arc to `end` instead."),
    "unknown-kind": ProblemCode("L2", "error", "No installed tool has this kind.", "Correct the spelling, or install the package that provides the tool."),
    "template-in-data": ProblemCode("L2", "warning", "`workload` and `keychain` are data. Templates in them are not evaluated, so the braces stay in the value.", "Build the value with a template in the step or task that uses it."),
    "not-a-template": ProblemCode("L2", "error", "The value must be constant: a template is not allowed here.", "Write the value itself."),
    # L3
    "no-start": ProblemCode("L3", "error", "The playbook has no entry step: there is no step `start`, or the step that `executor.spec.entry_step` names does not exist.", "Give the first step the name `start`, or write its name in `executor.spec.entry_step`."),
    "unknown-step": ProblemCode("L3", "error", "The arc leads to a step that does not exist.", "Correct the name. The target `end` ends the token and needs no step."),
    "unknown-task": ProblemCode("L3", "error", "The jump leads to a task that does not exist in this pipeline.", "Correct the name."),
    "unknown-block": ProblemCode("L3", "error", "`workbook` has no block with this name.", "Correct the name, or add the block."),
    "block-cycle": ProblemCode("L3", "error", "The block calls itself, directly or through other blocks, so a call would never end.", "Use a loop, a jump or a child playbook."),
    "unused-block": ProblemCode("L3", "warning", "No task calls this block.", "Call it, or remove it."),
    "unknown-credential": ProblemCode("L3", "error", "`keychain` has no entry with this name.", "Declare the credential under `keychain`."),
    "unknown-name": ProblemCode("L3", "error", "The template reads a name that is not a scope.", "Correct the spelling, or add the scope: `workload.x`, `ctx.x`, `iter.x`."),
    "not-in-scope": ProblemCode("L3", "error", "The scope exists, but it is not available in this part of the playbook.", "Pass the value with `set` or `input`."),
    "unknown-field": ProblemCode("L3", "error", "The scope, or the part of the output that belongs to the tool (such as `output.http`), has fixed fields, and this is not one of them. It is only a warning if the template has a default for the field.", "Correct the spelling. `noetl tools KIND` lists the fields that a tool adds to its output."),
    "secret-in-log": ProblemCode("L3", "error", "`keychain` can be read only in the fields of a task. Elsewhere the secret would be written to the log.", "Read it in the task that needs it, or use `auth:`."),
    "impure": ProblemCode("L3", "error", "`now()`, `today()` and `uuid()` are not available here. Admission may be evaluated several times and must always give the same result.", "Read the time in a task, and store it with `set`."),
    "output-in-skip": ProblemCode("L3", "error", "A rule with `do: skip` is evaluated before the tool runs, so there is no `output` yet.", "Use another condition, or another directive."),
    "undeclared-workload": ProblemCode("L3", "warning", "`workload` has no default for this key, so a run that does not provide it fails here.", "Declare the key under `workload`, or use the filter `default`."),
    "unknown-input": ProblemCode("L3", "error", "The playbook declares its inputs under `input`, and this key of `workload` is not one of them, so no request can give it a value. It is only a warning if the template has a default for the key.", "Correct the spelling, or declare the input."),
    "secret-input": ProblemCode("L3", "error", "A secret input is used in a way that would reveal its value, or it is required although no request can provide it.", "A secret input has `type: string` and no default. Fields of a task read it as `keychain.<name>`, and `auth:` names it; `workload` does not contain it. Triggers, query strings and agents cannot provide it: make it optional with `required: false`, or declare it under `keychain`."),
    "unset-ctx": ProblemCode("L3", "warning", "The template reads a `ctx` value that no `set` of the playbook writes.", "Write it with `set`, correct the spelling, or use the filter `default`."),
    "unset-step": ProblemCode("L3", "warning", "The template reads a `step` value that no `set` of this step writes.", "Write it with `set`, correct the spelling, or use the filter `default`."),
    "unset-iter": ProblemCode("L3", "warning", "The template reads an `iter` value that is neither the iterator nor written by a `set` of this step.", "Write it with `set`, correct the spelling, or use the filter `default`."),
    "unbound-input": ProblemCode("L3", "warning", "The template reads an `input` key that neither the step nor the task declares.", "Declare it in the `input` of the step or task."),
    "task-not-run": ProblemCode("L3", "warning", "The template reads the output of a task that cannot have run before this one.", "Read a task that runs earlier, or change the order of the tasks."),
    "no-output-yet": ProblemCode("L3", "warning", "The template reads `output`, but no task of this step runs before this one. The fields of a task see the output of the preceding task of the same step.", "Store the value where the output is available: `set: {ctx.x: \"{{ output.data.x }}\"}` on the preceding step or on the arc that leads here. Then read `ctx.x`."),
    "ref-expected": ProblemCode("L3", "error", "A name that ends in `_ref` must receive a reference.", "Assign `output.ref`, or remove the ending `_ref`."),
    "ref-unexpected": ProblemCode("L3", "error", "A reference is assigned to a name that does not end in `_ref`. The name would hold the reference, not the data.", "To use the data, fetch it with a task of kind `resolve`, or assign `output.data`. To pass the reference on, let the name end in `_ref`."),
    "ref-read-through": ProblemCode("L3", "error", "The template reads the content of a reference. A reference contains no data.", "Fetch the data with a task of kind `resolve`."),
    "iter-after-loop": ProblemCode("L3", "error", "The `set` of a step runs after its loop, when there is no iteration, so it cannot write to `iter`.", "Move the line to the `set` of a task, or write to `ctx` or `step`."),
    "unknown-reducer": ProblemCode("L3", "error", "There is no reducer with this name.", "Use one of the reducers that the message names."),
    "tool-arguments": ProblemCode("L3", "error", "The `arguments` of an `mcp` task do not fit the `schema` of its tool that is saved in the task.", "Correct the arguments, or save the schema of the tool again: `noetl tools --mcp` prints it."),
    # L4
    "bad-template": ProblemCode("L4", "error", "The template has a syntax error, or it is too long or nested too deeply.", "Correct the expression."),
    "unknown-filter": ProblemCode("L4", "error", "There is no filter with this name.", "Correct the spelling. docs/reference/filters.md lists all filters."),
    "unknown-test": ProblemCode("L4", "error", "There is no test (`is …`) with this name.", "Correct the spelling. docs/reference/filters.md lists all tests."),
    "bad-arguments": ProblemCode("L4", "error", "The arguments do not match the signature of the filter, test or function.", "Write the arguments as in the signature that the message shows."),
    "not-allowed": ProblemCode("L4", "error", "The template uses something that the language does not allow. A template is an expression without side effects: it can call only the listed functions and methods, and statements are allowed only in the texts that a tool receives, not in `when`, `set` and `in`.", "Use a filter, or compute the value in a `python` task."),
    "not-a-guard": ProblemCode("L4", "error", "`when` is neither one template nor a boolean. Text around a template gives text, and text that is not empty is true: `{{ a }} == b` would always be true.", "Write one expression: `\"{{ a == 'b' }}\"`."),
    "never-equal": ProblemCode("L4", "warning", "The comparison is never true: `output.status` is `ok` or `error`, a step with a loop ends with the event `loop.done`, never with `step.done`, and `output.error.kind` is one of the kinds in the guide about failures or a kind of tool.", "Compare with one of the values that the message names."),
    "constant-guard": ProblemCode("L4", "warning", "The guard reads no value, so its result is always the same.", "Remove the guard, or let it read a value."),
    "sql-in-quotes": ProblemCode("L4", "error", "A `{{ }}` is inside quotes or an SQL comment. Every `{{ }}` in SQL is bound as a parameter, which is not possible there. The only exception is `'{{ x }}'`, where the quotes contain nothing else: the quotes are removed.", "Remove the quotes, and concatenate text inside the braces: `{{ '%' ~ name ~ '%' }}`. Write the name of a table or column as `{{ name | sql_ident }}`."),
    "sql-in-word": ProblemCode("L4", "error", "A `{{ }}` is part of a word or of a dotted name. Every `{{ }}` in SQL is bound as a parameter, which is not possible there.", "Concatenate the parts inside the braces: `{{ ('sales_' ~ year) | sql_ident }}`."),
    "sql-not-a-value": ProblemCode("L4", "error", "A `{{ }}` is in a position where SQL needs a table name, a keyword or a whole statement. Every `{{ }}` in SQL is bound as a parameter.", "Write names as `{{ name | sql_ident }}`. Write keywords outside the braces, between `{% if %}` and `{% endif %}`."),
    "bad-code": ProblemCode("L4", "error", "The `code` of a `python` task does not compile with the Python version that runs the check. Run the check, the servers and the workers with the same version. The check reads at most 32,768 characters of code of a playbook.", "Correct the code."),
    "missing-argument": ProblemCode("L4", "error", "The function `main` of a `python` task has a parameter without a default, and the `input` of the task has no value for it, so the call would fail.", "Add the name to `input`, or give the parameter a default."),
    "unused-argument": ProblemCode("L4", "warning", "A name under the `input` of a `python` task is neither a parameter of `main`, nor used by the code, nor by the rules and `set` of the task.", "Correct the spelling, or remove the name."),
    "bad-schema": ProblemCode("L4", "error", "The JSON Schema under `spec.validate` cannot be used: a keyword is unknown, has no effect, or has a value of the wrong type.", "Correct the keyword. The keywords of draft 2020-12 are supported, except `$anchor`, `$dynamicRef`, `unevaluatedItems`, `unevaluatedProperties` and `content…`; a `$ref` must lead to a part of the same schema."),
    # L5
    "unreachable-step": ProblemCode("L5", "warning", "No path of arcs leads from the entry step to this step.", "Add an arc to the step, or remove it."),
    "unreachable-task": ProblemCode("L5", "warning", "No path through the pipeline reaches this task.", "Change the rules of the preceding tasks, or remove the task."),
    "dead-arc": ProblemCode("L5", "warning", "The arc is never taken: its guard is always false, or in exclusive mode an earlier arc is always taken. After an arc without `when`, only an arc whose guard can be true after a failure may fire.", "Change the order of the arcs, give the earlier arc a `when`, or remove this one."),
    "dead-rule": ProblemCode("L5", "warning", "The rule is never reached, because an earlier rule always matches.", "Change the order of the rules."),
    "endless-cycle": ProblemCode("L5", "error", "The steps form a cycle without an exit, so a token that enters it never ends.", "Add an arc with a `when` that leaves the cycle."),
    "endless-jump": ProblemCode("L5", "error", "The jumps between tasks form a cycle that no rule leaves. A call that may fail does not count as an exit, and neither does a `retry` that uses up its attempts. If only `do: fail` leaves the cycle, this is a warning.", "Add a rule with `break` or `continue` that leaves the cycle."),
    "undeclared-join": ProblemCode("L5", "warning", "Several branches of a fork lead to this step, and it does not declare a join. It runs once for each branch.", "Declare what the step does: `spec.policy.admit.join: all` waits for all branches, `each` runs once for each branch."),
    "fall-through": ProblemCode("L5", "warning", "A jump leads forward to this task, but the preceding task also continues into it.", "End the preceding task with an explicit `jump` or `break`."),
    "not-provable": ProblemCode("L5", "info", "The target of an arc is a template, so the check cannot prove that the net is sound.", "List the possible targets: `to: [a, b]`."),
    # L6
    "no-else": ProblemCode("L6", "warning", "The rules have no `else`, so an error that matches no rule is ignored and the pipeline continues.", "Write `on_unmatched: fail` beside `rules`: then an error that matches no rule fails the task, and a success continues. If continuing is intended, write `on_unmatched: continue` or an `else`."),
    "unseen-error": ProblemCode("L6", "warning", "The rules read the data but never the status, so an error may reach the `else` and continue as a success.", "Check the status first: `- when: \"{{ output.status == 'error' }}\"` with `then: {do: fail}`."),
    "retry-without-attempts": ProblemCode("L6", "warning", "`do: retry` or `spec.retry` has no `attempts`, so at most 3 calls are made.", "Set `attempts`."),
    "retry-without-delay": ProblemCode("L6", "warning", "`do: retry` or `spec.retry` has no `delay`, so the call is repeated immediately, which rarely helps.", "Add a `delay` in seconds. If the service may be overloaded, also add `backoff: exponential`."),
    "parallel-ctx": ProblemCode("L6", "warning", "Parallel iterations write the same `ctx` path without a reducer. If their values differ, the step fails.", "Declare `loop.spec.policy.reduce`, or keep the value in `iter` or in the output."),
    "failure-without-arc": ProblemCode("L6", "info", "No arc handles a failure of this step, so a failure ends the execution with an error.", "To handle the failure, add an arc with `when: \"{{ event.name == 'step.failed' }}\"`."),
    "unused-credential": ProblemCode("L6", "info", "Nothing uses this keychain entry, but an execution does not start without it.", "Use it with `auth:` or `keychain.<name>`, or remove it."),
    "nothing-selected": ProblemCode("L6", "warning", "The path of `spec.result.select` keeps nothing. It must consist of keys separated by dots, and it can lead only through mappings.", "Write it like `paging.next`. To keep a value from a list, use `set` in the task."),
    "raw-shell": ProblemCode("L6", "warning", "`raw_shell` inserts the value into the script of a `shell` task, and the shell interprets it: a value from outside can run any command. In other fields the filter has no effect.", "Remove `raw_shell`: the value is then quoted for its position. For several words, use a list: `{{ ctx.files }}`."),
    "shell-word": ProblemCode("L6", "warning", "The value of a `{{ }}` in `sh` is one word. Here it seems to be a whole command, or several words that are joined with spaces.", "Write the command outside of the braces. For several words, use a list without `join`. If the value is a part of the script, write `| raw_shell`."),
    "secret-near-log": ProblemCode("L6", "warning", "The value looks like a secret, and it is written to the log.", "Declare it under `keychain`, and use `auth:` or `keychain.<name>`."),
}  # fmt: skip

# Errors that 0.1 did not report. A playbook that it accepted, in the catalog or in a log, still runs.
LATER_ERRORS = frozenset({"unknown-field", "bad-code", "missing-argument", "endless-jump", "not-a-guard"})


def problem(
    code: str,
    at: Mark,
    message: str,
    *,
    fix: str | None = None,
    related: tuple[Related, ...] = (),
    severity: Severity | None = None,
) -> Problem:
    """Create a Problem. The default severity is that of its code."""
    return Problem(code, severity or CODES[code].severity, message, at, fix, related)


def with_advice(problem: Problem) -> Problem:
    """The problem with the advice of its code, if it has no fix of its own."""
    return problem if problem.fix is not None else problem._replace(fix=CODES[problem.code].fix)
