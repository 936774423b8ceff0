"""Registered playbooks with `metadata.expose_as_tool`: each is a tool of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final, NamedTuple

from noetl.cache import BoundedCache
from noetl.errors import NotFound
from noetl.mcp.context import VerbContext
from noetl.net.input_schema import workload_schema
from noetl.net.inputs import compile_inputs
from noetl.playbook.exposed import EXPOSE, distinct_name, name_problem, tool_name
from noetl.playbook.kinds import Kinds
from noetl.playbook.reader import read

READ_MAX: Final = 1_000  # registered playbooks that are looked at, in the order of their paths
SHOWN_MAX: Final = 100  # tools of this kind


class ExposedPlaybook(NamedTuple):
    """A playbook as a tool."""

    path: str
    doc: str
    schema: dict[str, Any]  # of its inputs


class ExposedPlaybooks:
    """Reads each text once, however often tools are listed."""

    def __init__(self) -> None:
        # By digest; without a path: the playbook is not a tool.
        self._known: BoundedCache[str, ExposedPlaybook] = BoundedCache(2 * READ_MAX)

    async def tools(self, context: VerbContext) -> dict[str, ExposedPlaybook]:
        """By name. Paths that give the same name have longer names, so that an agent calls what it means."""
        found: list[ExposedPlaybook] = []
        for each in await context.session.playbooks.list(limit=READ_MAX):
            if len(found) >= SHOWN_MAX:
                break
            if (exposed := await self._read(context, each.digest)) is not None:
                found.append(exposed)
        count = Counter(tool_name(each.path) for each in found)
        return {name if count[name := tool_name(each.path)] == 1 else distinct_name(each.path): each for each in found}

    async def _read(self, context: VerbContext, digest: str) -> ExposedPlaybook | None:
        known = self._known.get(digest)
        if known is None:
            try:
                text = (await context.session.catalog.get(digest)).text
            except NotFound:  # it was removed a moment ago
                return None
            known = self._known.put(digest, await asyncio.to_thread(_exposed, text, context.kinds))
        return known if known.path else None


def _exposed(text: str, kinds: Kinds) -> ExposedPlaybook:
    playbook = read(text, kinds).playbook
    if playbook is None or playbook.inputs is None or playbook.metadata.get(EXPOSE) is not True:
        return ExposedPlaybook("", "", {})
    if name_problem(playbook.path) is not None:
        return ExposedPlaybook("", "", {})
    doc = str(playbook.metadata.get("description") or playbook.name)
    return ExposedPlaybook(playbook.path, doc, workload_schema(compile_inputs(playbook)[0]))
