"""The kinds of tools that the server knows, and the workers that have them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

from litestar import get
from litestar.params import PathParameter
from msgspec import Struct

from noetl.errors import NotFound
from noetl.ports import WorkerInfo
from noetl.server.params import READ, DeskGiven, refusals
from noetl.views.log import instant
from noetl.views.tool_kinds import FieldDocument, kind_document, unfolded


class ToolShown(Struct, frozen=True, kw_only=True):
    kind: str
    summary: str
    pure: bool  # no effect on the world
    free_input: bool  # `input` holds the author's own arguments (D9)


class ToolsShown(Struct, frozen=True, kw_only=True):
    items: tuple[ToolShown, ...]


class ToolTold(Struct, frozen=True, kw_only=True):
    """A kind, with all that an author must know of it."""

    kind: str
    doc: str
    pure: bool
    free_input: bool
    fields: tuple[FieldDocument, ...]
    knobs: tuple[FieldDocument, ...]
    notes: tuple[str, ...]
    example: str


class WorkerShown(Struct, frozen=True, kw_only=True):
    name: str
    pool: str
    slots: int
    busy: int
    host: str
    pid: int
    version: str
    labels: dict[str, str]
    leaving: bool
    at: str  # when it was heard last


class PoolShown(Struct, frozen=True, kw_only=True):
    pool: str
    workers: int
    slots: int
    busy: int


class WorkersShown(Struct, frozen=True, kw_only=True):
    workers: tuple[WorkerShown, ...]
    pools: tuple[PoolShown, ...]


@get("/tools", opt=READ, tags=["tools"], summary="The kinds of tools", responses=refusals())
async def tools(desk: DeskGiven) -> ToolsShown:
    return ToolsShown(
        items=tuple(
            ToolShown(
                kind=name,
                summary=_first_sentence(unfolded(kind.doc)),
                pure=kind.pure,
                free_input=kind.free_input,
            )
            for name, kind in desk.kinds.items()
        )
    )


def _first_sentence(doc: str) -> str:
    return doc.partition("\n\n")[0].partition(". ")[0].removesuffix(".")


@get("/tools/{kind:str}", opt=READ, tags=["tools"], summary="One kind, in full", responses=refusals(404))
async def tool(
    desk: DeskGiven, kind: Annotated[str, PathParameter(description="as it stands in playbooks")]
) -> ToolTold:
    known = desk.kinds.get(kind)
    if known is None:
        near = get_close_matches(kind[:100], desk.kinds, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(desk.kinds)}"
        raise NotFound(f'no tool of kind "{kind[:100]}" is installed; {hint}')
    said = kind_document(known, str(getattr(desk.tools.make(kind), "example", "")))
    return ToolTold(
        kind=said.kind,
        doc=said.doc,
        pure=known.pure,
        free_input=known.free_input,
        fields=said.fields,
        knobs=said.knobs,
        notes=said.notes,
        example=said.example,
    )


@get("/workers", opt=READ, tags=["workers"], summary="Workers, and pools of them", responses=refusals())
async def workers(desk: DeskGiven) -> WorkersShown:
    seen = sorted(desk.roster.workers(), key=lambda each: (each.pool, each.name))
    pools = dict.fromkeys(each.pool for each in seen)
    return WorkersShown(
        workers=tuple(map(_worker, seen)),
        pools=tuple(_pool(pool, [each for each in seen if each.pool == pool]) for pool in pools),
    )


def _worker(seen: WorkerInfo) -> WorkerShown:
    return WorkerShown(**{**seen._asdict(), "at": instant(seen.at)})


def _pool(pool: str, seen: list[WorkerInfo]) -> PoolShown:
    slots, busy = sum(each.slots for each in seen), sum(each.busy for each in seen)
    return PoolShown(pool=pool, workers=len(seen), slots=slots, busy=busy)


ROUTES = [tools, tool, workers]
