"""Tokens of OAuth clients: kept until shortly before they expire, one request for all that wait (D57)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from noetl.adapters.secrets.sources import SourcePolicy
from noetl.testing import FakeClock
from tests.services_secrets import TokenService, listening
from tests.unit.adapters.secrets.fixtures import entry, opened


@pytest.mark.parametrize(
    ("expires_in", "kept_s"), [(3600, 3570.0), ("120", 90.0), (None, 300.0), ("soon", 300.0), (10, 0.0)]
)
def test_a_token_is_kept_until_half_a_minute_before_it_expires(
    expires_in: object, kept_s: float, tmp_path: Path
) -> None:
    service, clock = TokenService(), FakeClock()
    service.expires_in = expires_in

    async def work() -> None:
        async with listening(service.handle) as address, opened(tmp_path, clock=clock) as setup:
            client = entry(
                "oauth2_client",
                token_url=address,
                client_id=service.CLIENT,
                client_secret=service.PASSWORD,
                scope="read write",
            )
            fetched = await setup.providers.fetch(client)
            assert fetched.expires_s == kept_s
            if kept_s:
                clock.advance(kept_s - 1)
                assert (await setup.providers.fetch(client)).expires_s == 1.0
            clock.advance(kept_s - clock.monotonic())
            assert await setup.values(client) == {"": "token-2-of-service"}
            assert service.scopes == ["read write"] * 2

    asyncio.run(work())


@pytest.mark.parametrize(("networks", "asked"), [("", 0), ("127.0.0.0/8", 1)], ids=["closed", "opened"])
def test_authors_on_a_server_send_a_client_only_where_tools_may_go_d88(
    networks: str, asked: int, tmp_path: Path
) -> None:
    service = TokenService()

    async def work() -> None:
        policy = SourcePolicy.of_server("", "", networks)
        async with listening(service.handle) as address, opened(tmp_path, policy=policy) as setup:
            client = entry("oauth2_client", token_url=address, client_id=service.CLIENT, client_secret=service.PASSWORD)
            told = await setup.told(client)
            refused = "127.0.0.1 is a loopback address, which playbooks may not use"
            assert (refused in told) is (asked == 0), told
        assert len(service.scopes) == asked

    asyncio.run(work())


def test_however_many_wait_one_token_is_asked_for_also_when_all_of_them_were_refused(tmp_path: Path) -> None:
    service = TokenService()

    async def work() -> None:
        async with listening(service.handle) as address, opened(tmp_path) as setup:
            client = entry("oauth2_client", token_url=address, client_id=service.CLIENT, client_secret=service.PASSWORD)
            first = await asyncio.gather(*(setup.values(client) for _ in range(8)))
            assert first == [{"": "token-1-of-service"}] * 8
            fresh = await asyncio.gather(*(setup.values(client, fresh=True) for _ in range(8)))
            assert fresh == [{"": "token-2-of-service"}] * 8
            assert service.granted == 2

    asyncio.run(work())


def test_a_service_that_reads_the_client_from_the_form_is_understood(tmp_path: Path) -> None:
    service = TokenService(by="body")

    async def work() -> None:
        async with listening(service.handle) as address, opened(tmp_path) as setup:
            client = entry("oauth2_client", token_url=address, client_id=service.CLIENT, client_secret=service.PASSWORD)
            assert await setup.values(client) == {"": "token-1-of-service"}

    asyncio.run(work())


def test_a_refusal_shows_neither_the_client_nor_what_the_service_said(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"error": "invalid", "echo": await request.text()}, status=400)

    async def work() -> str:
        async with listening(handle) as address, opened(tmp_path) as setup:
            url = f"{address}/token?tenant=hunter23"
            return await setup.told(entry("oauth2_client", token_url=url, client_id="client", client_secret="hunter22"))

    told = asyncio.run(work())
    assert told.endswith("/token sent no token: HTTP 400")
    assert "hunter" not in told
