"""What an expression in a debugger reads from the result store."""

from __future__ import annotations

import asyncio

from msgspec.json import encode

from noetl.engine.state import State
from noetl.engine.stored import mark
from noetl.output import JSON
from noetl.testing.scenario import Player
from noetl.views.debugging import PlaceScopes, Reads
from tests.playbooks import kinds

BODY = "workflow:\n- step: start\n  tool: {kind: noop}\n"


def ref_to(owner: str) -> dict[str, JSON]:
    return {"type": "blob", "locator": {"key": f"{owner}/1"}}


def test_only_values_of_the_execution_and_of_its_request_are_read_d99() -> None:
    """Data can look like a stored value, and a debugger reads for a caller whose role may be limited to paths."""
    marks = {owner: mark(ref_to(owner)) for owner in ("e", "origin", "caller", "other")}
    state = State(execution_id="e", origins=("origin",), workload={"rows": marks["caller"]}, ctx=marks)
    program = Player(BODY, kinds()).program

    async def result(ref: dict[str, JSON]) -> bytes:
        return encode(ref["locator"]["key"])

    async def item(_ref: dict[str, JSON], _index: int) -> JSON:
        raise AssertionError

    async def value(owner: str) -> JSON:
        found = await PlaceScopes(program, state, None).evaluate(f"ctx.{owner}", Reads(result, item))
        return found.error or found.value

    assert [asyncio.run(value(owner)) for owner in ("e", "origin", "caller")] == ["e/1", "origin/1", "caller/1"]
    refused = "foreign-ref: it reads a value that data of the execution takes from another one"
    assert asyncio.run(value("other")) == refused
