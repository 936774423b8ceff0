"""The operations of registered playbooks with typed inputs, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from noetl.cache import BoundedCache
from noetl.net.input_schema import workload_schema
from noetl.net.inputs import compile_inputs
from noetl.playbook.kinds import Kinds
from noetl.playbook.reader import read
from noetl.server.auth import Caller
from noetl.server.services import CpuPool, Services

DESCRIBED_MAX: Final = 500  # playbooks in the document, in the order of their paths
PAGE: Final = 100


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
    return {"schema": workload_schema(compile_inputs(playbook)[0], secrets=True), "methods": playbook.executor.methods}


def _item(path: str, schema: dict[str, Any], methods: Sequence[str]) -> dict[str, Any]:
    """The same responses as `/run/{path}`, with the body or the query string of this playbook."""
    body = {"required": bool(schema.get("required")), "content": {"application/json": {"schema": schema}}}
    query = [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": each}
        for name, each in schema["properties"].items()
        if not each.get("writeOnly")
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
