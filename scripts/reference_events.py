"""The page of events: every fact with its fields, from the structs and the comments beside their fields.

What a fact means stands in docs/reference/_parts/facts.md, a sentence each; one without does not get through.
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

# Fields whose name is enough for whoever reads the code.
FIELDS: Final[dict[str, str]] = {
    "path": "path of the playbook",
    "digest": "sha256 of its text",
    "depth": "how many executions are above it",
    "by": "the name of the token or user that asked",
    "workload": "the workload",
    "token": "the token",
    "run": "the run, as in `fetch#2`",
    "step": "the step",
    "tokens": "the tokens that it takes, or makes",
    "input": "the bound input",
    "deadline_at": "when it fails whatever it does, by `deadline_s`",
    "timeout_at": "when it fails, by `timeout_s`",
    "frame": "the frame, as in `fetch#2[17]`",
    "task": "the name of the task",
    "directive": "what the pipeline does next",
    "attempt": "which attempt it was, from 1",
    "status": "how it went",
    "started_at": "when the call began",
    "ms": "how long it took, in milliseconds",
    "until": "what it waits for",
    "error": "why it failed",
    "output": "what it gave back",
    "count": "how many items there are",
    "ref": "where the items lie",
    "width": "how many iterations may be in flight",
    "parallel": "whether the loop is parallel",
    "index": "which iteration, from 0",
    "set": "what was written: a path to its value",
    "reads": "the paths of `ctx` that its rules read",
    "items": "the items",
    "reduce": "which paths of `ctx` are folded, and how",
    "picked": "parts of the data that routing reads, when the data itself is not here (D52)",
    "call": "the call's number in the frame",
    "kind": "what sort of failure, as rules test it",
    "id": "its id",
    "reason": "what was said about it",
    "execution_id": "the execution",
    "block": "the block that is called",
    "version": "the version that was asked for",
    "name": "the name of the signal",
    "at": "the instant",
    "seq": "its place in the log, from 1",
    "timestamp": "when it was recorded, RFC 3339",
    "source": "who made it known",
    "alias": "the same in PascalCase, as in `StepDone`",
    "entity": "what it is about",
    "entity_id": "which one",
    "step_run_id": "the run",
    "task_run_id": "the call",
    "iteration_id": "the frame of the iteration",
    "task_label": "the name of the task",
    "message": "in plain words",
    "retryable": "whether another attempt may help",
    "details": "whatever else the tool knows",
    "data": "the value itself",
    "meta": "attempt, duration and counts",
}
PARTICULAR: Final[dict[str, str]] = {
    "Envelope.name": "the name of the event",
    "StepScheduled.step": "the step, or the block",
    "StepScheduled.tokens": "the tokens that it takes",
    "NextEvaluated.tokens": "the tokens that it makes",
    "Retried.tokens": "tokens that are tried again",
    "Evaluated.error": "why it may not run",
    "Token.id": "as in `fetch#2>0`",
}
PARTS: Final = (facts.Token, facts.ForTime, facts.ForSignal, facts.ForBlock, facts.ForChild, Output, Failure)
_COMMENT: Final = re.compile(r"^    (?P<name>\w+): [^#\n]*#\s*(?P<words>.+)$", re.MULTILINE)


def tag(fact: type[Struct]) -> str:
    return str(fact.__struct_config__.tag)


def known() -> list[type[Struct]]:
    """Every fact, in the order of the code, which is that of a life."""
    return list(get_args(Fact))


def comments(struct: type[Struct]) -> dict[str, str]:
    """What the code says beside the fields."""
    return {found["name"]: found["words"] for found in _COMMENT.finditer(inspect.getsource(struct))}


def value(kind: Any) -> str:
    """A type in the words of JSON."""
    text = str(kind) if not isinstance(kind, type) or get_args(kind) else kind.__name__
    text = re.sub(r"typing\.|noetl\.[\w.]*\.|datetime\.(?=datetime)", "", text)
    words = {"str": "text", "int": "number", "float": "number", "bool": "boolean", "datetime": "instant"}
    text = re.sub(r"\b(str|int|float|bool|datetime)\b", lambda found: words[found[0]], text)
    text = re.sub(r"Literal\[([^]]*)\]", lambda found: found[1].replace(", ", " | ").replace("'", '"'), text)
    text = re.sub(r"\bAny\b|\bJSON\b", "value", text)
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
                "" if field.required else f"`{as_json(field)}`",
                prose(meaning(struct.__name__, field.name, said.get(field.name, ""))),
            )
            for field in msgspec.structs.fields(struct)
        ),
    )


def meaning(struct: str, name: str, said: str) -> str:
    """What the code says; where that is only what `None` means, or nothing, our own words before it."""
    ours = PARTICULAR.get(f"{struct}.{name}") or FIELDS.get(name, "")
    said = re.sub(r"\bNone:", "`null`:", said)
    if said.startswith("`null`"):
        return f"{ours}; {said}"
    assert said or ours, f"{struct}.{name} is not explained"
    return PARTICULAR.get(f"{struct}.{name}") or said or ours


def as_json(field: msgspec.structs.FieldInfo) -> str:
    given = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return msgspec.json.encode(given).decode()


def sentences(part: str) -> dict[str, str]:
    """`- name: what it means`, line by line."""
    return dict(re.findall(r"^- `([\w.]+)`: (.+)$", part, re.MULTILINE))


def page(head: str, meanings: str, derived: str) -> str:
    means = sentences(meanings)
    assert [*means] == [tag(fact) for fact in known()], "docs/reference/_parts/facts.md"
    lines = ["# Events", "", head, "", "## The envelope", "", *fields_table(Envelope), ""]
    lines += ["Shown, and not stored:", ""]
    lines += [f"- `{name}` (`{alias(name)}`): {words}" for name, words in sentences(derived).items()]
    lines += ["", "## Facts", ""]
    for fact in known():
        words = f"`{alias(tag(fact))}`. {means[tag(fact)]}"
        lines += [f"### {tag(fact)}", "", words, "", *fields_table(fact), ""]
    lines += ["## Parts of facts", ""]
    for part in PARTS:
        words = str(inspect.getdoc(part))
        if part in get_args(facts.Until):
            words = "What a parked frame waits for."
        lines += [f"### {part.__name__}", "", words, "", *fields_table(part), ""]
    return "\n".join(lines)
