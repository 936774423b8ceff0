"""Credential values over the link: only for the holder of a frame, encrypted, and bound to one request."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import msgspec
import pytest

from noetl.adapters.memory import MemoryStore
from noetl.clock import SystemClock
from noetl.engine.commands import Start
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.link.client import LinkRequests
from noetl.link.keys import LinkKey
from noetl.link.messages import DECODERS, PARTITIONS, CredentialRequest
from noetl.link.secret_channel import LinkSecrets, decrypt, proof_of
from noetl.playbook.model import Credential
from noetl.ports import Epoch, FetchedCredential, Transport
from noetl.secret import Secret
from tests.contracts.link_servers import KEY, LinkedServer, OneSecret, Playbooks, link_of, served
from tests.unit.link.test_link import connector

T = TypeVar("T", bound=Transport)
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


class HoldingWorker(Generic[T]):
    """A worker that holds a frame."""

    def __init__(self, server: LinkedServer[T], connection: T, epoch: Epoch) -> None:
        self.server, self.connection, self.epoch = server, connection, epoch

    def secrets(
        self, key: LinkKey | None = KEY, *, frame: str = "start#1", epoch: Epoch | None = None, id: str = "e"
    ) -> LinkSecrets:
        held = (id, frame, epoch or self.epoch)
        return LinkSecrets(self.connection, key, "w", lambda: held, SystemClock())


@asynccontextmanager
async def holding_worker(
    connect: Callable[[], T], safe: OneSecret, key: LinkKey | None = KEY
) -> AsyncIterator[HoldingWorker[T]]:
    async with served(connect, {"entries": ENTRIES}, key=key, provider=safe) as (
        server,
        connection,
        playbooks,
    ):
        link = link_of(connection)
        await link.start("e", playbooks.digests["entries"], Start())
        grant = await link.begin("e", "start#1", "w")
        assert grant is not None
        assert [each.name for each in grant.work.place.keychain] == ["api", "missing"]
        yield HoldingWorker(server, connection, grant.epoch)


async def words_of(secrets: LinkSecrets, credential: Credential = API) -> str:
    with pytest.raises((Unavailable, NotFound)) as told:
        await secrets.fetch(credential)
    return str(told.value)


def test_without_the_same_link_key_nothing_is_told_and_the_words_say_what_to_do() -> None:
    async def work() -> None:
        safe = OneSecret()
        async with holding_worker(connector(), safe) as at:
            assert "a different link key" in await words_of(at.secrets(OTHER))
            assert "no link key" in await words_of(at.secrets(None))
        async with holding_worker(connector(), safe, key=None) as at:
            assert "server has no link key" in await words_of(at.secrets())
        assert safe.requests == []

    asyncio.run(work())


def test_only_who_holds_the_frame_is_told_and_only_what_the_playbook_declares() -> None:
    async def work() -> None:
        safe = OneSecret()
        async with holding_worker(connector(), safe) as at:
            owner, number = at.epoch
            assert "no longer holds" in await words_of(at.secrets(frame="start#2"))
            assert "no longer holds" in await words_of(at.secrets(epoch=(owner, number - 1)))
            assert "no longer holds" in await words_of(at.secrets(epoch=(owner, number + 1)))
            assert "no execution" in await words_of(at.secrets(id="another"))
            strange = Credential(name="root", kind="bearer", at=())
            assert "does not declare" in await words_of(at.secrets(), strange)
            nobody = LinkSecrets(at.connection, KEY, "w", lambda: None, SystemClock())
            assert "only a running frame" in await words_of(nobody)
            assert safe.requests == []
            await at.secrets().fetch(API)

    asyncio.run(work())


def test_a_new_owner_tells_whoever_held_the_frame_before() -> None:
    async def work() -> None:
        store, playbooks = MemoryStore(SystemClock(), PARTITIONS), Playbooks({"entries": ENTRIES})
        connect = connector()
        first, second = (LinkedServer(connect(), store, playbooks, name=name) for name in ("s1", "s2"))
        connection = connect()
        try:
            async with asyncio.timeout(120):
                await first.keep()
                await first.link.start("e", playbooks.digests["entries"], Start())
                grant = await first.link.begin("e", "start#1", "w")
                assert grant is not None
                await first.server.follow(())
                await first.owners.leave()
                held = ("e", "start#1", grant.epoch)
                secrets = LinkSecrets(connection, KEY, "w", lambda: held, SystemClock())
                asking = asyncio.ensure_future(secrets.fetch(API))  # at first there is no owner
                await second.keep()
                assert (await asking).values == {"": Secret("a-secret-value")}
        finally:
            for each in (first, second):
                await each.close()
            await connection.close()

    asyncio.run(work())


def test_an_answer_opens_only_for_its_own_question() -> None:
    async def work() -> None:
        async with holding_worker(connector(), OneSecret()) as at:
            asks = []
            for nonce in (b"1" * 16, b"2" * 16):
                ask = CredentialRequest("e", "start#1", at.epoch, "w", "api", nonce, b"")
                asks.append(msgspec.structs.replace(ask, proof=proof_of(KEY, ask)))
            sealed = await LinkRequests(at.connection).owner("e", asks[0], DECODERS.secret)
            assert b"a-secret-value" in decrypt(KEY, asks[0], sealed)
            for key, ask in ((KEY, asks[1]), (OTHER, asks[0])):
                with pytest.raises(Unavailable, match="cannot be decrypted"):
                    decrypt(key, ask, sealed)
            forged = msgspec.structs.replace(asks[0], entry="missing")  # with the proof of another question
            with pytest.raises(Rejected, match="wrong-link-key"):
                await LinkRequests(at.connection).owner("e", forged, DECODERS.secret)

    asyncio.run(work())


class Leaky(OneSecret):
    """A provider that says too much."""

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        if fresh:
            raise Unavailable(f'keychain entry "{credential.name}": the vault is unreachable')
        raise RuntimeError("the password is a-secret-value")


def test_what_a_provider_says_in_its_anger_is_not_repeated() -> None:
    async def work() -> None:
        loud: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: loud.append(context))
        async with holding_worker(connector(), Leaky()) as at:
            words = await words_of(at.secrets())
            assert words == 'keychain entry "api": it cannot be read: RuntimeError'
            with pytest.raises(Unavailable) as told:
                await at.secrets().fetch(API, fresh=True)
            assert str(told.value) == 'keychain entry "api": the vault is unreachable'
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
