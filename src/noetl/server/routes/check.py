"""Playbooks are looked at before they run: checked, explained in words, drawn."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from litestar import Request, Response, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter
from msgspec import Struct

from noetl.check.checker import Checked
from noetl.drawing.chart import chart
from noetl.errors import PlaybookError
from noetl.net.program import Program
from noetl.server.graph import GraphDrawn, drawn, small_enough
from noetl.server.params import READ, RoomGiven, refusals
from noetl.server.playbook_body import (
    PLAYBOOK_BODY_MAX,
    MeantOperation,
    TextGiven,
    TextOperation,
    checked_text,
    given_text,
    meant,
)
from noetl.views.documents import ProblemDocument, problem_document
from noetl.views.explain.explain_text import explanation_text
from noetl.views.explain.playbook import Explanation, explain

TAGS: Final = ["playbooks"]
_TYPES: Final = {"svg": "image/svg+xml", "mermaid": "text/plain", "dot": "text/vnd.graphviz"}


class CheckShown(Struct, frozen=True, kw_only=True):
    ok: bool  # there is no error
    problems: tuple[ProblemDocument, ...]


class ExplanationShown(Struct, frozen=True, kw_only=True):
    text: str
    explanation: Explanation  # the same as data


@post(
    "/playbooks/check",
    opt=READ,
    tags=TAGS,
    summary="Check a text; nothing is kept of it",
    status_code=200,
    operation_class=TextOperation,
    request_max_body_size=PLAYBOOK_BODY_MAX,
    responses=refusals(),
)
async def check_text(request: Request[Any, Any, Any], room: RoomGiven) -> CheckShown:
    given = await given_text(request)
    try:
        checked = (await checked_text(room, given)).checked
    except PlaybookError as error:  # it can not be upgraded
        return CheckShown(ok=False, problems=tuple(map(problem_document, error.problems)))
    return CheckShown(ok=not checked.errors, problems=tuple(map(problem_document, checked.problems)))


@post(
    "/playbooks/explain",
    opt=READ,
    tags=TAGS,
    summary="A playbook as a person would tell it",
    status_code=200,
    operation_class=MeantOperation,
    request_max_body_size=PLAYBOOK_BODY_MAX,
    responses=refusals(404, 422),
)
async def explain_text(request: Request[Any, Any, Any], room: RoomGiven) -> ExplanationShown:
    _, program = await _program(room, await meant(request, room.desk))
    explanation = await room.thinking.do(explain, program, room.desk.kinds)
    return ExplanationShown(
        text=await room.thinking.do(explanation_text, explanation), explanation=explanation
    )


@post(
    "/playbooks/graph",
    opt=READ,
    tags=TAGS,
    summary="A playbook as a net: data, or a drawing",
    status_code=200,
    operation_class=MeantOperation,
    request_max_body_size=PLAYBOOK_BODY_MAX,
    responses={
        200: ResponseSpec(GraphDrawn, generate_examples=False, description="The net, or a drawing of it"),
        **refusals(404, 422),
    },
)
async def graph(
    request: Request[Any, Any, Any],
    room: RoomGiven,
    form: Annotated[Literal["json", "svg", "mermaid", "dot"], QueryParameter(name="format")] = "json",
) -> Response[Any]:
    checked, program = await _program(room, await meant(request, room.desk))
    if form == "json":
        return Response(await room.thinking.do(drawn, checked, program))
    body = await room.thinking.do(_picture, program, form)
    attached = {"Content-Disposition": 'attachment; filename="playbook.svg"'} if form == "svg" else {}
    return Response(body.encode("utf-8", "replace"), media_type=_TYPES[form], headers=attached)


async def _program(room: RoomGiven, given: TextGiven) -> tuple[Checked, Program]:
    """Also of a text with errors, as far as it could be read. Raises PlaybookError."""
    checked = (await checked_text(room, given)).checked
    if checked.program is None:
        raise PlaybookError(checked.problems)
    return checked, checked.program


def _picture(program: Program, form: Literal["svg", "mermaid", "dot"]) -> str:
    made = chart(program)
    if form == "svg":
        from noetl.drawing.svg import svg

        return svg(small_enough(made))
    from noetl.drawing.dot import dot
    from noetl.drawing.mermaid import mermaid

    return {"mermaid": mermaid, "dot": dot}[form](made)


ROUTES = [check_text, explain_text, graph]
