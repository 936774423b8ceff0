"""The page of events: every fact with its fields, from the structs and the comments beside their fields.

The meaning of each fact is a sentence in docs/reference/_parts/facts.md; a missing sentence is an error.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from noetl.engine import facts
from noetl.engine.facts import Fact
from noetl.output import Failure, Output
from noetl.views.envelopes import Envelope, alias
from scripts.reference_prose import prose, table

# Fields without a comment in the code.
FIELDS: Final[dict[str, str]] = {
    "path": "path of the playbook",
    "digest": "sha256 of its text",
    "depth": "number of executions above it",
    "by": "name of the token or user that requested it",
    "workload": "the workload",
    "token": "the token",
    "run": "the run, as in `fetch#2`",
    "step": "the step",
    "tokens": "the consumed or created tokens",
    "input": "the bound input",
    "deadline_at": "when it fails because of `deadline_s`",
    "timeout_at": "when it fails because of `timeout_s`",
    "frame": "the frame, as in `fetch#2[17]`",
    "task": "the name of the task",
    "directive": "the next action of the pipeline",
    "attempt": "number of the attempt, from 1",
    "status": "the result status",
    "started_at": "when the call began",
    "ms": "duration in milliseconds",
    "until": "the condition it waits for",
    "error": "why it failed",
    "output": "the output",
    "count": "number of items",
    "ref": "reference to the items",
    "width": "maximum number of iterations in flight",
    "parallel": "whether the loop is parallel",
    "index": "index of the iteration, from 0",
    "set": "written values, by path",
    "reads": "the paths of `ctx` that its rules read",
    "items": "the items",
    "reduce": "the folded paths of `ctx` and their reducers",
    "picked": "parts of the data that routing reads, if the data itself is stored elsewhere",
    "call": "the call's number in the frame",
    "worker": "the name of the worker",
    "kind": "kind of the failure, which rules can test",
    "id": "its id",
    "reason": "the reason that the caller gave",
    "execution_id": "the execution",
    "block": "the block that is called",
    "version": "the requested version",
    "name": "the name of the signal",
    "at": "the time",
    "seq": "position in the log, from 1",
    "timestamp": "when it was recorded, RFC 3339",
    "source": "the component that produced it",
    "alias": "the name in PascalCase, as in `StepDone`",
    "entity": "the kind of the entity that it concerns",
    "entity_id": "the id of the entity",
    "step_run_id": "the run",
    "task_run_id": "the call",
    "iteration_id": "the frame of the iteration",
    "task_label": "the name of the task",
    "message": "description of the failure",
    "retryable": "whether a retry may help",
    "details": "further information from the tool",
    "data": "the value itself",
    "meta": "attempt, duration and counts",
}
PARTICULAR: Final[dict[str, str]] = {
    "Envelope.name": "the name of the event",
    "StepScheduled.step": "the step, or the block",
    "StepScheduled.tokens": "the consumed tokens",
    "NextEvaluated.tokens": "the created tokens",
    "Retried.tokens": "tokens that are evaluated again",
    "Evaluated.error": "why it cannot run",
    "Token.id": "as in `fetch#2>0`",
}
PARTS: Final = (facts.Token, facts.ForTime, facts.ForSignal, facts.ForBlock, facts.ForChild, Output, Failure)
_COMMENT: Final = re.compile(r"^    (?P<name>\w+): [^#\n]*#\s*(?P<words>.+)$", re.MULTILINE)


def tag(fact: type[Struct]) -> str:
    return str(fact.__struct_config__.tag)


def known() -> list[type[Struct]]:
    """All facts, in the order of the code, which is the order in an execution."""
    return list(get_args(Fact))


def comments(struct: type[Struct]) -> dict[str, str]:
    """The comments beside the fields in the code."""
    return {found["name"]: found["words"] for found in _COMMENT.finditer(inspect.getsource(struct))}


def value(kind: Any) -> str:
    """A type, in JSON terms."""
    text = str(kind) if not isinstance(kind, type) or get_args(kind) else kind.__name__
    text = re.sub(r"typing\.|noetl\.[\w.]*\.|datetime\.(?=datetime)", "", text)
    words = {"str": "text", "int": "number", "float": "number", "bool": "boolean", "datetime": "instant"}
    text = re.sub(r"\b(str|int|float|bool|datetime)\b", lambda found: words[found[0]], text)
    text = re.sub(r"Literal\[([^]]*)\]", lambda found: found[1].replace(", ", " | ").replace("'", '"'), text)
    text = re.sub(r"\bAny\b|\bJSON\b", "value", re.sub(r" \| (msgspec\.)?UnsetType", "", text))
    text = text.replace("dict[text, value]", "mapping").replace("dict[text, text]", "mapping")
    text = text.replace("list[value]", "list").replace("NoneType", "null").replace("None", "null")
    text = text.replace(", ...]", "]").replace("tuple[", "list[")
    return text.replace("|", "\\|")


def fields_table(struct: type[Struct]) -> list[str]:
    said = comments(struct)
    return table(
        ("field", "value", "default", "meaning"),
        (
            (
                f"`{field.name}`",
                value(field.type),
                "" if field.required or field.default is msgspec.UNSET else f"`{as_json(field)}`",
                prose(meaning(struct.__name__, field.name, said.get(field.name, ""))),
            )
            for field in msgspec.structs.fields(struct)
        ),
    )


def meaning(struct: str, name: str, said: str) -> str:
    """The comment in the code; if it is missing or only explains `None`, the text of this module."""
    ours = PARTICULAR.get(f"{struct}.{name}") or FIELDS.get(name, "")
    said = re.sub(r"\bNone:", "`null`:", said)
    if said.startswith("`null`"):
        return f"{ours}; {said}"
    assert said or ours, f"{struct}.{name} has no description"
    return PARTICULAR.get(f"{struct}.{name}") or said or ours


def as_json(field: msgspec.structs.FieldInfo) -> str:
    given = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return msgspec.json.encode(given).decode()


def sentences(part: str) -> dict[str, str]:
    """Parse lines of the form `- name: meaning`."""
    return dict(re.findall(r"^- `([\w.]+)`: (.+)$", part, re.MULTILINE))


def page(head: str, meanings: str, derived: str) -> str:
    means = sentences(meanings)
    assert [*means] == [tag(fact) for fact in known()], "docs/reference/_parts/facts.md"
    lines = ["# Events", "", head, "", "## The envelope", "", *fields_table(Envelope), ""]
    lines += ["Displayed, but not stored:", ""]
    lines += [f"- `{name}` (`{alias(name)}`): {words}" for name, words in sentences(derived).items()]
    lines += ["", "## Facts", ""]
    for fact in known():
        words = f"`{alias(tag(fact))}`. {means[tag(fact)]}"
        lines += [f"### {tag(fact)}", "", words, "", *fields_table(fact), ""]
    lines += ["## Parts of facts", ""]
    for part in PARTS:
        words = str(inspect.getdoc(part))
        if part in get_args(facts.Until):
            words = "The condition that a parked frame waits for."
        lines += [f"### {part.__name__}", "", words, "", *fields_table(part), ""]
    return "\n".join(lines)
