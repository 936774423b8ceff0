"""The client against a real server on a loopback port: operations, ports and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from noetl.client import Client, address
from noetl.client.http import is_private
from noetl.errors import NotFound, PlaybookError, Rejected, Unavailable
from noetl.server.services import ServerSettings
from noetl.views.log import events_of
from tests.api.servers import FAILING, HELLO, NOOP, WAITING, ApiServer, opened
from tests.playbooks import HEAD

Work = Callable[[Client, ApiServer], Awaitable[None]]

LARGE = HEAD + (
    'workload: {text: x}\nworkflow:\n- step: start\n  tool: {kind: noop, input: {text: "{{ workload.text }}"}}\n'
)


def served(folder: Path, work: Work, settings: ServerSettings | None = None) -> None:
    async def whole() -> None:
        async with asyncio.timeout(180), opened(folder, settings) as server:
            token = None
            if settings is not None and not settings.open:
                token = await server.token("admin")
            async with Client(server.server.url, token) as client:
                await work(client, server)

    asyncio.run(whole())


def test_a_playbook_is_registered_once_and_run_to_its_end(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        first = await client.register(HELLO)
        again = await client.register(HELLO)
        assert (first.path, first.version, first.created) == ("t", 1, True)
        assert (again.digest, again.version, again.created) == (first.digest, 1, False)
        run = await client.run("t", {"name": "x"})
        assert run.status == "ok"
        assert run.output is not None
        assert run.output.data == {"greeting": "hello x"}
        assert await client.show(run.execution_id) == run

    served(tmp_path, work)


def test_a_failed_execution_is_a_result_and_not_an_exception(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        await client.register(FAILING)
        run = await client.run("failing")
        assert run.status == "error"
        assert run.error is not None

    served(tmp_path, work)


def test_the_same_key_returns_the_same_execution(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        await client.register(NOOP)
        first = await client.start("t", key="one")
        second = await client.start("t", key="one")
        other = await client.start("t", key="two")
        assert first.execution_id == second.execution_id != other.execution_id
        with pytest.raises(Rejected) as caught:
            await client.start("t", {"another": True}, key="one")
        assert caught.value.code == "idempotency-mismatch"

    served(tmp_path, work)


def test_commands_reach_the_execution_and_return_its_status(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        digest = (await client.register(WAITING)).digest
        id = (await client.start(digest=digest)).execution_id
        assert (await client.pause(id)).status == "paused"
        assert (await client.resume(id)).status == "running"
        async for _ in client.stream(id):
            if (await client.show(id)).steps[0].why is not None:
                break
        with pytest.raises(Rejected) as caught:
            await client.signal(id, "another")
        assert caught.value.code == "nobody-waits"
        await client.signal(id, "go", {"by": "ann"})
        assert [each async for each in client.stream(id)]
        assert (await client.show(id)).status == "ok"
        with pytest.raises(Rejected) as caught:
            await client.cancel(id, "too late")
        assert "over" in caught.value.code

    served(tmp_path, work)


def test_the_remote_ports_read_what_the_store_contains(tmp_path: Path) -> None:
    async def work(client: Client, server: ApiServer) -> None:
        await client.register(HELLO)
        ids = [(await client.run("t", {"name": name})).execution_id for name in "abc"]
        disk = server.runtime.storage
        assert await client.store.read(ids[0]) == await disk.store.read(ids[0])
        assert list(events_of(await client.store.read(ids[0], 3), after=3)) == list(
            events_of(await disk.store.read(ids[0], 3), after=3)
        )
        known = [head._replace(pid=None) for head in await disk.listing.executions()]
        assert await client.listing.executions() == known
        assert await client.listing.executions(2) == known[:2]
        assert await client.listing.executions(2, before=known[0].execution_id) == known[1:]
        assert await client.listing.head(ids[1]) == known[1]
        assert await client.listing.find(ids[2]) == [ids[2]]
        assert await client.listing.last() == ids[2]
        text = await client.catalog.get(known[0].digest)
        assert text == await client.catalog.newest("t") == await disk.catalog.get(known[0].digest)
        assert await client.catalog.versions("t") == await disk.catalog.versions("t")
        assert await client.catalog.list() == await disk.catalog.list()

    served(tmp_path, work)


def test_missing_objects_behave_as_in_a_local_store(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        nobody = "0199b3c2-0000-7000-8000-00000000000a"
        assert await client.store.read(nobody) == []
        assert await client.store.status(nobody) is None
        assert await client.listing.find("0199") == []
        for asking in (
            client.listing.head(nobody),
            client.listing.last(),
            client.catalog.get("0" * 64),
            client.catalog.versions("nowhere"),
            client.start("nowhere"),
            client.cancel(nobody),
        ):
            with pytest.raises(NotFound):
                await asking

    served(tmp_path, work)


def test_an_archived_playbook_cannot_start_until_it_is_registered_again(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        await client.register(NOOP)
        await client.catalog.archive("t")
        with pytest.raises(NotFound):
            await client.catalog.newest("t")
        with pytest.raises(NotFound):
            await client.start("t")
        await client.register(NOOP)
        assert (await client.run("t")).status == "ok"

    served(tmp_path, work)


def test_a_large_result_is_complete_and_verified(tmp_path: Path) -> None:
    async def work(client: Client, server: ApiServer) -> None:
        await client.register(LARGE)
        text = "ä" * 300_000
        run = await client.run("t", {"text": text})
        assert run.output is not None
        assert isinstance(run.output.ref, dict)
        ref = run.output.ref
        body = await client.results.get(ref)
        assert body == await server.runtime.storage.results.get(ref)
        assert text.encode() in body
        foreign = {**ref, "locator": {**ref["locator"], "key": f"{run.execution_id}/{'0' * 64}"}}
        with pytest.raises(NotFound):
            await client.results.get(foreign)

    served(tmp_path, work)


def test_problems_have_positions_in_the_file_of_the_client(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        text = HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: stat}]}\n"
        with pytest.raises(PlaybookError) as caught:
            await client.register(text, file="mine.yaml")
        found = caught.value.problems[0]
        line = text.splitlines().index("  next: {arcs: [{step: stat}]}") + 1
        assert (found.code, found.at.file, found.at.line) == ("unknown-step", "mine.yaml", line)
        assert found.fix == "start"

    served(tmp_path, work)


def test_credentials_are_set_listed_and_removed_without_values(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        assert await client.set_credential("api token/1", "s3cret") == 1
        assert await client.set_credential("api token/1", "n3w-one") == 2
        found = await client.credentials()
        assert [(each.name, each.version) for each in found] == [("api token/1", 2)]
        assert "n3w-one" not in repr(found)
        await client.remove_credential("api token/1")
        assert await client.credentials() == []
        with pytest.raises(NotFound):
            await client.remove_credential("api token/1")

    served(tmp_path, work)


def test_a_token_grants_its_scopes_until_it_is_revoked(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        made = await client.add_token("reader", ["read"], expires_in_s=3_600)
        assert made.id in [each.id for each in await client.tokens()]
        assert made.token not in repr(await client.tokens())
        async with Client(client.url, made.token) as reader:
            assert (await reader.whoami())["name"] == "reader"
            assert "workers" in await reader.workers()
            with pytest.raises(Rejected) as caught:
                await reader.register(NOOP)
            assert caught.value.code == "low-scope"
            await client.remove_token(made.id)
            with pytest.raises(Rejected) as caught:
                await reader.whoami()
            assert "NOETL_TOKEN" in str(caught.value)
            assert made.token not in str(caught.value)

    served(tmp_path, work, ServerSettings(open=False))


def test_a_rate_limited_request_is_retried(tmp_path: Path) -> None:
    async def work(client: Client, _world: ApiServer) -> None:
        answers = await asyncio.gather(*(client.whoami() for _ in range(6)))
        assert len(answers) == 6

    served(tmp_path, work, ServerSettings(open=True, requests_per_s=10, requests_burst=3))


def test_an_unreachable_server_is_named_in_the_error() -> None:
    async def work() -> None:
        async with Client("http://127.0.0.1:1") as client:
            with pytest.raises(Unavailable, match=r"no server answers at http://127\.0\.0\.1:1: connection refused"):
                await client.whoami()
            with pytest.raises(Unavailable, match="no server answers"):
                async for _ in client.stream("e"):
                    pass

    asyncio.run(work())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "does not respond like a NoETL server"),
        (
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nnope!",
            r"not respond like a NoETL server \(HTTP 404\)",
        ),
        (
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            "redirects",
        ),
        (b"HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\n{}", "temporarily unable to do this: HTTP 500"),
        (b"SMTP hello\r\n\r\n", "was lost"),
    ],
)
def test_a_port_without_a_noetl_server_is_recognized(answer: bytes, words: str) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(stranger, "127.0.0.1", 0)
        async with server, Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
            with pytest.raises(Unavailable, match=words):
                await client.remove_token("x")
            with pytest.raises(Unavailable, match=words):
                await client.whoami()

    asyncio.run(work())


@pytest.mark.parametrize(
    "url",
    ["", "host:80", "ftp://host", "http://", "http://u:p@host", "http://h/?a=b", "http://h:x", "http://a b"],
)
def test_an_invalid_address_is_rejected(url: str) -> None:
    with pytest.raises(Rejected, match="address"):
        Client(url)


def test_an_address_is_normalized_and_may_have_a_path() -> None:
    assert address(" HTTPS://Host.Example:8080/noetl/ ") == "https://host.example:8080/noetl"


@pytest.mark.parametrize("token", ["", "two words", "a\nb", "ä"])
def test_an_invalid_token_is_rejected_and_not_repeated(token: str) -> None:
    with pytest.raises(Rejected) as caught:
        Client("http://127.0.0.1:1", token)
    assert caught.value.code == "bad-token"
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("https://example.com", True),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080", True),
        ("http://localhost", True),
        ("http://10.0.0.1", False),
        ("http://example.com", False),
    ],
)
def test_a_connection_is_private_over_tls_or_loopback(url: str, private: bool) -> None:
    assert is_private(url) is private
