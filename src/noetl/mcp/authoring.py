"""The verbs for writing a playbook: the language, the tools, check, explain, plan and test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from noetl.api.trials import TestsRequest
from noetl.drawing.chart import chart
from noetl.drawing.text import mermaid
from noetl.errors import NotFound
from noetl.mcp.context import TEXT_NAME, Answer, VerbContext
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.problems import CODES
from noetl.playbook.source import TEXT_BYTES_MAX, Document, parse
from noetl.replay.trial_process import run_tests
from noetl.session.errors import UsageError
from noetl.session.sources import PlaybookFile
from noetl.views.explain import (
    ExplainedPart,
    ExplainedTask,
    NoSuchTask,
    explain,
    explanation_text,
    find_task,
    task_details,
    task_lines,
)
from noetl.views.language_topics import OVERVIEW
from noetl.views.problems import ProblemFix, apply_edits, fixes_of, problem_document
from noetl.views.tool_kinds import kind_document, summary_of, unfolded

COLUMNS: Final = 110  # of texts that are laid out
TESTS_S: Final = 120.0  # for all tests of one call

Text = Annotated[str, Meta(description="a playbook, as YAML text", max_length=TEXT_BYTES_MAX)]
OptionalText = Annotated[str | None, Meta(description="the playbook, as YAML text; instead of `path`")]
OptionalPath = Annotated[
    str | None,
    Meta(
        description="the path of a registered playbook, or path@version; instead of `text`",
        examples=["shop/orders"],
    ),
]


class LanguageArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    topic: Annotated[
        str,
        Meta(
            description="overview, example, keys, scopes, filters, tools, problems, tests; a part of a playbook such "
            "as step, task, loop, arc, input; or the code of a problem",
            examples=["overview", "loop", "unknown-step"],
        ),
    ] = OVERVIEW


async def describe_language(context: VerbContext, asked: LanguageArguments) -> Answer:
    topics = context.installed.topics
    wanted = asked.topic.strip().lower().replace("_", "-") if asked.topic not in topics else asked.topic
    if wanted not in topics:
        near = get_close_matches(wanted, topics, n=3)
        known = [each for each in topics if each not in CODES]
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"topics: {', '.join(known)}; and each code of a problem"
        )
        raise NotFound(f'no topic "{asked.topic[:100]}": {hint}')
    answer: Answer = {"topic": wanted, "text": topics[wanted]}
    if wanted == OVERVIEW:
        answer["text"] += f"\nExample:\n\n{topics['example']}\n"
        answer["topics"] = [each for each in topics if each not in CODES]
    return answer


class NoArguments(Struct, forbid_unknown_fields=True):
    pass


async def list_tools(context: VerbContext, asked: NoArguments) -> Answer:
    del asked
    return {
        "tools": [{"kind": name, "doc": summary_of(unfolded(each.doc))} for name, each in context.kinds.items()],
        "more": "describe_tool gives the fields, the options, the output and an example of a kind",
    }


class ToolArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    kind: Annotated[str, Meta(description="a kind of tasks", examples=["http", "postgres"])]


async def describe_tool(context: VerbContext, asked: ToolArguments) -> Answer:
    kinds = context.kinds
    if asked.kind not in kinds:
        near = get_close_matches(asked.kind, kinds, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"installed kinds: {', '.join(kinds)}"
        raise NotFound(f'no tool of kind "{asked.kind[:100]}" is installed; {hint}')
    example = str(getattr(context.installed.tools.make(asked.kind), "example", ""))
    found: Answer = msgspec.to_builtins(kind_document(kinds[asked.kind], example))
    return found


class CheckArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    text: Text
    apply_fixes: Annotated[bool, Meta(description="also return the text with all `edits` applied")] = False


async def check_text(context: VerbContext, asked: CheckArguments) -> Answer:
    problems = await context.session.check(PlaybookFile(TEXT_NAME, asked.text.encode()))
    document = parse(asked.text, TEXT_NAME).document
    fixes = fixes_of(document, problems)
    answer: Answer = {
        "ok": all(each.severity != "error" for each in problems),
        "problems": [problem_document(each) for each in problems],
        "edits": [_edit(document, each) for each in fixes],
    }
    if asked.apply_fixes:
        answer["text"] = apply_edits(asked.text, [each.edit for each in fixes])
    return answer


def _edit(document: Document, fix: ProblemFix) -> dict[str, JSON]:
    start, end = document.mark(fix.edit.start), document.mark(fix.edit.end)
    return {
        "problem": fix.problem,
        "start": {"line": start.line, "column": start.column},
        "end": {"line": end.line, "column": end.column},
        "insert": fix.edit.insert,
    }


class ExplainArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    text: OptionalText = None
    path: OptionalPath = None
    task: Annotated[
        str | None,
        Meta(description="one task, as step.task: its spec, fields, rules and reads", examples=["fetch.page"]),
    ] = None


async def explain_playbook(context: VerbContext, asked: ExplainArguments) -> Answer:
    checked = await context.checked(asked.path, asked.text)
    program = checked.program
    assert program is not None
    answer: Answer = {"problems": [problem_document(each) for each in checked.errors]}
    if asked.task is None:
        return {"text": explanation_text(explain(program, context.kinds)), **answer}
    try:
        owner, task = find_task(program, asked.task)
    except NoSuchTask as error:
        raise UsageError(str(error)) from error
    lines = task_lines(task_details(program, context.kinds, owner, task), COLUMNS)
    return {"text": "\n".join("".join(piece.text for piece in line) for line in lines), **answer}


class PlanArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    text: OptionalText = None
    path: OptionalPath = None


async def plan(context: VerbContext, asked: PlanArguments) -> Answer:
    checked = await context.checked(asked.path, asked.text)
    program = checked.program
    assert program is not None
    found = explain(program, context.kinds)
    notifications = found.notifications if isinstance(found.notifications, tuple) else ()
    parts = [*found.steps, *found.blocks, *notifications]
    parts += [each.compensate for each in found.steps if each.compensate is not None]
    triggers = found.triggers if isinstance(found.triggers, tuple) else ()
    return {
        "playbook": found.path,
        "inputs": msgspec.to_builtins(found.inputs),
        "credentials": [{"name": name, "kind": kind} for name, kind in found.credentials],
        "effects": list(_effects(parts, context.kinds)),
        "triggers": [{"name": name, "fires": fires} for name, fires in triggers],
        "steps": [each.name for each in found.steps],
        "drawing": mermaid(chart(program)),
        "problems": [problem_document(each) for each in checked.errors],
    }


def _effects(parts: Iterable[ExplainedPart], kinds: Kinds) -> Iterator[dict[str, JSON]]:
    """The tasks that reach something outside, in the order of the playbook."""
    for part in parts:
        for task in _tasks(part.tasks):
            kind = kinds.get(task.kind)
            if kind is not None and not kind.pure:
                effect = {"step": part.name, "task": task.name, "kind": task.kind, "does": task.essence}
                repeated = {"repeated": list(part.loops)} if part.loops else {}
                yield {key: value for key, value in {**effect, "auth": task.auth, **repeated}.items() if value}


def _tasks(tasks: Iterable[ExplainedTask]) -> Iterator[ExplainedTask]:
    for task in tasks:
        yield task
        for branch in task.branches:
            yield from _tasks(branch.tasks)


class TestArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    text: Text
    tests: Annotated[
        str,
        Meta(
            description="a test file, as YAML text: `playbook` (any name) and `tests`; the topic `tests` explains it",
            examples=[
                "playbook: orders.yaml\ntests:\n  - name: no rows\n    stubs: [{call: fetch, output: {rows: []}}]\n"
            ],
            max_length=TEXT_BYTES_MAX,
        ),
    ]
    only: Annotated[str | None, Meta(description="only tests whose name contains this text")] = None
    coverage: Annotated[bool, Meta(description="also list steps, arcs and rules that never ran")] = False


async def test(context: VerbContext, asked: TestArguments) -> Answer:
    request = TestsRequest(text=asked.text, tests=asked.tests, only=asked.only, coverage=asked.coverage)
    try:
        async with asyncio.timeout(TESTS_S):
            found = await (run_tests(request) if context.trials is None else context.trials.test(request))
    except TimeoutError:
        raise UsageError(f"the tests took longer than {TESTS_S:g} s: run fewer of them with `only`") from None
    if not found.tests and not found.problems:
        raise UsageError(f'no name of a test contains "{asked.only}"')
    answer: Answer = msgspec.to_builtins(found)
    hidden = {"problems_of"} if asked.coverage else {"problems_of", "coverage"}
    shown = {key: value for key, value in answer.items() if key not in hidden}
    return {**shown, "ok": not found.failed and not found.problems}
