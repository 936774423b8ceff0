"""Results in a table of a real PostgreSQL keep the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from noetl.adapters.postgres.results import PostgresResults
from noetl.errors import NoetlError, Unavailable
from noetl.output import JSON
from noetl.testing.contracts import error_of
from noetl.testing.contracts.results import ClearableStore, ResultStoreContract
from tests.services import connected, database, postgres


class TestPostgresResults(ResultStoreContract):
    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[ClearableStore]:
        async with database() as name:
            self.name = name
            store = PostgresResults(postgres().dsn(name))
            try:
                yield store
            finally:
                await store.close()

    async def damage(self, ref: dict[str, JSON]) -> None:
        async with connected(self.name) as stranger:
            changed = await stranger.execute(
                "UPDATE noetl_result_parts SET body = set_byte(body, 1, get_byte(body, 1) # 1) "
                "FROM noetl_results WHERE id = result AND key = $1 AND place = 0",
                ref["locator"]["key"],
            )
            assert changed == "UPDATE 1"


def test_many_that_come_first_make_the_tables_once() -> None:
    async def work() -> None:
        async with database() as name:
            stores = [PostgresResults(postgres().dsn(name)) for _ in range(6)]
            refs = await asyncio.gather(*(store.put("e", b"x", "text/plain") for store in stores))
            assert all(ref == refs[0] for ref in refs)
            assert len([kept async for kept in stores[0].kept()]) == 1
            for store in stores:
                await store.close()

    asyncio.run(work())


def test_a_server_that_is_away_is_unavailable_and_its_password_is_not_told() -> None:
    async def work() -> NoetlError | None:
        store = PostgresResults("postgresql://user:hidden@127.0.0.1:1/nobody")
        return await error_of(store.put("e", b"x", "text/plain"))

    error = asyncio.run(work())
    assert isinstance(error, Unavailable)
    assert "hidden" not in str(error)
