"""`object` on S3 (moto), Google Cloud Storage and Azure (stand-ins): the same operations give the same results."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest

from noetl.adapters.memory import MemoryResults
from noetl.errors import NotFound
from noetl.output import JSON, Output
from noetl.secret import Secret
from noetl.tool import Auth
from noetl.tools.object.tool import ObjectInput, ObjectTool
from noetl.tools.resolve import ResolveInput, ResolveTool
from tests.services_clouds import cloud_server, google_account
from tests.services_objects import make_bucket, moto_server
from tests.unit.tools.calls import call


class Cloud(NamedTuple):
    root: str  # s3://bucket
    auth: Auth


def credential(kind: str, **values: str) -> Auth:
    async def renew() -> Auth:
        return auth

    auth = Auth("lake", kind, {name: Secret(value) for name, value in values.items()}, renew, "1")
    return auth


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cloud]]:
    with moto_server(tmp_path_factory.mktemp("moto")) as endpoint, cloud_server() as (address, _):
        make_bucket(endpoint, "shop")
        make_bucket(endpoint, "other")
        keys = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1", "endpoint": endpoint}
        azure = {"account": "acc", "key": base64.b64encode(b"key of azure").decode(), "endpoint": f"{address}/azure"}
        yield {
            "s3": Cloud("s3://shop", credential("aws_credential", **keys)),
            "gs": Cloud("gs://shop", credential("gcp_credential", **{"": google_account(address)})),
            "az": Cloud("az://blobs", credential("azure_credential", **azure)),
        }


class Objects:
    """The tool with one credential."""

    def __init__(self, cloud: Cloud) -> None:
        self.root, self.auth = cloud
        self.results = MemoryResults()
        self.tool, self.resolver = ObjectTool(), ResolveTool()

    async def run(self, **fields: Any) -> Output:
        if "as" in fields:
            fields["as_"] = fields.pop("as")
        return await self.tool.run(ObjectInput(**fields), call(results=self.results)._replace(auth=self.auth))

    async def resolve(self, ref: JSON, **fields: Any) -> Output:
        async def fetched(name: str) -> Auth:
            if name != "lake":
                raise NotFound(name)
            return self.auth

        made = call(results=self.results)._replace(refs=(ref,), credential=fetched)
        return await self.resolver.run(ResolveInput(ref=ref, **fields), made)


each = pytest.mark.parametrize("system", ["s3", "gs", "az"])


def on(clouds: dict[str, Cloud], system: str, work: Callable[[Objects], Awaitable[None]]) -> None:
    async def main() -> None:
        await work(Objects(clouds[system]))

    asyncio.run(main())


@each
def test_an_object_is_written_read_listed_copied_and_deleted(clouds: dict[str, Cloud], system: str) -> None:
    async def work(objects: Objects) -> None:
        url = f"{objects.root}/one/a b+ü.json"
        put = await objects.run(put=url, json={"n": 1})
        assert put.error is None, put.error
        assert put.data == {"url": url, "bytes": 7}
        assert put.ref is not None
        assert put.ref["locator"] == {"system": system, "url": url}
        assert put.ref["auth_reference"] == "keychain/lake"
        assert (put.ref["meta"]["content_type"], put.ref["meta"]["bytes"]) == ("application/json", 7)
        got = await objects.run(get=url)
        assert (got.data, got.own["object"]["bytes"]) == ({"n": 1}, 7)
        assert (await objects.resolve(put.ref, path="$.n")).data == 1
        copied = await objects.run(copy=url, to=f"{objects.root}/one/copy.json")
        assert copied.error is None, copied.error
        assert (await objects.resolve(copied.ref)).data == {"n": 1}
        listed = await objects.run(list=f"{objects.root}/one")
        assert sorted((row["url"], row["bytes"]) for row in listed.data) == [
            (url, 7),
            (f"{objects.root}/one/copy.json", 7),
        ]
        for _ in range(2):  # a repeated delete is not an error
            assert (await objects.run(delete=url)).data == {"url": url}
        gone = await objects.run(get=url)
        assert gone.error is not None
        assert (gone.own["object"]["code"], gone.error.retryable) == ("not-found", False)
        assert gone.error.message == f'there is no object "{url}"'

    on(clouds, system, work)


@each
def test_a_large_result_is_streamed_to_an_object_and_back(clouds: dict[str, Cloud], system: str) -> None:
    async def work(objects: Objects) -> None:
        body = b'{"row": 1}\n' * 2_000_000  # 22 MB: more than two parts of an upload
        source = await objects.results.put("e1", body, "application/x-ndjson")
        put = await objects.run(put=f"{objects.root}/big.ndjson", from_ref=source)
        assert put.error is None, put.error
        assert put.ref is not None
        meta = put.ref["meta"]
        assert (meta["content_type"], meta["bytes"], meta["sha256"]) == (
            "application/x-ndjson", len(body), source["meta"]["sha256"],
        )  # fmt: skip
        file = await objects.run(get=f"{objects.root}/big.ndjson", **{"as": "file"})
        assert file.error is None, file.error
        assert file.ref is not None
        assert (file.ref["meta"]["sha256"], file.ref["meta"]["content_type"]) == (meta["sha256"], meta["content_type"])
        part = await objects.resolve(put.ref, slice="5:7")
        assert part.data == [{"row": 1}, {"row": 1}]
        back = await objects.resolve(put.ref, to="file")
        assert back.ref is not None
        assert back.ref["meta"]["sha256"] == meta["sha256"]

    on(clouds, system, work)


@each
def test_an_object_that_has_changed_is_not_the_one_of_the_ref(clouds: dict[str, Cloud], system: str) -> None:
    async def work(objects: Objects) -> None:
        url = f"{objects.root}/changing.txt"
        written = await objects.run(put=url, text="one")
        seen = await objects.run(get=url, **{"as": "ref"})
        assert (await objects.resolve(written.ref)).data == "one"
        assert (await objects.resolve(seen.ref)).data == "one"
        await objects.run(put=url, text="two")
        by_digest, by_etag = await objects.resolve(written.ref), await objects.resolve(seen.ref)
        assert by_digest.error is not None
        assert by_digest.error.kind == "reference"
        assert by_etag.error is not None
        assert by_etag.error.message == f'"{url}" has changed'

    on(clouds, system, work)


@each
def test_an_existing_object_is_kept_on_request(clouds: dict[str, Cloud], system: str) -> None:
    async def work(objects: Objects) -> None:
        url = f"{objects.root}/once.txt"
        assert (await objects.run(put=url, text="one", overwrite=False)).error is None
        again = await objects.run(put=url, text="two", overwrite=False)
        assert again.error is not None
        assert again.own["object"]["code"] == "exists"
        assert (await objects.run(get=url)).data == "one"

    on(clouds, system, work)


@each
def test_a_wrong_credential_is_refused_before_a_request(clouds: dict[str, Cloud], system: str) -> None:
    async def work(objects: Objects) -> None:
        objects.auth = credential("basic", user="a", password="b")
        output = await objects.run(get=f"{objects.root}/x")
        assert output.error is not None
        assert output.error.kind == "input"
        assert output.error.message.startswith('keychain entry "lake" has the kind "basic"')

    on(clouds, system, work)


def test_an_object_is_copied_to_another_bucket_and_to_a_file(clouds: dict[str, Cloud], tmp_path: Any) -> None:
    async def work(objects: Objects) -> None:
        await objects.run(put="s3://shop/a.csv", text="a,b\n1,2\n")
        there = await objects.run(copy="s3://shop/a.csv", to="s3://other/deep/a.csv")
        assert there.error is None, there.error
        assert (await objects.resolve(there.ref)).data == "a,b\n1,2\n"
        here = await objects.run(copy="s3://shop/a.csv", to=f"file://{tmp_path}/out/a.csv")
        assert here.error is None, here.error
        assert (tmp_path / "out" / "a.csv").read_text() == "a,b\n1,2\n"

    on(clouds, "s3", work)


def test_a_bucket_that_does_not_exist_is_an_error(clouds: dict[str, Cloud]) -> None:
    async def work(objects: Objects) -> None:
        for fields in ({"get": "s3://nobucket/x"}, {"put": "s3://nobucket/x", "text": "x"}, {"list": "s3://nobucket"}):
            output = await objects.run(**fields)
            assert output.error is not None
            assert output.own["object"]["code"] == "not-found", output
            assert "secret" not in str(output)

    on(clouds, "s3", work)


def test_an_endpoint_must_be_an_allowed_address(clouds: dict[str, Cloud]) -> None:
    async def work(objects: Objects) -> None:
        objects.tool = ObjectTool(allow_private=False)
        output = await objects.run(get="s3://shop/x")
        assert output.error is not None
        assert "the address of `endpoint` is not allowed" in output.error.message
        objects.tool = ObjectTool(allow_private=False, allow=["127.0.0.0/8"])
        allowed = await objects.run(get="s3://shop/nope")
        assert allowed.own["object"]["code"] == "not-found"
        for endpoint in ("ftp://x", "http://", "http://u:p@x", "http://x?y", "http://x:port"):
            wrong = await objects.run(get="s3://shop/x", endpoint=endpoint)
            assert wrong.error is not None
            assert wrong.error.message.startswith("`endpoint` must be an address"), endpoint

    on(clouds, "s3", work)


def test_the_address_in_a_service_account_must_be_allowed(clouds: dict[str, Cloud]) -> None:
    async def work(objects: Objects) -> None:
        objects.tool = ObjectTool(allow_private=False)
        output = await objects.run(get="gs://shop/x")
        assert output.error is not None
        assert "the address of `gcs_base_url` is not allowed" in output.error.message

    on(clouds, "gs", work)


def test_an_account_must_be_a_name(clouds: dict[str, Cloud]) -> None:
    async def work(objects: Objects) -> None:
        objects.auth = credential("azure_credential", account="localhost/?", key="a2V5")
        output = await objects.run(get="az://blobs/x")
        assert output.error is not None
        assert output.error.message == 'keychain entry "lake": `account` is not the name of a storage account'

    on(clouds, "az", work)


@each
def test_a_playbook_of_a_server_cannot_use_the_keys_of_the_worker(clouds: dict[str, Cloud], system: str) -> None:
    async def work(objects: Objects) -> None:
        output = await ObjectTool(allow_private=False).run(
            ObjectInput(get=f"{objects.root}/x"), call(results=objects.results)
        )
        assert output.error is not None
        assert output.error.message.startswith(f"{system}:// needs `auth` on a server")

    on(clouds, system, work)
