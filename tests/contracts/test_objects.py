"""Results in S3, as moto speaks it, and in stand-ins for Google and Azure keep the contract."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from noetl.adapters.files import MEMORY_PARTS_MAX
from noetl.adapters.objects import ObjectResults
from noetl.adapters.result_refs import PART_BYTES
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.output import JSON
from noetl.testing.contracts import error_of, opened_test
from noetl.testing.contracts.results import ClearableStore, ResultStoreContract, all_of, pieces
from tests.services_clouds import cloud_server, google_account
from tests.services_objects import make_bucket, moto_server


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with moto_server(tmp_path_factory.mktemp("moto")) as address:
        yield address


class TestObjectResults(ResultStoreContract):
    @pytest.fixture(autouse=True)
    def bucket(self, endpoint: str, tmp_path: Path) -> None:
        self.endpoint, self.name = endpoint, tmp_path.name.replace("_", "-").lower()[:60].strip("-")
        make_bucket(endpoint, self.name)

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[ClearableStore]:
        self.store = ObjectResults(f"s3://{self.name}/a/prefix", self.endpoint)
        yield self.store

    async def damage(self, ref: dict[str, JSON]) -> None:
        import obstore
        from obstore.store import S3Store

        where = S3Store(self.name, config={"endpoint": self.endpoint}, client_options={"allow_http": True})
        key = f"a/prefix/{ref['locator']['key']}"
        body = bytes(await (await obstore.get_async(where, key)).bytes_async())
        await obstore.put_async(where, key, body[:-1] + bytes([body[-1] ^ 1]))

    @opened_test("open_store")
    async def test_a_large_stream_is_buffered_in_a_file(self, store: ClearableStore) -> None:
        body = b"0123456789abcdef" * ((MEMORY_PARTS_MAX + 2) * PART_BYTES // 16)
        ref = await store.write("e", pieces(body), "text/plain")
        assert await all_of(store.read(ref)) == body

    @opened_test("open_store")
    async def test_another_prefix_is_another_store(self, store: ClearableStore) -> None:
        ref = await store.put("e", b"x", "text/plain")
        other = ObjectResults(f"s3://{self.name}/b", self.endpoint)
        assert isinstance(await error_of(other.get(ref)), NotFound)
        assert [kept async for kept in other.kept()] == []
        assert ref["locator"] == {
            "store": "s3", "bucket": self.name, "prefix": "a/prefix", "key": f"e/{ref['meta']['sha256']}",
        }  # fmt: skip

    def test_a_bucket_that_is_not_there_is_told_without_the_servers_words(self) -> None:
        async def work() -> NoetlError | None:
            return await error_of(ObjectResults("s3://nobodys", self.endpoint).put("e", b"x", "text/plain"))

        error = asyncio.run(work())
        assert isinstance(error, NotFound | Unavailable)
        assert "s3://nobodys" in str(error)
        assert "127.0.0.1" not in str(error)


@pytest.mark.parametrize("url", ["s3://", "http://bucket", "s3:/bucket", "s3://key:secret@bucket", "s3://b?x=1", ""])
def test_what_is_no_address_of_a_bucket_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Rejected, match="s3://bucket/prefix") as refused:
        ObjectResults(url)
    assert "secret" not in str(refused.value)


class OnCloud(ResultStoreContract):
    """A store whose credentials come from the environment."""

    url: str

    @pytest.fixture(autouse=True)
    def cloud(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with cloud_server() as (address, server):
            self.server = server
            for name, value in self.environment(address).items():
                monkeypatch.setenv(name, value)
            yield

    def environment(self, address: str) -> dict[str, str]:
        raise NotImplementedError

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[ClearableStore]:
        self.server.objects.clear()
        yield ObjectResults(self.url)

    async def damage(self, ref: dict[str, JSON]) -> None:
        key = f"results/a/prefix/{ref['locator']['key']}"
        body, content_type = self.server.objects[key]
        self.server.add(key, body[:-1] + bytes([body[-1] ^ 1]), content_type)


class TestGoogleResults(OnCloud):
    url = "gs://results/a/prefix"

    def environment(self, address: str) -> dict[str, str]:
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": google_account(address)}


class TestAzureResults(OnCloud):
    url = "az://results/a/prefix"

    def environment(self, address: str) -> dict[str, str]:
        key = base64.b64encode(b"key of azure").decode()
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": "acc",
            "AZURE_STORAGE_ACCOUNT_KEY": key,
            "AZURE_STORAGE_ENDPOINT": f"{address}/azure",
        }
