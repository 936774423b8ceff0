"""Roles on a server with PostgreSQL, NATS and workers: the same matrix as on the embedded server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from noetl.control.roles import ROLES
from tests.api.role_matrix import Declared, check_matrix, routes_of
from tests.api.servers import Api, ApiServer, serve
from tests.distributed.cluster import ClusterSize, open_cluster


def test_every_route_with_every_role_on_postgres(tmp_path: Path) -> None:
    routes: list[Declared] = []

    async def declare(server: ApiServer) -> None:
        routes.extend(routes_of(server.app))

    async def work(url: str, token: str) -> None:
        async with aiohttp.ClientSession() as session:
            assert await check_matrix(Api(session, url, token), routes) == len(ROLES) * len(routes) * 4

    serve(tmp_path, declare)
    with open_cluster(tmp_path, ClusterSize(servers=1, workers=1)) as cluster:
        asyncio.run(work(cluster.url(), cluster.token))
