"""The language of playbooks for editors, with the tools that this server knows."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec

from noetl.playbook.json_schema import json_schema
from noetl.server.params import READ, RoomGiven, refusals

TAGS: Final = ["playbooks"]


@get(
    "/playbooks/schema",
    opt=READ,
    tags=TAGS,
    summary="The JSON Schema of playbooks",
    responses={
        200: ResponseSpec(dict[str, Any], generate_examples=False, description="Draft 2020-12"),
        **refusals(),
    },
)
async def playbook_schema(room: RoomGiven) -> Response[bytes]:
    """What `noetl schema` prints: completion, descriptions and first errors, as editors read them."""
    made = await room.thinking.do(_encoded, room)
    return Response(made, media_type="application/json")


def _encoded(room: RoomGiven) -> bytes:
    return msgspec.json.encode(json_schema(room.desk.kinds))


ROUTES = [playbook_schema]
