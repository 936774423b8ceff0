"""Values of credentials on the link: sealed with AES-256-GCM under a key that servers and workers share.

Whoever listens reads nothing, and whoever has no link key is told nothing. An answer is bound to its
request: one that was kept and sent again opens nowhere.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from noetl.adapters.nats.connection import Connection
from noetl.clock import Clock
from noetl.engine.state import State
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.link.client import Asking
from noetl.link.messages import READING, Sealed, SecretOf
from noetl.net.program import Program
from noetl.playbook.model import Credential
from noetl.ports import Epoch, FetchedCredential, Link, SecretProvider
from noetl.secret import Secret

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
QUESTION_BYTES: Final = 16
TRIES: Final = 12  # while an execution has no owner, as when its server has died
TRY_S: Final = 0.5  # and more with every try
_HOME: Final = "set the same link key on servers and workers"


class LinkKey:
    """What servers and workers share. It is never in words."""

    def __init__(self, body: bytes) -> None:
        if len(body) != KEY_BYTES:
            raise Rejected("bad-setting", f"the link key is {KEY_BYTES} bytes in base64")
        self._body = body

    @classmethod
    def parsed(cls, text: str) -> LinkKey:
        """From base64. Raises Rejected."""
        try:
            body = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            body = b""  # what stands there may be a key with a slip of the pen: it is not shown
        return cls(body)

    def __repr__(self) -> str:
        return "LinkKey(***)"

    @cached_property
    def _asking(self) -> bytes:
        return self._derived(b"noetl link: asking 1")

    @cached_property
    def _answering(self) -> bytes:
        return self._derived(b"noetl link: answering 1")

    def _derived(self, purpose: bytes) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(self._body)

    def proof(self, ask: SecretOf) -> bytes:
        return hmac.digest(self._asking, _bound(ask), "sha256")

    def seal(self, ask: SecretOf, body: bytes) -> Sealed:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(NONCE_BYTES)
        return Sealed(nonce, AESGCM(self._answering).encrypt(nonce, body, _bound(ask)))

    def opened(self, ask: SecretOf, sealed: Sealed) -> bytes:
        """Raises Unavailable when it was sealed under another key, or for another question."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(self._answering).decrypt(sealed.nonce, sealed.body, _bound(ask))
        except (InvalidTag, ValueError):
            words = f"the answer does not open with our link key: {_HOME}"
            raise Unavailable(f'keychain entry "{ask.entry}": {words}') from None


def _bound(ask: SecretOf) -> bytes:
    """What question and answer have to do with each other, in one order for ever."""
    parts = [ask.execution_id, ask.frame, *ask.epoch, ask.worker, ask.entry, ask.nonce, ask.fresh]
    return msgspec.json.encode(parts)


class _Told(Struct, frozen=True):
    """What is inside a seal."""

    values: dict[str, str]
    version: str
    expires_s: float | None


_told = msgspec.json.Decoder(_Told).decode


# The server's side


class Lease(Protocol):
    @property
    def epoch(self) -> Epoch: ...


class Held(Protocol):
    """An execution in its owner's hands."""

    @property
    def state(self) -> State: ...

    @property
    def program(self) -> Program: ...

    @property
    def in_flight(self) -> Mapping[str, Lease]:
        """The frames that are out, each with its last grant."""
        ...


class Owner(Link, Protocol):
    """A server's control."""

    async def load(self, execution_id: str) -> Held:
        """Raises Unavailable when it is not ours."""
        ...


class Keeper:
    """Tells values to workers that hold a frame of a playbook which declares them."""

    def __init__(self, key: LinkKey | None, provider: SecretProvider) -> None:
        self._key = key
        self._provider = provider

    async def tell(self, ask: SecretOf, owner: Owner) -> Sealed:
        """Raises Rejected in all cases but one: what it says must not be tried again and again."""
        if self._key is None:
            raise Rejected("no-link-key", f"the server has no link key, and nothing goes unsealed: {_HOME}")
        if len(ask.nonce) != QUESTION_BYTES or not hmac.compare_digest(self._key.proof(ask), ask.proof):
            raise Rejected("wrong-link-key", f"the worker has another link key than the server: {_HOME}")
        held = await owner.load(ask.execution_id)
        if ask.frame not in held.in_flight:
            # As a new owner we hear of grants by the beats of their holders: this is one.
            await owner.beat(ask.worker, [(ask.execution_id, ask.frame, ask.epoch)])
        out = held.in_flight.get(ask.frame)
        if out is None or out.epoch != ask.epoch:
            raise Rejected("not-granted", f"{ask.frame} is not this worker's any more")
        entries = held.program.playbook.keychain
        credential = next((each for each in entries if each.name == ask.entry), None)
        if credential is None:
            raise Rejected("undeclared", "the playbook does not declare it")
        return self._key.seal(ask, await self._body(credential, fresh=ask.fresh))

    async def _body(self, credential: Credential, *, fresh: bool) -> bytes:
        try:
            fetched = await self._provider.fetch(credential, fresh=fresh)
        except NotFound:
            raise
        except Unavailable as error:
            raise Rejected("provider", str(error)) from error
        except Exception as error:  # noqa: BLE001  # a border: what it says may hold what nobody should see
            raise Rejected("provider", f"it can not be read: {type(error).__name__}") from None
        values = {field: secret.reveal() for field, secret in fetched.values.items()}
        return msgspec.json.encode(_Told(values, fetched.version, fetched.expires_s))


# The worker's side


class Holder(NamedTuple):
    """The frame on whose behalf a worker asks."""

    execution_id: str
    frame: str
    epoch: Epoch


class NatsSecrets:
    """Keeps the contract of SecretProvider for a worker.

    `holder` says for which frame the present task asks; None: for none, and then nobody tells us anything.
    """

    def __init__(
        self,
        connection: Connection,
        key: LinkKey | None,
        worker: str,
        holder: Callable[[], tuple[str, str, Epoch] | None],
        clock: Clock,
    ) -> None:
        self._asking = Asking(connection)
        self._key = key
        self._worker = worker
        self._holder = holder
        self._clock = clock

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        name, held = credential.name, self._holder()
        if self._key is None:
            words = f"the worker has no link key, and nothing goes unsealed: {_HOME}"
            raise Unavailable(f'keychain entry "{name}": {words}')
        if held is None:
            raise Unavailable(f'keychain entry "{name}": only a frame at work may ask for it')
        try:
            told = await self._told(self._key, Holder(*held), name, fresh)
        except Rejected as error:
            words = str(error).removeprefix(f"{error.code}: ")
            own = "" if f'keychain entry "{name}"' in words else f'keychain entry "{name}": '
            raise Unavailable(f"{own}{words}") from None
        values = {field: Secret(value) for field, value in told.values.items()}
        return FetchedCredential(values, told.version, told.expires_s)

    async def _told(self, key: LinkKey, held: Holder, name: str, fresh: bool) -> _Told:
        """Again when nobody answers: a server that dies must not fail what a worker does."""
        tries = 0
        while True:
            ask = SecretOf(*held, self._worker, name, os.urandom(QUESTION_BYTES), b"", fresh)
            ask = msgspec.structs.replace(ask, proof=key.proof(ask))
            try:
                sealed = await self._asking.owner(held.execution_id, ask, READING.sealed)
                break
            except Unavailable as error:
                tries += 1
                if tries >= TRIES:
                    raise Unavailable(f'keychain entry "{name}": {error}') from error
            await self._clock.sleep(TRY_S * min(tries, 6))
        try:
            return _told(key.opened(ask, sealed))
        except msgspec.DecodeError:
            raise Unavailable(f'keychain entry "{name}": the answer can not be read') from None
