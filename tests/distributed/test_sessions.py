"""Sessions in a cluster: a sign-in begins on one server, ends on another, and holds on both, also after a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp

from noetl.clock import SystemClock
from tests.api.browsers import Browser
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster
from tests.identity_provider import ROLES, identity_provider
from tests.ports import free_port

NOTICED_S = 120.0  # a busy machine; the limit of the server is 5 s


class BalancedBrowser(Browser):
    """A browser in front of two servers: `server` answers the next requests to the public address."""

    def __init__(self, session: aiohttp.ClientSession, url: str, cluster: Cluster) -> None:
        super().__init__(session, url)
        self.cluster = cluster
        self.server = 0

    def address(self, url: str) -> str:
        return self.cluster.url(self.server) + url.removeprefix(self.url) if url.startswith(self.url) else url


async def status(browser: BalancedBrowser, server: int) -> int:
    browser.server = server
    return (await browser.ask("GET", "/whoami")).status


def test_a_session_holds_on_every_server(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"  # of a load balancer

    async def work(cluster: Cluster) -> None:
        async with aiohttp.ClientSession() as session, asyncio.timeout(600):
            browser = BalancedBrowser(session, url, cluster)
            location = await browser.begin()
            browser.server = 1  # knows nothing of the sign-in
            answer = await browser.ask("GET", await browser.authenticate(location, "ann"))
            assert answer.headers["location"] == "/ui/", answer
            assert [await status(browser, each) for each in (1, 0)] == [200, 200]
            cluster.servers[1].kill()
            cluster.start_server(1)
            assert await status(browser, 1) == 200
            cookies = dict(browser.cookies)
            assert (await browser.change("DELETE", "/session")).status == 204
            browser.cookies.update(cookies)
            assert await status(browser, 1) == 401
            async with asyncio.timeout(NOTICED_S):
                while await status(browser, 0) != 401:
                    await SystemClock().sleep(0.2)

    with identity_provider(tmp_path) as provider:
        client = provider.register(url)
        variables = {
            "NOETL_PUBLIC_URL": url,
            "NOETL_OIDC_ISSUER": provider.issuer,
            "NOETL_OIDC_CLIENT_ID": client.id,
            "NOETL_OIDC_CLIENT_SECRET": client.secret,
            "NOETL_OIDC_SCOPES": "openid profile email groups",
            "NOETL_OIDC_ROLES": json.dumps(ROLES),
        }
        with open_cluster(tmp_path, ClusterSize(servers=2, workers=1, variables=variables)) as cluster:
            asyncio.run(work(cluster))
