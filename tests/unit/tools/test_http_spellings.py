"""SSRF: no spelling of a refused address reaches a decoy on loopback, directly or by redirect."""

from __future__ import annotations

import pytest
from aiohttp import web

from noetl.output import Output
from noetl.tools.http.tool import HttpInput, HttpTool
from tests.unit.tools.calls import call, server
from tests.unit.tools.test_http import error_of, redirecting, with_http

# 127.0.0.2, which is refused, while the server that redirects is at 127.0.0.1, which is allowed. Other networks
# that wrap an address (NAT64, 6to4, Teredo) are tested without a connection (test_addresses).
SPELLINGS = [
    "127.0.0.2",
    "127.0.2",
    "127.2",
    "2130706434",
    "0x7f000002",
    "0x7F000002",
    "0x7f.0.0.2",
    "0x7f.2",
    "0x7f.0x0.0x0.0x2",
    "0177.0.0.2",
    "0177.2",
    "0177.0000.0000.0002",
    "017700000002",
    "127.0.0.02",
    "127.0.0.0x2",
    "127.000.000.002",
    "127.0.0.2.",
    "127%2E0%2E0%2E2",
    "127。0。0。2",
    "127.0。0.2",
    "①②⑦.⓪.⓪.②",
    "１２７.0.0.2",
    "[::ffff:127.0.0.2]",
    "[::ffff:7f00:2]",
    "[::ffff:7f00:0002]",
    "[0:0:0:0:0:ffff:127.0.0.2]",
    "[0000:0000:0000:0000:0000:ffff:7f00:0002]",
    "[::FFFF:127.0.0.2]",
    "0177.0.2",
    "0x7f.0.2",
    "0177.0x0.2",
    "00177.0.0.2",
    "0x7f.0.0.0x02",
    "127.00.00.02",
    "0x0000007f.2",
    "127.0.0x2",
    "user@127.0.0.2",
    "user:word@127.0.0.2",
    "127.0.0.1@127.0.0.2",
    "127.0.0.2%00.example",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_a_refused_address_reaches_it_d88(spelling: str) -> None:
    reached: list[str] = []

    async def decoy(request: web.Request) -> web.StreamResponse:
        reached.append(request.path)
        return web.Response()

    async def use(http: HttpTool) -> list[Output]:
        async with server(decoy, "127.0.0.2") as other:
            to = f"http://{spelling}:{other.rpartition(':')[2]}/"
            async with server(redirecting(302, to)) as at:
                return [await http.run(HttpInput(url=url), call()) for url in (to, f"{at}/items")]

    outputs = with_http(use, HttpTool(allow_private=False, allow=["127.0.0.1/32"]))
    assert reached == []
    assert {output.status for output in outputs} == {"error"}
    assert {error_of(output).kind for output in outputs} <= {"http", "input", "timeout"}


def test_the_decoy_is_reachable_if_it_is_allowed() -> None:
    async def use(http: HttpTool) -> Output:
        async def decoy(_request: web.Request) -> web.StreamResponse:
            return web.Response(text="reached")

        async with server(decoy, "127.0.0.2") as at:
            return await http.run(HttpInput(url=at), call())

    assert with_http(use, HttpTool(allow_private=True)).data == "reached"
    assert len(SPELLINGS) == len(set(SPELLINGS)) == 40
