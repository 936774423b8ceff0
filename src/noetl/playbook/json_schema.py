"""The language as a JSON Schema (draft 2020-12), for completion, descriptions and errors in editors.

It is generated from the same table of shapes that the reader uses. Rules that a schema cannot express
(names, templates, the net) are left to the check. The schema accepts everything that the check accepts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from noetl.output import JSON
from noetl.playbook.kinds import Kind, Kinds
from noetl.playbook.language import API_VERSION, REDUCERS, language
from noetl.playbook.shapes import (
    NAME_PATTERN,
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
    Shape,
    TemplateShape,
    TextShape,
    UnionShape,
)
from noetl.playbook.source import parse, plain

SCHEMA_ID = "https://noetl.io/schemas/playbook-v2.json"
SHARED_CHARS = 120  # a shorter schema of a key is repeated
TEMPLATE = r"\{[{%#]"  # the start of a template
_TARGET = rf"^(ctx|step|iter)(\.{NAME_PATTERN})+$"

_NEVER_EMPTY = frozenset({"then", "else", "do"})  # required by the surrounding shape
_RULE = {
    "if": {"required": ["else"]},
    "then": {"properties": {"when": False, "then": False}},
    "else": {"required": ["when", "then"]},
}
_JUMP = {"properties": {"do": {"const": "jump"}}, "required": ["do"]}
# Constraints that shapes do not express, by the title of a record and a key that it must have.
_CONSTRAINTS: dict[tuple[str, str], dict[str, JSON]] = {
    ("rule", "else"): _RULE,
    ("admission rule", "else"): _RULE,
    ("branch", "else"): _RULE,
    ("else branch", "then"): {"required": ["then"]},
    ("while loop", "tool"): {"required": ["when", "tool"]},
    ("until loop", "tool"): {"required": ["when", "tool"]},
    ("else", "then"): {"required": ["then"]},
    ("task.spec.policy", "rules"): {"anyOf": [{"required": ["rules"]}, {"required": ["limit"]}]},
    ("limit", "in_flight"): {"anyOf": [{"required": ["in_flight"]}, {"required": ["rate"]}]},
    ("then", "do"): {"required": ["do"], "if": _JUMP, "then": {"required": ["to"]}},
}

# Snippets for editors, by the title of the record; $1, $2 are the positions to fill in.
_SNIPPETS: dict[str, tuple[str, dict[str, JSON]]] = {
    "playbook": (
        "A playbook with one step",
        {
            "apiVersion": API_VERSION,
            "kind": "Playbook",
            "metadata": {"name": "${1:name}", "path": "${2:folder/name}"},
            "workload": {},
            "workflow": [{"step": "start", "tool": {"kind": "${3:noop}"}}],
        },
    ),
    "step": (
        "A step with one task and one arc",
        {"step": "${1:name}", "tool": {"kind": "${2:noop}"}, "next": {"arcs": [{"step": "${3:end}"}]}},
    ),
    "arc": ("An arc with a guard", {"step": "${1:end}", "when": "{{ ${2:output.status == 'ok'} }}"}),
    "rule": (
        "Retry when the task has failed",
        {
            "when": "{{ output.status == 'error' and output.error.retryable }}",
            "then": {"do": "retry", "attempts": "${1:5}", "backoff": "exponential", "delay": "${2:1.0}"},
        },
    ),
    "loop": ("A loop over a list", {"in": "{{ workload.${1:items} }}", "iterator": "${2:item}"}),
}


def json_schema(kinds: Kinds) -> dict[str, JSON]:
    """The schema of a playbook. Records, and keys that are used more than once, are defined under `$defs`."""
    writer = _Writer(kinds)
    root = writer.record(language(kinds))
    defs = _with_shared_keys(writer.defs)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": f"NoETL playbook ({API_VERSION})",
        **root,
        "$defs": dict(sorted(defs.items())),
    }


def _with_shared_keys(defs: Mapping[str, dict[str, JSON]]) -> dict[str, dict[str, JSON]]:
    """Define a key once if several records have it: the fields of a tool are beside `kind` and under `input`."""
    counts = Counter(
        _identity(name, key) for record in defs.values() for name, key in record.get("properties", {}).items()
    )
    shared: dict[tuple[str, str], str] = {}
    for identity, count in counts.items():
        name, text = identity
        if count > 1 and len(text) >= SHARED_CHARS:
            earlier = sum(known == name for known, _ in shared)
            shared[identity] = f"key.{name}.{earlier + 1}" if earlier else f"key.{name}"

    def referring(record: dict[str, JSON]) -> dict[str, JSON]:
        if "properties" not in record:
            return record
        keys = {
            name: {"$ref": f"#/$defs/{made}"} if (made := shared.get(_identity(name, key))) else key
            for name, key in record["properties"].items()
        }
        return {**record, "properties": keys}

    made = {title: referring(record) for title, record in defs.items()}
    return made | {title: msgspec.json.decode(text) for (_, text), title in shared.items()}


def _identity(name: str, key: JSON) -> tuple[str, str]:
    return name, msgspec.json.encode(key).decode()


class _Writer:
    """Converts shapes to schemas. Each record is defined once, under its title or a qualified title."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.defs: dict[str, dict[str, JSON]] = {}
        self.open: set[str] = set()  # titles of the shapes that are being written: they may contain themselves

    def schema(self, shape: Shape, holder: str) -> dict[str, JSON]:
        match shape:
            case MapShape(of):
                return {"type": "object", "additionalProperties": self._of(of, holder)}
            case ListShape(of):
                return {"type": "array", "items": self._of(of, holder)}
            case RecordShape(title):
                return self._define(title, holder, self.record(shape))
            case KindShape(title) if title in self.open:
                return {"$ref": f"#/$defs/{_slug(title)}"}
            case KindShape(title):
                self.open.add(title)
                schema = self.by_kind(shape)
                self.open.discard(title)
                return self._define(title, holder, schema)
            case UnionShape(shapes):
                return {"anyOf": [self.schema(each, holder) for each in _flat(shapes)]}
        return _scalar(shape)

    def _of(self, shape: Shape, holder: str) -> JSON:
        return True if isinstance(shape, AnyShape) else self.schema(shape, holder)

    def _define(self, title: str, holder: str, schema: dict[str, JSON]) -> dict[str, JSON]:
        full = f"{holder}.{title}"
        names = [name for name, known in self.defs.items() if known == schema and name.endswith(_slug(title))]
        for name in (*names, *((full,) if title == "task.spec" else (title, full))):
            if self.defs.setdefault(_slug(name), schema) == schema:
                return {"$ref": f"#/$defs/{_slug(name)}"}
        raise AssertionError(f"two records of {holder} have the title {title}")

    def record(self, record: RecordShape) -> dict[str, JSON]:
        schema: dict[str, JSON] = {"type": "object", **_description(record.doc)}
        schema["properties"] = {name: self._property(name, key, record.title) for name, key in record.keys.items()}
        required = [name for name, key in record.keys.items() if key.required]
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        for (title, key), constraints in _CONSTRAINTS.items():
            if record.title == title and key in record.keys:
                schema |= constraints
        if record.title in _SNIPPETS:
            label, body = _SNIPPETS[record.title]
            schema["defaultSnippets"] = [{"label": label, "body": body}]
        return schema

    def _property(self, name: str, key: KeyShape, holder: str) -> dict[str, JSON]:
        if isinstance(key.shape, ReservedShape):
            return {
                **_description(key.doc),
                "deprecationMessage": f'"{name}" is reserved for a later version and has no effect',
            }
        schema = self._refined(name, key, holder)
        # A key without a value counts as left out, so an editor must not mark it while the author types.
        if not key.required and name not in _NEVER_EMPTY:
            schema = _or_null(schema)
        schema |= _description(key.doc)
        if key.default is not None:
            schema["default"] = key.default
        if key.example is not None:
            schema["examples"] = [plain(parse(key.example).document.root)]
        return schema

    def _refined(self, name: str, key: KeyShape, holder: str) -> dict[str, JSON]:
        """The schema of a key, with the constraints that depend on its name."""
        shape = key.shape
        if name == "else" and isinstance(shape, UnionShape):
            shape = shape.shapes[0]  # null is in the shape only for a better message than `wrong-type`
        schema = self.schema(shape, holder)
        match name:
            case "set":
                schema["propertyNames"] = {
                    "pattern": _TARGET,
                    "patternErrorMessage": "set can write only to ctx.*, step.* and iter.*",
                }
            case "reduce":
                schema["propertyNames"] = {"pattern": r"^ctx\."}
                schema["additionalProperties"] = {"enum": list(REDUCERS)}
            case "workflow":
                schema["minItems"] = 1
            case "tolerate":
                schema["anyOf"][1]["pattern"] = r"^0*(100|[0-9]{1,2})%$"
        return schema

    def by_kind(self, shape: KindShape) -> dict[str, JSON]:
        """One branch for each kind, so that an editor shows the keys of the current kind."""
        branches = []
        for name, record in shape.kinds.items():
            then = self._define(record.title, shape.title, self._kind(name, record, shape.title))
            when = {"type": "object", "properties": {"kind": {"const": name}}, "required": ["kind"]}
            branches.append({"if": when, "then": then})
        for name, record in shape.others.items():
            other = self._define(record.title, shape.title, self.record(record))
            branches.append(
                {"if": {"type": "object", "required": [name], "not": {"required": ["kind"]}}, "then": other}
            )
        kind = {
            "type": "string",
            "enum": list(shape.kinds),
            "markdownEnumDescriptions": [record.doc for record in shape.kinds.values()],
            **_description(shape.unknown.keys["kind"].doc),
        }
        return {
            "type": "object",
            **_description(shape.doc),
            "properties": {"kind": kind, **{name: _description(each.doc) for name, each in shape.others.items()}},
            **(
                {"anyOf": [{"required": [name]} for name in ("kind", *shape.others)]}
                if shape.others
                else {"required": ["kind"]}
            ),
            "allOf": branches,
        }

    def _kind(self, name: str, record: RecordShape, title: str) -> dict[str, JSON]:
        schema = self.record(record)
        schema["properties"]["kind"] = {"const": name, **_description(record.doc)}
        if title == "task" and (needs := _needs(self.kinds[name])):
            schema["allOf"] = needs
        return schema


def _needs(kind: Kind) -> list[dict[str, JSON]]:
    """The required fields of a task, beside `kind` or under `input` (D9). A `name` there is the task's."""
    groups = list(kind.one_of)
    if not kind.free_input:
        groups += [(name,) for name, key in kind.fields.keys.items() if key.required]
    needs = []
    for group in groups:
        ways: list[dict[str, JSON]] = [{"required": [name]} for name in group if name != "name"]
        if not kind.free_input:
            under = [{"required": [name]} for name in group]
            inside = under[0] if len(under) == 1 else {"anyOf": under}
            ways.append({"required": ["input"], "properties": {"input": {"type": "object", **inside}}})
        needs.append(ways[0] if len(ways) == 1 else {"anyOf": ways})
    return needs


def _scalar(shape: Shape) -> dict[str, JSON]:
    match shape:
        case TextShape(name=True):
            return {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
        case TextShape():
            return {"type": "string"}
        case BooleanShape(templated):
            return _templated({"type": "boolean"}, templated)
        case NumberShape(minimum, whole, templated):
            bound = {} if minimum is None else {"minimum": int(minimum)}
            return _templated({"type": "integer" if whole else "number", **bound}, templated)
        case ChoiceShape(values, templated):
            return _templated({"enum": list(values)}, templated)
        case GuardShape():
            words = "a template, {{ … }}, or a boolean"
            return {"type": ["boolean", "string"], "pattern": TEMPLATE, "patternErrorMessage": words}
        case TemplateShape():
            return {"type": "string", "pattern": TEMPLATE}
        case NullShape():
            return {"type": "null"}
    return {}


def _templated(schema: dict[str, JSON], templated: bool) -> dict[str, JSON]:
    return {"anyOf": [schema, {"type": "string", "pattern": TEMPLATE}]} if templated else schema


def _or_null(schema: dict[str, JSON]) -> dict[str, JSON]:
    match schema:
        case {"type": str(kind)}:
            return {**schema, "type": [kind, "null"]}
        case {"type": list(types)}:
            return {**schema, "type": [*types, "null"]}
        case {"enum": values}:
            return {**schema, "enum": [*values, None]}
        case {"anyOf": [*ways, {"type": "string", "pattern": _} as template]}:
            return {**schema, "anyOf": [*ways, _or_null(template)]}
        case {"anyOf": ways}:
            return {**schema, "anyOf": [*ways, {"type": "null"}]}
        case {"$ref": _}:
            return {"anyOf": [schema, {"type": "null"}]}
    return schema


def _slug(title: str) -> str:
    return title.replace(" ", "-")


def _flat(shapes: tuple[Shape, ...]) -> list[Shape]:
    return [inner for each in shapes for inner in (_flat(each.shapes) if isinstance(each, UnionShape) else [each])]


def _description(doc: str) -> Mapping[str, JSON]:
    if not doc:
        return {}
    described = {"description": doc.replace("`", "")}
    # Some editors show the Markdown; all others show the plain text.
    return {**described, "markdownDescription": doc} if "`" in doc or "<" in doc else described
