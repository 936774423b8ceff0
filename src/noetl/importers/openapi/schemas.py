"""Schemas of OpenAPI: as JSON Schema of bounded depth for `spec.validate`, as words, and as an example."""

from __future__ import annotations

from typing import Final

import msgspec

from noetl.escape import shorten
from noetl.importers.openapi.document import OpenApiDocument, text_of
from noetl.net.output_schema import FORMATS
from noetl.output import JSON
from noetl.template.regex import Pattern
from noetl.template.values import TemplateError, contains_template

SCHEMA_BYTES_MAX: Final = 1_500
LEVELS: Final = 4  # of a request body that are checked; deeper parts take any value
PROPERTIES_MAX: Final = 60  # of one object
CHOICES_MAX: Final = 12  # schemas of anyOf, and shown values of enum
ENUM_MAX: Final = 200
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_KEPT: Final = {  # keyword → the types of its argument
    "minimum": (int, float), "maximum": (int, float), "multipleOf": (int, float),
    "exclusiveMinimum": (int, float), "exclusiveMaximum": (int, float),
    "minLength": (int,), "maxLength": (int,), "minItems": (int,), "maxItems": (int,),
    "minProperties": (int,), "maxProperties": (int,), "uniqueItems": (bool,),
}  # fmt: skip
_SAMPLES: Final[dict[str, JSON]] = {
    "string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None,
    "date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "uuid": "00000000-0000-4000-8000-000000000000",
    "email": "ann@example.com", "uri": "https://example.com", "ipv4": "192.0.2.1", "time": "12:00:00Z",
}  # fmt: skip


def input_schema(document: OpenApiDocument, value: JSON, where: str) -> dict[str, JSON]:
    """The schema of an input, with as many levels as fit into a few lines."""
    made = json_schema(document, value, where, 0)
    for levels in range(1, LEVELS + 1):
        more = json_schema(document, value, where, levels)
        if more == made or len(msgspec.json.encode(more)) > SCHEMA_BYTES_MAX:
            break
        made = more
    return made


def json_schema(document: OpenApiDocument, value: JSON, where: str, levels: int = LEVELS) -> dict[str, JSON]:
    """What `spec.validate` checks. It accepts everything that the schema accepts: what is left out is not checked."""
    if not isinstance(value, dict):
        return {}
    schema = document.mapping(value, where)
    made: dict[str, JSON] = {}
    types = type_names(schema)
    if types:
        made["type"] = types[0] if len(types) == 1 else types
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= ENUM_MAX and not contains_template(choices):
        made["enum"] = [*choices, None] if "null" in types and None not in choices else choices
    if "const" in schema and not contains_template(schema["const"]):
        made["const"] = schema["const"]
    _limits(document, schema, where, made)
    if levels > 0:
        _parts(document, schema, where, levels, made)
    return made


def type_names(schema: dict[str, JSON]) -> list[str]:
    """The types of a schema: `type` of 3.0 with `nullable`, or of 3.1 with a list."""
    given = schema.get("type")
    types = [each for each in (given if isinstance(given, list) else [given]) if each in list(_TYPES)]
    if not types and isinstance(schema.get("properties"), dict):
        types = ["object"]
    return [*types, "null"] if types and schema.get("nullable") is True and "null" not in types else types


def _limits(document: OpenApiDocument, schema: dict[str, JSON], where: str, made: dict[str, JSON]) -> None:
    for key, kinds in _KEPT.items():
        if type(schema.get(key)) in kinds and (not key.startswith(("min", "max")) or _is_bound(key, schema[key])):
            made[key] = schema[key]
    for old, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(old) is True and bound in made:  # OpenAPI 3.0: a flag
            made[old] = made.pop(bound)
    if made.get("multipleOf", 1) <= 0:
        del made["multipleOf"]
    if schema.get("format") in list(FORMATS):
        made["format"] = schema["format"]
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            Pattern(pattern)
        except TemplateError as error:
            document.note(where, f"its pattern is not checked: {error.message}")
        else:
            if not contains_template(pattern):
                made["pattern"] = pattern


def _is_bound(key: str, value: float) -> bool:
    return key in ("minimum", "maximum") or value >= 0


def _parts(document: OpenApiDocument, schema: dict[str, JSON], where: str, levels: int, made: dict[str, JSON]) -> None:
    below = levels - 1
    if isinstance(schema.get("items"), dict):
        made["items"] = json_schema(document, schema["items"], f"{where} items", below)
    properties = _properties(document, schema, where)
    if properties:
        made["properties"] = {name: json_schema(document, each, where, below) for name, each in properties.items()}
    required = [name for name in _names(schema.get("required")) if not _is_read_only(document, properties, name, where)]
    if required:
        made["required"] = required
    if schema.get("additionalProperties") is False and len(schema.get("properties") or {}) <= PROPERTIES_MAX:
        made["additionalProperties"] = False
    for key in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(key)
        if isinstance(parts, list) and 0 < len(parts) <= CHOICES_MAX:
            # Parts are cut at a depth, so that several of `oneOf` may fit where one does: `anyOf`.
            name = "allOf" if key == "allOf" else "anyOf"
            inner = [json_schema(document, each, where, below) for each in parts]
            if key == "allOf" or all(inner):
                made[name] = [{k: v for k, v in each.items() if k != "additionalProperties"} for each in inner]


def _properties(document: OpenApiDocument, schema: dict[str, JSON], where: str) -> dict[str, JSON]:
    found = schema.get("properties")
    if not isinstance(found, dict):
        return {}
    if len(found) > PROPERTIES_MAX:
        document.note(where, f"only the first {PROPERTIES_MAX} of its {len(found)} properties are checked")
    return {name: each for name, each in list(found.items())[:PROPERTIES_MAX] if isinstance(each, dict)}


def _names(value: JSON) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _is_read_only(document: OpenApiDocument, properties: dict[str, JSON], name: str, where: str) -> bool:
    return name in properties and document.mapping(properties[name], where).get("readOnly") is True


def optional(schema: dict[str, JSON]) -> dict[str, JSON]:
    """The same schema, or null."""
    if not schema:
        return {}
    made = dict(schema)
    if "const" in made:
        made["enum"] = [made.pop("const")]
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    if "type" in made:
        types = made["type"] if isinstance(made["type"], list) else [made["type"]]
        made["type"] = types if "null" in types else [*types, "null"]
    return {"anyOf": [schema, {"type": "null"}]} if "anyOf" in made or "allOf" in made or "not" in made else made


def words(document: OpenApiDocument, value: JSON, where: str, levels: int = 2) -> str:
    """What a schema describes, in a few words: "list of Pet", "integer, 1 to 100"."""
    if not isinstance(value, dict):
        return "any value"
    name = value["$ref"].rpartition("/")[2] if isinstance(value.get("$ref"), str) else ""
    schema = document.mapping(value, where)
    types = type_names(schema)
    kind = " or ".join("list" if each == "array" else "map" if each == "object" else each for each in types)
    if "array" in types and levels > 0 and isinstance(schema.get("items"), dict):
        kind += f" of {words(document, schema['items'], where, levels - 1)}"
    elif name and (not types or "object" in types):
        kind = name
    elif schema.get("enum") and isinstance(schema["enum"], list):
        more = ", …" if len(schema["enum"]) > CHOICES_MAX else ""
        kind = f"one of {', '.join(str(each) for each in schema['enum'][:CHOICES_MAX])}{more}"
    low, high = schema.get("minimum"), schema.get("maximum")
    if type(low) in (int, float) or type(high) in (int, float):
        kind += f", {low} to {high}" if low is not None and high is not None else (
            f", at least {low}" if low is not None else f", at most {high}"
        )  # fmt: skip
    elif schema.get("format") in list(FORMATS):
        kind += f", {schema['format']}"
    return shorten(text_of(kind or "any value"), 160)


def example(document: OpenApiDocument, value: JSON, where: str, levels: int = LEVELS) -> JSON:
    """A value that fits, from the examples of the document where there are some."""
    if not isinstance(value, dict):
        return None
    schema = document.mapping(value, where)
    given = schema.get("examples")
    for sample in (schema.get("example"), *(given if isinstance(given, list) else ())):
        if sample is not None and not contains_template(sample):
            return sample
    for key in ("const", "default"):
        if schema.get(key) is not None and not contains_template(schema[key]):
            return schema[key]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and not contains_template(choices[0]):
        return choices[0]
    return _sample(document, schema, where, levels)


def _sample(document: OpenApiDocument, schema: dict[str, JSON], where: str, levels: int) -> JSON:
    types = type_names(schema)
    for key in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(key)
        if isinstance(parts, list) and parts and levels > 0:
            made = [
                example(document, each, where, levels - 1) for each in parts[: CHOICES_MAX if key == "allOf" else 1]
            ]
            maps = [each for each in made if isinstance(each, dict)]
            if maps:
                types, made = ["object"], [{k: v for each in maps for k, v in each.items()}]
            own = _sample(document, {**schema, key: None}, where, levels) if "object" in types else None
            return {**made[0], **own} if isinstance(own, dict) and isinstance(made[0], dict) else made[0]
    if "object" in types:
        wanted = set(_names(schema.get("required")))
        found = _properties(document, schema, where) if levels > 0 else {}
        return {name: example(document, each, where, levels - 1) for name, each in found.items() if name in wanted}
    if "array" in types:
        return [example(document, schema.get("items"), where, levels - 1)] if levels > 0 else []
    if "string" in types:
        sample = _SAMPLES.get(str(schema.get("format")), _SAMPLES["string"])
        least = schema.get("minLength")
        return str(sample).ljust(least, "x") if type(least) is int and least < 1_000 else sample
    number = schema.get("minimum")
    return number if type(number) in (int, float) and types else _SAMPLES.get(types[0]) if types else {}
