"""Credential values on the link, encrypted with AES-256-GCM under a key that servers and workers share.

A process without the link key can neither read nor request a value. A reply is bound to its request, so a
recorded reply cannot be replayed.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from noetl.clock import Clock
from noetl.engine.state import State
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.link.client import LinkRequests
from noetl.link.keys import LinkIdentity, LinkKey
from noetl.link.messages import DECODERS, CredentialRequest, EncryptedReply, HeldFrame
from noetl.net.program import Program
from noetl.playbook.model import Credential
from noetl.ports import Epoch, FetchedCredential, Link, ResultStore, SecretProvider, Transport
from noetl.secret import Secret

NONCE_BYTES: Final = 12  # of AES-GCM
REQUEST_NONCE_BYTES: Final = 16
TRIES: Final = 12  # while an execution has no owner, for example after its server has died
RETRY_S: Final = 0.5  # multiplied by the number of tries
_ADVICE: Final = "set the same link key on servers and workers"


def proof_of(key: LinkKey, request: CredentialRequest) -> bytes:
    return hmac.digest(key.request_key, _bound(request), "sha256")


def encrypt(key: LinkKey, request: CredentialRequest, body: bytes) -> EncryptedReply:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE_BYTES)
    return EncryptedReply(nonce, AESGCM(key.reply_key).encrypt(nonce, body, _bound(request)))


def decrypt(key: LinkKey, request: CredentialRequest, reply: EncryptedReply) -> bytes:
    """Raises Unavailable if the reply was encrypted under another key, or for another request."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key.reply_key).decrypt(reply.nonce, reply.body, _bound(request))
    except (InvalidTag, ValueError):
        message = f"the reply cannot be decrypted with this link key: {_ADVICE}"
        raise Unavailable(f'keychain entry "{request.entry}": {message}') from None


def _bound(request: CredentialRequest) -> bytes:
    """The data that binds a reply to its request. The order of the parts is part of the wire format."""
    parts = [
        request.execution_id,
        request.frame,
        *request.epoch,
        request.worker,
        request.entry,
        request.nonce,
        request.fresh,
    ]
    return msgspec.json.encode(parts)


class _Values(Struct, frozen=True):
    """The decrypted body of a reply."""

    values: dict[str, str]
    version: str
    expires_s: float | None


_values = msgspec.json.Decoder(_Values).decode


# The server side


class FrameLease(Protocol):
    @property
    def epoch(self) -> Epoch: ...

    @property
    def worker(self) -> str: ...


class OwnedExecution(Protocol):
    """An execution that this server owns."""

    state: State
    program: Program

    @property
    def in_flight(self) -> Mapping[str, FrameLease]:
        """The granted frames, each with its last grant."""
        ...


class Owner(Link, Protocol):
    """The control of a server."""

    @property
    def results(self) -> ResultStore: ...

    async def load(self, execution_id: str) -> OwnedExecution:
        """Raises Unavailable if this server does not own the execution."""
        ...


async def load_held(owner: Owner, held: HeldFrame) -> OwnedExecution:
    """The execution of a frame that the worker holds. Raises Rejected if it does not hold the frame."""
    execution = await owner.load(held.execution_id)
    if held.frame not in execution.in_flight:
        # A new owner learns of existing grants from heartbeats. This request is as good as one.
        await owner.beat(held.worker, [(held.execution_id, held.frame, held.epoch)])
    lease = execution.in_flight.get(held.frame)
    # Without a worker, the frame is only dispatched: no worker holds it.
    if lease is None or not lease.worker or lease.epoch != held.epoch:
        raise Rejected("not-granted", f"the worker no longer holds {held.frame}")
    return execution


class SecretServer:
    """Sends credential values to workers that hold a frame of a playbook which declares them."""

    def __init__(self, key: LinkKey | None, provider: SecretProvider) -> None:
        self._key = key
        self._provider = provider

    async def answer(self, request: CredentialRequest, owner: Owner, key: LinkKey | None = None) -> EncryptedReply:
        """`key`: of the pool whose worker sends the request; None: pools are not isolated.

        Raises Rejected for nearly all errors, so that the worker does not repeat the request.
        Only NotFound, and Unavailable if this server no longer owns the execution, stay as they are.
        """
        key = key or self._key
        if key is None:
            raise Rejected("no-link-key", f"the server has no link key, so it sends no values: {_ADVICE}")
        if len(request.nonce) != REQUEST_NONCE_BYTES or not hmac.compare_digest(proof_of(key, request), request.proof):
            raise Rejected("wrong-link-key", f"the worker has a different link key from the server: {_ADVICE}")
        held = HeldFrame(request.execution_id, request.frame, request.epoch, request.worker)
        execution = await load_held(owner, held)
        entries = execution.program.keychain_of(request.execution_id)
        credential = next((each for each in entries if each.name == request.entry), None)
        if credential is None:
            raise Rejected("undeclared", "the playbook does not declare it")
        return encrypt(key, request, await self._body(credential, fresh=request.fresh))

    async def _body(self, credential: Credential, *, fresh: bool) -> bytes:
        try:
            fetched = await self._provider.fetch(credential, fresh=fresh)
        except NotFound:
            raise
        except Unavailable as error:
            raise Rejected("provider", str(error)) from error
        except Exception as error:  # noqa: BLE001  # its text may contain a value, so only its type is sent
            raise Rejected("provider", f"it cannot be read: {type(error).__name__}") from None
        values = {field: secret.reveal() for field, secret in fetched.values.items()}
        return msgspec.json.encode(_Values(values, fetched.version, fetched.expires_s))


# The worker side


class LinkSecrets:
    """The `SecretProvider` of a worker: it requests values from the owner of the execution.

    `held_frame` returns the frame that the current asyncio task works on: execution, frame and epoch. Without one,
    `fetch` fails.
    """

    def __init__(
        self,
        transport: Transport,
        key: LinkKey | None,
        worker: str,
        held_frame: Callable[[], tuple[str, str, Epoch] | None],
        clock: Clock,
        *,
        identity: LinkIdentity | None = None,
    ) -> None:
        self._requests = LinkRequests(transport, identity=identity)
        self._key = key
        self._worker = worker
        self._held_frame = held_frame
        self._clock = clock

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        name, held = credential.name, self._held_frame()
        if self._key is None:
            message = f"the worker has no link key, so it receives no values: {_ADVICE}"
            raise Unavailable(f'keychain entry "{name}": {message}')
        if held is None:
            raise Unavailable(f'keychain entry "{name}": only a running frame can request it')
        try:
            reply = await self._request(self._key, held, name, fresh)
        except Rejected as error:
            message = str(error).removeprefix(f"{error.code}: ")
            prefix = "" if f'keychain entry "{name}"' in message else f'keychain entry "{name}": '
            raise Unavailable(f"{prefix}{message}") from None
        values = {field: Secret(value) for field, value in reply.values.items()}
        return FetchedCredential(values, reply.version, reply.expires_s)

    async def _request(self, key: LinkKey, held: tuple[str, str, Epoch], name: str, fresh: bool) -> _Values:
        """Retries while no owner answers: a server that dies must not fail the work of a worker."""
        tries = 0
        while True:
            nonce = os.urandom(REQUEST_NONCE_BYTES)
            request = CredentialRequest(*held, self._worker, name, nonce, b"", fresh)
            request = msgspec.structs.replace(request, proof=proof_of(key, request))
            try:
                reply = await self._requests.owner(held[0], request, DECODERS.secret)
                break
            except Unavailable as error:
                tries += 1
                if tries >= TRIES:
                    raise Unavailable(f'keychain entry "{name}": {error}') from error
            await self._clock.sleep(RETRY_S * min(tries, 6))
        try:
            return _values(decrypt(key, request, reply))
        except msgspec.DecodeError:
            raise Unavailable(f'keychain entry "{name}": the reply cannot be read') from None
