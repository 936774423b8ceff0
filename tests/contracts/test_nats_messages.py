"""Triggers of kind `nats` on a real NATS: subjects, streams, redelivery, bad messages, pauses, and lost connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js import JetStreamContext

from noetl.adapters.nats.connection import NatsConnection, NatsSettings
from noetl.adapters.nats.messages import NatsMessages
from noetl.clock import SystemClock
from noetl.errors import NoetlError, Rejected, Unavailable
from noetl.ports import Firing, MessageAnswer, MessageSelection, ReceivedMessage
from noetl.runtime.local_server import LocalServer, open_local_server
from noetl.secret import Secret
from noetl.tool import AddressPolicy
from tests.playbooks import HEAD
from tests.services_nats import NatsServer, running_nats
from tests.services_nats_keys import new_key, with_nkey, with_operator

CLOCK = SystemClock()
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
USERS = """\
accounts {
  SHOP: {
    jetstream: enabled
    users: [
      {user: shop, password: secret}
      {user: guest, password: guest, permissions: {subscribe: ["_INBOX.>"], publish: ["$JS.>", "_INBOX.>"]}}
    ]
  }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("nats")) as running:
        yield running


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(120):
        while not await holds():
            await CLOCK.sleep(0.02)


@asynccontextmanager
async def stream(server: NatsServer, name: str, *subjects: str) -> AsyncIterator[JetStreamContext]:
    client = await nats.connect(server.url)
    try:
        await client.jetstream().add_stream(name=name, subjects=list(subjects))
        yield client.jetstream()
    finally:
        await client.close()


class Receivers:
    """Receivers of one group, and what they got."""

    def __init__(self, server: NatsServer, selection: MessageSelection, count: int = 2) -> None:
        self.selection = selection
        self.got: list[tuple[int, ReceivedMessage]] = []
        self.answer: Callable[[ReceivedMessage], MessageAnswer] = lambda _message: MessageAnswer("done")
        self._connections = [NatsConnection(server.url) for _ in range(count)]
        self.sources = [NatsMessages(each, AddressPolicy(), CLOCK) for each in self._connections]
        self.tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Receivers:
        for number, source in enumerate(self.sources):
            self.tasks.append(asyncio.ensure_future(source.receive(self.selection, self._handler(number))))
        return self

    def _handler(self, number: int) -> Callable[[ReceivedMessage], Awaitable[MessageAnswer]]:
        async def handle(message: ReceivedMessage) -> MessageAnswer:
            self.got.append((number, message))
            return self.answer(message)

        return handle

    async def __aexit__(self, *_error: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for each in self._connections:
            await each.close()

    async def until(self, count: int) -> None:
        async def holds() -> bool:
            assert not any(task.done() for task in self.tasks)
            return len(self.got) >= count

        await until(holds)


def test_one_receiver_of_a_group_takes_each_message_of_a_subject(server: NatsServer) -> None:
    async def work() -> None:
        client = await nats.connect(server.url)
        async with Receivers(server, MessageSelection("g", "shop.*.new", None, None, None)) as receivers:

            async def both_receive() -> bool:  # a subscription takes a moment
                await client.publish("shop.x.new", b"")
                await client.flush()
                return {number for number, _ in receivers.got} == {0, 1}

            await until(both_receive)
            for number in range(50):
                await client.publish("shop.a.new", b"%d" % number, headers={"id": str(number)})
                await client.publish("shop.a.old", b"other")
            await client.flush()

            async def all_came() -> bool:
                return sum(each.subject == "shop.a.new" for _, each in receivers.got) == 50

            await until(all_came)
            found = Counter(each.data for _, each in receivers.got if each.subject == "shop.a.new")
            assert found == {b"%d" % number: 1 for number in range(50)}
            assert {each.headers.get("id") for _, each in receivers.got} >= {"0", "49"}
            assert {each.stream for _, each in receivers.got} == {None}
        await client.close()

    asyncio.run(work())


def test_a_stream_keeps_messages_until_they_are_done(server: NatsServer) -> None:
    async def work() -> None:
        async with stream(server, "KEEP", "keep.>") as sender:
            for number in range(150):
                await sender.publish("keep.a", b"%d" % number)
            await sender.publish("keep.b", b"other")
            selection = MessageSelection("keepers", "keep.a", "KEEP", None, None)
            async with Receivers(server, selection) as receivers:
                receivers.answer = lambda each: MessageAnswer(
                    "done" if each.deliveries > 1 or int(each.data) % 10 else "again" if int(each.data) else "never"
                )
                await receivers.until(164)
            found = Counter(int(each.data) for _, each in receivers.got)
            assert found == {number: 2 if number and number % 10 == 0 else 1 for number in range(150)}
            assert {each.sequence - int(each.data) for _, each in receivers.got} == {1}
            assert {(each.stream, each.subject) for _, each in receivers.got} == {("KEEP", "keep.a")}
            places = {(each.data, each.sequence, each.stored_at) for _, each in receivers.got}
            assert len(places) == 150  # the same for each delivery
            await sender.publish("keep.a", b"later")
            async with Receivers(server, selection) as others:  # the group has kept its position
                await others.until(1)
                assert [each.data for _, each in others.got] == [b"later"]
            wider = selection._replace(subject="keep.*", since=SINCE)  # another subject, at the same position
            await sender.publish("keep.b", b"wider")
            async with Receivers(server, wider) as others:
                await others.until(1)
                assert [each.data for _, each in others.got] == [b"wider"]
                await others.sources[0].forget(wider)

                async def all_ended() -> bool:
                    return all(task.done() for task in others.tasks)

                await until(all_ended)
                assert {type(task.exception()) for task in others.tasks} == {Unavailable}
            with pytest.raises(nats.js.errors.NotFoundError):
                await sender.consumer_info("KEEP", "keepers")

    asyncio.run(work())


def test_only_messages_since_the_registration(server: NatsServer) -> None:
    async def work() -> None:
        async with stream(server, "SINCE", "since.>") as sender:
            await sender.publish("since.a", b"before")
            await CLOCK.sleep(0.01)
            now = CLOCK.now()
            await sender.publish("since.a", b"after")
            async with Receivers(server, MessageSelection("new", None, "SINCE", now, None)) as receivers:
                await receivers.until(1)
                assert [each.data for _, each in receivers.got] == [b"after"]

    asyncio.run(work())


def test_what_cannot_be_received_is_an_error(tmp_path: Path) -> None:
    async def receive(source: NatsMessages, selection: MessageSelection) -> NoetlError:
        async def handle(_message: ReceivedMessage) -> MessageAnswer:
            return MessageAnswer("done")

        with pytest.raises(NoetlError) as caught:
            async with asyncio.timeout(60):
                await source.receive(selection, handle)
        return caught.value

    async def work(url: str, port: int) -> None:
        guest = NatsConnection(url.replace("//", "//guest:guest@"))
        source = NatsMessages(guest, AddressPolicy(), CLOCK)
        subject = MessageSelection("g", "shop.>", None, None, None)
        denied = await receive(source, subject)
        assert isinstance(denied, Rejected)
        assert 'may not subscribe to "shop.>"' in str(denied)
        missing = await receive(source, MessageSelection("g", None, "NONE", None, None))
        assert 'no stream "NONE"' in str(missing)
        await guest.close()
        alone = NatsMessages(None, AddressPolicy(), CLOCK)
        assert "start it with --nats" in str(await receive(alone, subject))
        given = {
            "url": Secret(f"nats://localhost:{port}"),
            "user": Secret("shop"),
            "password": Secret("no"),
        }
        wrong = await receive(alone, subject._replace(credential=given))
        assert isinstance(wrong, Unavailable)
        strict = NatsMessages(None, AddressPolicy.of_server(""), CLOCK)
        refused = await receive(strict, subject._replace(credential=given))
        assert "loopback" in str(refused)
        for error in (wrong, refused):
            assert "localhost" not in str(error)

    with running_nats(tmp_path, USERS) as running:
        asyncio.run(work(running.url, running.port))


@pytest.mark.parametrize("login", ["nkey", "creds"])
def test_messages_are_received_with_a_key(tmp_path: Path, login: str) -> None:
    user = new_key("user")
    config, creds = (with_nkey(user), "") if login == "nkey" else with_operator()
    secrets = {"url": "", login: creds or user.seed}
    got = asyncio.Event()

    async def handle(_message: ReceivedMessage) -> MessageAnswer:
        got.set()
        return MessageAnswer("done")

    async def work(url: str) -> None:
        given = {name: Secret(value or url) for name, value in secrets.items()}
        selection = MessageSelection("g", "orders.>", None, None, given)
        receiving = asyncio.create_task(NatsMessages(None, AddressPolicy(), CLOCK).receive(selection, handle))
        settings = NatsSettings(url, **{login: secrets[login]})
        sender = NatsConnection(settings, "sender", CLOCK)

        async def received() -> bool:
            if receiving.done():
                receiving.result()
            await sender.publish("orders.new", b"{}")
            return got.is_set()

        await until(received)
        receiving.cancel()
        await asyncio.wait([receiving])
        await sender.close()

    with running_nats(tmp_path, config, jetstream=False) as running:
        asyncio.run(work(running.url))


# A whole server on one file

PLAYBOOK = (
    HEAD.replace("path: t", "path: shop/orders")
    + "KEYCHAINinput: {order: {type: map, required: true}}\ntriggers:\n- {TRIGGER, workload: {order: '{{ message.data }}'}}\n"
    + "workflow:\n- step: start\n  tool: {kind: noop, input: {order: '{{ workload.order }}'}}\n"
)


async def register(local: LocalServer, trigger: str | None, keychain: str = "") -> None:
    text = PLAYBOOK.replace("KEYCHAIN", keychain)
    if trigger is None:
        text = text[: text.index("triggers:")] + text[text.index("workflow:") :]
    digest = await local.services.playbooks.add(text.replace("TRIGGER", trigger or ""), None)
    await local.triggers.declare(digest)


async def history(local: LocalServer, count: int) -> list[Firing]:
    """The first entries, the oldest first, when there are so many."""
    found: list[Any] = []

    async def enough() -> bool:
        found[:] = await local.triggers.store.history("shop/orders", "events", limit=1_000)
        return len(found) >= count

    await until(enough)
    return [each.firing for each in reversed(found)]


def test_each_message_of_a_stream_starts_one_execution(tmp_path: Path, server: NatsServer) -> None:
    async def work() -> None:
        async with stream(server, "ORDERS", "orders.>") as sender:
            async with open_local_server(tmp_path / "n.db", nats=server.url) as local:
                await register(local, "name: events, kind: nats, stream: ORDERS, deliver: all")
                for number in range(20):
                    await sender.publish("orders.new", b'{"id": %d}' % number)
                await history(local, 20)
                row = await local.triggers.set_paused("shop/orders", "events", paused=True)
                assert row.paused
                await sender.publish("orders.new", b'{"id": 20}')
            async with open_local_server(tmp_path / "n.db", nats=server.url) as local:
                await local.triggers.set_paused("shop/orders", "events", paused=False)
                found = await history(local, 21)  # the stream kept the message during the pause
                assert {each.status for each in found} == {"started"}
                assert len({each.execution_id for each in found}) == 21
                heads = await local.services.listing.executions(100)
                assert {each.execution_id for each in heads} == {each.execution_id for each in found}
                info = await sender.consumers_info("ORDERS")
                assert len(info) == 1
                await register(local, None)  # the trigger is gone, and so is its consumer

                async def gone() -> bool:
                    return not await sender.consumers_info("ORDERS")

                await until(gone)

    asyncio.run(work())


def test_a_key_and_bad_messages(tmp_path: Path, server: NatsServer) -> None:
    async def work() -> None:
        key = "key: \"{{ message.headers['id'] }}\""
        async with (
            stream(server, "BAD", "bad.>") as sender,
            open_local_server(tmp_path / "n.db", nats=server.url) as local,
        ):
            await register(local, f"name: events, kind: nats, stream: BAD, deliver: all, {key}")
            await sender.publish("bad.a", b"no object", headers={"id": "1"})
            await sender.publish("bad.a", b"{}")  # without a key
            for id in ("2", "2", "3"):
                await sender.publish("bad.a", b"{}", headers={"id": id})
            found = await history(local, 5)
            assert Counter(each.status for each in found if each.execution_id) == {"started": 2, "duplicate": 1}

            async def all_given_up() -> bool:
                entries = await history(local, 5)
                return sum("given up" in each.detail for each in entries) == 2

            await until(all_given_up)
            bad = [each for each in await history(local, 13) if each.execution_id is None]
            assert len(bad) == 10
            assert any("delivery 5 of 5, given up" in each.detail for each in bad)
            assert any("the key cannot be computed" in each.detail for each in bad)

            async def nothing_waits() -> bool:
                [info] = await sender.consumers_info("BAD")
                return info.num_ack_pending == 0 and info.num_pending == 0

            await until(nothing_waits)

    asyncio.run(work())


def test_a_subject_with_a_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_ALLOW_NETWORKS", "127.0.0.0/8")

    async def work(running: NatsServer) -> None:
        url = running.url.replace("//", "//shop:secret@")
        keychain = f"keychain:\n- {{name: shop, kind: nats_credential, url: '{url}'}}\n"
        client = await nats.connect(url)
        async with open_local_server(tmp_path / "n.db") as local:
            await register(local, "name: events, kind: nats, subject: orders.*, auth: shop", keychain)

            async def received() -> bool:
                await client.publish("orders.new", b'{"id": 1}')
                return bool(await local.services.listing.executions(1))

            await until(received)
            assert (await history(local, 1))[0].status == "started"
            running.kill()
            running.start()
            await client.close()
            client = await nats.connect(url)
            before = len(await local.services.listing.executions(1_000))

            async def received_again() -> bool:
                await client.publish("orders.new", b'{"id": 2}')
                return len(await local.services.listing.executions(1_000)) > before

            await until(received_again)
            details = " ".join(each.detail for each in await history(local, 2))
            assert "it cannot receive: the connection to NATS was lost" in details
            assert "secret" not in details
        await client.close()

    with running_nats(tmp_path, USERS) as running:
        asyncio.run(work(running))
