"""The JSON Schema of typed inputs, for the OpenAPI document and for tools of agents."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from noetl.net.inputs import CompiledInput, Inputs
from noetl.playbook.model import InputType

_TYPES: Final[dict[InputType, dict[str, str]]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "list": {"type": "array"},
    "map": {"type": "object"},
    "file": {"type": "string", "format": "uri-reference"},
}
_LIMITS: Final[dict[InputType, tuple[str, str]]] = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "list": ("minItems", "maxItems"),
    "map": ("minProperties", "maxProperties"),
}


def workload_schema(inputs: Inputs, *, secrets: bool = False) -> dict[str, Any]:
    """The JSON Schema of the workload of a request. `secrets`: with the secret inputs."""
    fields = {name: each for name, each in inputs.fields.items() if secrets or not each.field.secret}
    required = [name for name, each in fields.items() if each.required]
    return {
        "type": "object",
        "properties": {name: _property(each) for name, each in fields.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _property(each: CompiledInput) -> dict[str, Any]:
    field = each.field
    schema: dict[str, Any] = dict(_TYPES[field.type])
    if each.nullable:
        schema["type"] = [schema["type"], "null"]
    if field.desc:
        schema["description"] = field.desc
    if each.default is not UNSET:
        schema["default"] = each.default
    if field.enum is not None:
        schema["enum"] = [*field.enum, *([None] if each.nullable else [])]
    if field.pattern is not None:
        schema["pattern"] = f"^(?:{field.pattern})$"
    if field.format is not None:
        schema["format"] = field.format
    bounds = zip(_LIMITS.get(field.type, ()), (field.min, field.max), strict=False)
    schema.update({name: bound for name, bound in bounds if bound is not None})
    if field.secret:
        schema |= {"format": field.format or "password", "writeOnly": True}
    if each.items is not None:
        schema["items"] = _property(each.items)
    return schema
