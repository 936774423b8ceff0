"""`arguments` of `mcp` tasks, compared with the schema of the tool that was saved in the task (level L3)."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.output_schema import compile_schema
from noetl.net.program import Program
from noetl.output import JSON
from noetl.playbook.model import Task
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport
from noetl.template.values import contains_template


def check_mcp_arguments(program: Program, report: ProblemReport) -> None:
    for owner in program.playbook.pipelines:
        for task in owner.tasks:
            if task.kind == "mcp":
                for name, message, near in _faults(task, report):
                    report.add("tool-arguments", _place(task, name, report), message, fix=near)


def _faults(task: Task, report: ProblemReport) -> Iterator[tuple[str | None, str, str | None]]:
    """The argument, the message, and the name that was probably meant."""
    fields = {**task.fields, **task.input}
    schema, arguments = fields.get("schema"), fields.get("arguments", {})
    if not isinstance(schema, dict) or not isinstance(arguments, dict):
        return
    properties = schema.get("properties")
    known: dict[str, JSON] = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    tool = fields.get("tool")
    for name in required if isinstance(required, list) else ():
        if name not in arguments:
            near = report.similar(str(name), [each for each in arguments if each not in known])
            hint = f'; did you mean "{name}" instead of "{near}"?' if near else ""
            yield near, f'the tool "{tool}" requires the argument "{name}"{hint}', str(name) if near else None
    for name, value in arguments.items():
        if name not in known:
            if schema.get("additionalProperties") is False:
                yield name, f'the tool "{tool}" has no argument "{name}"', report.similar(name, list(known))
        elif not contains_template(value) and (reasons := _misfit(known[name], schema, value)):
            yield name, f'the argument "{name}" of the tool "{tool}" does not fit: {reasons[0]}', None


def _misfit(part: JSON, schema: dict[str, JSON], value: JSON) -> list[str]:
    """A schema with keywords that are not known here is not checked: the server does it."""
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    compiled, _ = compile_schema({**part, **definitions} if isinstance(part, dict) else part)
    return [] if compiled is None else [_inside(each) for each in compiled.problems(value)]


def _inside(message: str) -> str:
    """The words of a schema for outputs, about an argument: `output.data.x: …` is `x: …`."""
    return message.removeprefix("output.data").lstrip(".: ")


def _place(task: Task, name: str | None, report: ProblemReport) -> Path:
    """The argument, `arguments`, or the task; the fields are beside `kind` or under `input`."""
    for path in ((*task.at, "arguments"), (*task.at, "input", "arguments")):
        if report.document.find(path) is not None:
            return (*path, name) if name is not None else path
    return task.at
