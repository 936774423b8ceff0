"""Credentials over a real NATS: told to whoever holds a frame, sealed, and read by nobody else."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from nats.aio.msg import Msg

from noetl.adapters.memory.store import MemoryStore
from noetl.adapters.nats.connection import NatsConnection
from noetl.clock import SystemClock
from noetl.engine.commands import Start
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.link.client import LinkRequests
from noetl.link.messages import DECODERS, PARTITIONS, SecretRequest
from noetl.link.secret_channel import LinkKey, LinkSecrets
from noetl.playbook.model import Credential
from noetl.ports import Epoch, FetchedCredential
from noetl.secret import Secret
from noetl.testing.contracts.stores import SecretPlace, SecretProviderContract
from tests.contracts.nats_houses import KEY, Safe, Server, Shelf, link_of, served
from tests.services_nats import NatsServer, running_nats

OTHER = LinkKey(bytes(32))
ENTRIES = """\
keychain:
- {name: api, kind: bearer, token: {env: X}}
- {name: missing, kind: bearer, token: {env: Y}}
workflow:
- step: start
  tool: {kind: http, url: "http://x", auth: api}
"""
API = Credential(name="api", kind="bearer", fields={"token": {"env": "X"}}, at=())
MISSING = Credential(name="missing", kind="bearer", fields={"token": {"env": "Y"}}, at=())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("nats")) as running:
        yield running


class Desk:
    """A worker that holds a frame."""

    def __init__(self, house: Server, connection: NatsConnection, epoch: Epoch) -> None:
        self.house, self.connection, self.epoch = house, connection, epoch

    def secrets(
        self, key: LinkKey | None = KEY, *, frame: str = "start#1", epoch: Epoch | None = None, id: str = "e"
    ) -> LinkSecrets:
        held = (id, frame, epoch or self.epoch)
        return LinkSecrets(self.connection, key, "w", lambda: held, SystemClock())


@asynccontextmanager
async def desk(url: str, safe: Safe, key: LinkKey | None = KEY) -> AsyncIterator[Desk]:
    async with served(url, {"entries": ENTRIES}, key=key, provider=safe) as (house, connection, shelf):
        link = link_of(connection)
        await link.start("e", shelf.digests["entries"], Start())
        grant = await link.begin("e", "start#1", "w")
        assert grant is not None
        assert [each.name for each in grant.work.place.keychain] == ["api", "missing"]
        yield Desk(house, connection, grant.epoch)


async def words_of(secrets: LinkSecrets, credential: Credential = API) -> str:
    with pytest.raises((Unavailable, NotFound)) as told:
        await secrets.fetch(credential)
    return str(told.value)


class TestNatsSecrets(SecretProviderContract):
    @pytest.fixture(autouse=True)
    def address(self, server: NatsServer) -> None:
        self.url = server.url

    @asynccontextmanager
    async def place(self) -> AsyncIterator[SecretPlace]:
        safe = Safe()

        async def change() -> None:
            safe.value = "another-secret-value"

        async with desk(self.url, safe) as at:
            yield SecretPlace(at.secrets(), API, MISSING, change)


def test_a_value_comes_whole_and_nobody_who_listens_reads_it(server: NatsServer) -> None:
    value = "pässword-" + os.urandom(20).hex()

    async def work() -> None:
        spy = NatsConnection(server.url)
        seen: list[bytes] = []

        def hear(message: Msg) -> None:
            seen.append(message.data + str(message.headers).encode())

        await spy.subscribe(">", hear)
        await spy.flush()
        safe = Safe(value)
        try:
            async with desk(server.url, safe) as at:
                fetched = await at.secrets().fetch(API, fresh=True)
                assert fetched == FetchedCredential({"": Secret(value)}, fetched.version, 60.0)
                assert safe.asked == [("api", True)]
                await spy.flush()
        finally:
            await spy.close()
        heard = b"\n".join(seen)
        assert b"secretof" in heard  # it did listen
        raw = value.encode()
        spelled = [raw, raw.hex().encode(), *(base64.b64encode(b"x" * pad + raw)[4:-4] for pad in range(3))]
        assert [each for each in spelled if each in heard] == []

    asyncio.run(work())


def test_without_the_same_link_key_nothing_is_told_and_the_words_say_what_to_do(server: NatsServer) -> None:
    async def work() -> None:
        safe = Safe()
        async with desk(server.url, safe) as at:
            assert "another link key" in await words_of(at.secrets(OTHER))
            assert "no link key" in await words_of(at.secrets(None))
        async with desk(server.url, safe, key=None) as at:
            assert "server has no link key" in await words_of(at.secrets())
        assert safe.asked == []

    asyncio.run(work())


def test_only_who_holds_the_frame_is_told_and_only_what_the_playbook_declares(server: NatsServer) -> None:
    async def work() -> None:
        safe = Safe()
        async with desk(server.url, safe) as at:
            owner, number = at.epoch
            assert "no longer holds" in await words_of(at.secrets(frame="start#2"))
            assert "no longer holds" in await words_of(at.secrets(epoch=(owner, number - 1)))
            assert "no longer holds" in await words_of(at.secrets(epoch=(owner, number + 1)))
            assert "no execution" in await words_of(at.secrets(id="another"))
            strange = Credential(name="root", kind="bearer", at=())
            assert "does not declare" in await words_of(at.secrets(), strange)
            nobody = LinkSecrets(at.connection, KEY, "w", lambda: None, SystemClock())
            assert "only a running frame" in await words_of(nobody)
            assert safe.asked == []
            await at.secrets().fetch(API)

    asyncio.run(work())


def test_a_new_owner_tells_whoever_held_the_frame_before(server: NatsServer) -> None:
    async def work() -> None:
        store, shelf = MemoryStore(SystemClock(), PARTITIONS), Shelf({"entries": ENTRIES})
        first, second = (Server(server.url, store, shelf, name=name) for name in ("s1", "s2"))
        connection = NatsConnection(server.url)
        try:
            async with asyncio.timeout(120):
                await first.keep()
                await first.link.start("e", shelf.digests["entries"], Start())
                grant = await first.link.begin("e", "start#1", "w")
                assert grant is not None
                await first.answering.follow(())
                await first.owners.leave()
                held = ("e", "start#1", grant.epoch)
                secrets = LinkSecrets(connection, KEY, "w", lambda: held, SystemClock())
                asking = asyncio.ensure_future(secrets.fetch(API))  # at first nobody is there
                await second.keep()
                assert (await asking).values == {"": Secret("a-secret-value")}
        finally:
            for each in (first, second):
                await each.close()
            await connection.close()

    asyncio.run(work())


def test_an_answer_opens_only_for_its_own_question(server: NatsServer) -> None:
    async def work() -> None:
        async with desk(server.url, Safe()) as at:
            asks = []
            for nonce in (b"1" * 16, b"2" * 16):
                ask = SecretRequest("e", "start#1", at.epoch, "w", "api", nonce, b"")
                asks.append(msgspec.structs.replace(ask, proof=KEY.proof(ask)))
            sealed = await LinkRequests(at.connection).owner("e", asks[0], DECODERS.secret)
            assert b"a-secret-value" in KEY.decrypt(asks[0], sealed)
            for key, ask in ((KEY, asks[1]), (OTHER, asks[0])):
                with pytest.raises(Unavailable, match="cannot be decrypted"):
                    key.decrypt(ask, sealed)
            forged = msgspec.structs.replace(asks[0], entry="missing")  # with the proof of another question
            with pytest.raises(Rejected, match="wrong-link-key"):
                await LinkRequests(at.connection).owner("e", forged, DECODERS.secret)

    asyncio.run(work())


class Leaky(Safe):
    """A provider that says too much."""

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        if fresh:
            raise Unavailable(f'keychain entry "{credential.name}": the vault is away')
        raise RuntimeError("the password is a-secret-value")


def test_what_a_provider_says_in_its_anger_is_not_repeated(server: NatsServer) -> None:
    async def work() -> None:
        loud: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: loud.append(context))
        async with desk(server.url, Leaky()) as at:
            words = await words_of(at.secrets())
            assert words == 'keychain entry "api": it cannot be read: RuntimeError'
            with pytest.raises(Unavailable) as told:
                await at.secrets().fetch(API, fresh=True)
            assert str(told.value) == 'keychain entry "api": the vault is away'
        assert loud == []

    asyncio.run(work())


def test_a_link_key_is_32_bytes_in_base64_and_never_in_words() -> None:
    body = os.urandom(32)
    for text in (base64.b64encode(body).decode(), base64.urlsafe_b64encode(body).decode() + "\n"):
        assert repr(LinkKey.parsed(text)) == "LinkKey(***)"
    for text in ("", "hidden-value", base64.b64encode(body[:31]).decode(), "ü" * 44):
        with pytest.raises(NoetlError) as told:
            LinkKey.parsed(text)
        assert "hidden" not in str(told.value)
        assert told.value.__cause__ is None
