"""The operations of registered playbooks with typed inputs, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET

from noetl.cache import BoundedCache
from noetl.net.inputs import CompiledInput, Inputs, compile_inputs
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import InputType
from noetl.playbook.reader import read
from noetl.server.auth import Caller
from noetl.server.services import CpuPool, Services

DESCRIBED_MAX: Final = 500  # playbooks in the document, in the order of their paths
PAGE: Final = 100
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


class RunSchemas:
    """Makes the schema of each playbook once."""

    def __init__(self, services: Services, cpu_pool: CpuPool) -> None:
        self._services = services
        self._cpu_pool = cpu_pool
        self._schemas: BoundedCache[str, dict[str, Any]] = BoundedCache(2 * DESCRIBED_MAX)  # {}: without inputs

    async def paths(self, caller: Caller) -> dict[str, dict[str, Any]]:
        """Path items of OpenAPI, for the playbooks that the caller may run."""
        found: dict[str, dict[str, Any]] = {}
        catalog, after = self._services.catalog, ""
        while len(found) < DESCRIBED_MAX and (page := await catalog.list(after=after, limit=PAGE)):
            for each in page[: DESCRIBED_MAX - len(found)]:
                if caller.may("run", each.path) and (schema := await self._schema(each.digest)):
                    found[f"/run/{each.path}"] = _item(each.path, **schema)
            after = page[-1].path
        return found

    async def _schema(self, digest: str) -> dict[str, Any]:
        schema = self._schemas.get(digest)
        if schema is None:
            text = (await self._services.catalog.get(digest)).text
            schema = self._schemas.put(digest, await self._cpu_pool.run(_schema_of, text, self._services.kinds))
        return schema


def _schema_of(text: str, kinds: Kinds) -> dict[str, Any]:
    playbook = read(text, kinds).playbook
    if playbook is None or playbook.inputs is None or not playbook.executor.methods:
        return {}
    return {"schema": workload_schema(compile_inputs(playbook)[0]), "methods": playbook.executor.methods}


def workload_schema(inputs: Inputs) -> dict[str, Any]:
    """The JSON Schema of the workload of a request."""
    required = [name for name, each in inputs.fields.items() if each.required]
    return {
        "type": "object",
        "properties": {name: _property(each) for name, each in inputs.fields.items()},
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
    if each.items is not None:
        schema["items"] = _property(each.items)
    return schema


def _item(path: str, schema: dict[str, Any], methods: Sequence[str]) -> dict[str, Any]:
    """The same responses as `/run/{path}`, with the body or the query string of this playbook."""
    body = {"required": bool(schema.get("required")), "content": {"application/json": {"schema": schema}}}
    query = [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": each}
        for name, each in schema["properties"].items()
    ]
    inputs: dict[str, dict[str, Any]] = {"POST": {"requestBody": body}, "GET": {"parameters": query}}
    return {each.lower(): _operation(path, each, inputs[each]) for each in methods}


def _operation(path: str, method: str, inputs: dict[str, Any]) -> dict[str, Any]:
    prefix = "run_" if method == "POST" else f"{method.lower()}_run_"
    return {
        "tags": ["executions"],
        "summary": f"Run {path}",
        "operationId": prefix + "".join(char if char.isalnum() else "_" for char in path),
        **inputs,
        "responses": {
            "200": {
                "description": "The output data of the playbook, or the answer of a `respond` task with its own status",
                "content": {"application/json": {"schema": {}}},
            }
        },
    }
