"""The kinds of tools that the server knows, and the workers."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

from litestar import get
from litestar.params import PathParameter

from noetl.api.admin import PoolItem, WorkerItem, WorkersResponse
from noetl.api.analysis import ToolDetails, ToolList, ToolSummary
from noetl.errors import NotFound
from noetl.ports import WorkerInfo
from noetl.server.params import READ, ServicesParam, error_responses
from noetl.views.tool_kinds import kind_document, unfolded


@get("/tools", opt=READ, tags=["tools"], summary="List the kinds of tools", responses=error_responses())
async def tools(services: ServicesParam) -> ToolList:
    return ToolList(
        items=tuple(
            ToolSummary(
                kind=name, summary=_first_sentence(unfolded(kind.doc)), pure=kind.pure, free_input=kind.free_input
            )
            for name, kind in services.kinds.items()
        )
    )


def _first_sentence(doc: str) -> str:
    return doc.partition("\n\n")[0].partition(". ")[0].removesuffix(".")


@get("/tools/{kind:str}", opt=READ, tags=["tools"], summary="Describe one kind", responses=error_responses(404))
async def tool(
    services: ServicesParam, kind: Annotated[str, PathParameter(description="as playbooks name it")]
) -> ToolDetails:
    known = services.kinds.get(kind)
    if known is None:
        near = get_close_matches(kind[:100], services.kinds, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"the kinds are {', '.join(services.kinds)}"
        raise NotFound(f'no tool of kind "{kind[:100]}" is installed; {hint}')
    description = kind_document(known, str(getattr(services.tools.make(kind), "example", "")))
    return ToolDetails(
        kind=description.kind,
        doc=description.doc,
        pure=known.pure,
        free_input=known.free_input,
        fields=description.fields,
        knobs=description.knobs,
        notes=description.notes,
        example=description.example,
    )


@get("/workers", opt=READ, tags=["workers"], summary="List workers and pools", responses=error_responses())
async def workers(services: ServicesParam) -> WorkersResponse:
    found = sorted(services.workers.workers(), key=lambda each: (each.pool, each.name))
    pools = dict.fromkeys(each.pool for each in found)
    return WorkersResponse(
        workers=tuple(map(WorkerItem.from_info, found)),
        pools=tuple(_pool(pool, [each for each in found if each.pool == pool]) for pool in pools),
    )


def _pool(pool: str, members: list[WorkerInfo]) -> PoolItem:
    slots, busy = sum(each.slots for each in members), sum(each.busy for each in members)
    return PoolItem(pool=pool, workers=len(members), slots=slots, busy=busy)


ROUTES = [tools, tool, workers]
