"""The table of verbs: name, description, arguments and effect. Each is a thin call of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from noetl.mcp import authoring, executions
from noetl.mcp.context import Answer, VerbContext

Effect: TypeAlias = Literal["none", "adds", "changes"]  # changes: it can end or overwrite something
_NARROW: Final = "ask for less: name a step, a part or a lower limit"
_OUTPUT: Final = "call `output` with the execution, and with a part as `pointer`, `offset` and `limit`"
_EVENTS: Final = "call `events` with `after` and `limit` 1 for single events, or `output` with a step"


class Verb(NamedTuple):
    name: str
    doc: str
    arguments: type[Struct]
    run: Callable[[VerbContext, Any], Awaitable[Answer]]
    scope: Literal["read", "run"] = "read"
    effect: Effect = "none"
    rest: str = _NARROW  # how to get what is cut from an answer
    trial: bool = False  # a server runs it in a process of its own

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return _schema(self.arguments)


@cache
def _schema(arguments: type[Struct]) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = parts[arguments.__name__]
    return {key: value for key, value in schema.items() if key != "title"}


_TABLE: Final = (
    Verb(
        "describe_language",
        "Describe the language of playbooks, or one topic of it. Begin here: without a topic it gives the rules, an "
        "example, and the list of topics. Answer: {topic, text}.",
        authoring.LanguageArguments, authoring.describe_language,
    ),
    Verb(
        "list_tools", "List the kinds of tasks that a playbook can use. Answer: {tools: [{kind, doc}]}.",
        authoring.NoArguments, authoring.list_tools,
    ),
    Verb(
        "describe_tool",
        "Describe a kind of tasks. Answer: {kind, doc, fields, knobs, output, notes, example}.",
        authoring.ToolArguments, authoring.describe_tool,
    ),
    Verb(
        "check",
        "Check the text of a playbook without running or storing it. Answer: {ok, problems, edits}. Each problem has "
        "code, severity, message, line, column and often `fix`; `edits` are the fixes as exact replacements, and with "
        "apply_fixes the answer has the corrected `text`. Check again after each change.",
        authoring.CheckArguments, authoring.check_text,
    ),
    Verb(
        "explain", "Describe a playbook, or one task of it, for people. Answer: {text, problems}.",
        authoring.ExplainArguments, authoring.explain_playbook,
    ),
    Verb(
        "plan",
        "Show what a playbook would do, without running it: the steps, a drawing (Mermaid), and `effects`, the tasks "
        "that reach something outside. Answer: {playbook, inputs, credentials, effects, triggers, steps, drawing}.",
        authoring.PlanArguments, authoring.plan,
    ),
    Verb(
        "test",
        "Run tests of a playbook in memory: calls are answered by the stubs of the test, and nothing outside is "
        "reached. Answer: {ok, passed, failed, tests, problems}.",
        authoring.TestArguments, authoring.test, trial=True,
    ),
    Verb(
        "run",
        "Run a playbook: a registered one by its path, or a text, which is checked first and stored only if it has no "
        "errors. Answer: {execution, status, output, error}, or the id and the status if it takes longer than wait_s.",
        executions.RunArguments, executions.run, "run", "changes", _OUTPUT,
    ),
    Verb(
        "status",
        "Show an execution: its status, its output or error, and each step with what it waits for.",
        executions.ExecutionArguments, executions.status, rest=_OUTPUT,
    ),
    Verb(
        "output",
        "Return the output of an execution or of one of its steps, in parts if it is large. "
        "Answer: {value, offset, total, next_offset}.",
        executions.OutputArguments, executions.output, rest="name a part with `pointer`, or a lower `limit`",
    ),
    Verb(
        "events", "Return the log of an execution in order, in pages. Answer: {events, next_after}.",
        executions.EventsArguments, executions.events, rest=_EVENTS,
    ),
    Verb(
        "logs", "Return the lines that tasks have printed, in pages. Answer: {lines, next_offset}.",
        executions.LogsArguments, executions.logs,
    ),
    Verb(
        "state",
        "Return the state of an execution after any of its facts: tokens, runs, workload and ctx.",
        executions.StateArguments, executions.state, rest="call `output` with a step, or an earlier `at`",
    ),
    Verb(
        "why",
        "Explain why a step of an execution ran, failed, waits or did not run: guards, rules, and the values that they "
        "read. Answer: {text, why}.",
        executions.WhyArguments, executions.why,
    ),
    Verb(
        "fork",
        "Continue an execution in a new one, with a corrected playbook: finished work that the change does not affect "
        "is kept. With dry_run only the plan. Answer: {plan: {kept, redone, new}, execution, status, output}.",
        executions.ForkArguments, executions.fork, "run", "changes", _OUTPUT,
    ),
    Verb(
        "what_if",
        "Show what an edited playbook would have done in an execution that has ended, on its recorded answers. Nothing "
        "outside is reached. Answer: {differs, first_divergence, routes, calls, coverage}.",
        executions.WhatIfArguments, executions.what_if, trial=True,
    ),
    Verb(
        "diff", "Show what differs between two executions, or between two registered playbooks.",
        executions.DiffArguments, executions.diff,
    ),
    Verb(
        "list", "List executions, newest first, or registered playbooks.",
        executions.ListArguments, executions.list_found, rest="name a lower `limit`",
    ),
    Verb(
        "signal", "Send a signal to an execution that waits for it, such as an approval.",
        executions.SignalArguments, executions.signal, "run", "adds",
    ),
    Verb(
        "cancel", "End an execution. Running calls get 10 seconds.",
        executions.CancelArguments, executions.cancel, "run", "changes",
    ),
)  # fmt: skip
VERBS: Final = {each.name: each for each in _TABLE}
