"""`reach` fulfils the contract of all tools, and reports open and closed ports correctly."""

from __future__ import annotations

import asyncio

from noetl_reach.reach import Reach, ReachInput

from noetl.output import JSON
from noetl.testing.contracts.tools import ToolContract, call_of
from noetl.tool import Tool


class TestReach(ToolContract):
    needs = "a server on port 5432"

    def make(self) -> Tool:
        return Reach()

    def fields(self) -> dict[str, JSON]:
        return {"host": "127.0.0.1", "port": 1}


def test_a_listening_server_is_reached() -> None:
    async def work() -> None:
        listening = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            output = await Reach().run(ReachInput(host="127.0.0.1", port=port), call_of())
        assert output.data is True
        assert output.own["reach"]["took_ms"] >= 0

    asyncio.run(work())


def test_a_closed_port_is_a_retryable_error() -> None:
    output = asyncio.run(Reach().run(ReachInput(host="127.0.0.1", port=1), call_of()))
    assert output.error is not None
    assert (output.error.kind, output.error.retryable) == ("reach", True)
