"""Results in a NATS object store, on a real server, keep the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest

from noetl.adapters.nats.results import NatsResults
from noetl.errors import NoetlError, Rejected, Unavailable
from noetl.output import JSON
from noetl.testing.contracts import error_of
from noetl.testing.contracts.results import LARGE, ClearableStore, ResultStoreContract
from tests.ports import free_port
from tests.services_objects import nats_server


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nats_server(tmp_path_factory.mktemp("nats")) as url:
        yield url


class TestNatsResults(ResultStoreContract):
    @pytest.fixture(autouse=True)
    def bucket(self, address: str, tmp_path: Path) -> None:
        self.address, self.name = address, tmp_path.name[:64]

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[ClearableStore]:
        store = NatsResults(self.address, self.name)
        try:
            yield store
        finally:
            await store.close()

    async def damage(self, ref: dict[str, JSON]) -> None:
        connection = await nats.connect(self.address)
        stream = connection.jetstream()
        info = await (await stream.object_store(self.name)).get_info(ref["locator"]["key"])
        subject = f"$O.{self.name}.C.{info.nuid}"
        last = await stream.get_last_msg(f"OBJ_{self.name}", subject)
        assert last.data is not None
        assert last.seq is not None
        await stream.delete_msg(f"OBJ_{self.name}", last.seq)
        await stream.publish(subject, last.data[:-1] + bytes([last.data[-1] ^ 1]))
        await connection.close()


def test_what_was_put_is_there_after_a_restart_of_the_server(tmp_path: Path) -> None:
    async def put(url: str) -> dict[str, JSON]:
        store = NatsResults(url, "b")
        try:
            return await store.put("e", LARGE, "text/plain")
        finally:
            await store.close()

    async def get(url: str) -> bytes:
        store = NatsResults(url, "b")
        try:
            return await store.get(ref)
        finally:
            await store.close()

    with nats_server(tmp_path) as url:
        ref = asyncio.run(put(url))
    with nats_server(tmp_path) as url:
        assert asyncio.run(get(url)) == LARGE


def test_a_server_that_is_away_is_unavailable_and_its_password_is_not_told() -> None:
    async def work() -> NoetlError | None:
        store = NatsResults(f"nats://user:hidden@127.0.0.1:{free_port()}", "b")
        return await error_of(store.put("e", b"x", "text/plain"))

    error = asyncio.run(work())
    assert isinstance(error, Unavailable)
    assert "hidden" not in str(error)


def test_a_bucket_with_a_strange_name_is_refused() -> None:
    for name in ("", "a.b", "a b", ">", "x" * 65):
        with pytest.raises(Rejected):
            NatsResults("nats://127.0.0.1", name)
