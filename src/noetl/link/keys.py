"""Keys on the link. They encrypt every message and prove who sent it: a server, or a worker of a pool.

A message is encrypted with AES-256-GCM under a key that is derived from the sender's key and a random session of
its process, with a counter as nonce. It is bound to its subject, and a reply is bound to its request.
"""

from __future__ import annotations

import base64
import binascii
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.errors import Rejected, Unavailable
from noetl.ports import Epoch

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
SERVER: Final = ""  # the sender is a server; every other sender is the name of a pool
SKEW_S: Final = 120.0  # between the clocks of a sender and a server; an older message counts as repeated
SESSIONS_MAX: Final = 20_000  # sessions of other processes whose keys are cached
SEEN_MAX: Final = 200_000  # requests that are remembered, so that they are not accepted twice

SEALED: Final = b"k"  # an encrypted body; others begin with a brace, a "z" or a "p"
_HEAD: Final = struct.Struct(">c16sQQ")  # the mark, the session, the number of the message, its time in ms
_NONCE_PAD: Final = bytes(4)
_ID: Final = slice(1, 25)  # session and number: they identify a message
_NUMBER: Final = slice(17, 25)


class LinkKey:
    """A secret that processes share. No error and no `repr` contains it."""

    def __init__(self, body: bytes) -> None:
        if len(body) != KEY_BYTES:
            raise Rejected("bad-setting", f"the link key must be {KEY_BYTES} bytes in base64")
        self._body = body

    @classmethod
    def parsed(cls, text: str) -> LinkKey:
        """From base64. Raises Rejected."""
        try:
            body = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            body = b""  # the error must not show the text: it may be a key with a typing error
        return cls(body)

    def __repr__(self) -> str:
        return "LinkKey(***)"

    @cached_property
    def request_key(self) -> bytes:
        """Proves that the sender of a request for a credential has this key."""
        return self.derived(b"noetl link: asking 1")

    @cached_property
    def reply_key(self) -> bytes:
        """Encrypts credentials."""
        return self.derived(b"noetl link: answering 1")

    def derived(self, purpose: bytes) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(self._body)


class LinkKeys(NamedTuple):
    """The keys of a process, from its settings."""

    server: LinkKey | None = None
    pools: Mapping[str, Sequence[LinkKey]] = {}  # by pool, the newest first; empty: pools are not isolated


def parse_pool_keys(text: str) -> dict[str, list[LinkKey]]:
    """From `default=KEY gpu=KEY`. A pool may have several keys, the newest first. Raises Rejected."""
    found: dict[str, list[LinkKey]] = {}
    for each in text.replace(",", " ").split():
        pool, equals, key = each.partition("=")
        if not equals or not pool:
            raise Rejected("bad-setting", "write pool keys as POOL=KEY, separated by spaces")
        found.setdefault(pool, []).append(LinkKey.parsed(key))
    return found


class MessageCipher:
    """Encrypts the messages of this process under one key, and decrypts messages of others with the same key."""

    def __init__(self, key: LinkKey, clock: Clock) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.key = key
        self._clock = clock
        self._new, self._refused = AESGCM, (InvalidTag, ValueError)  # imported once: this is on every message
        self._session = os.urandom(16)
        self._numbers = count(1)
        self._sessions: BoundedCache[bytes, AESGCM] = BoundedCache(SESSIONS_MAX)

    @cached_property
    def _own(self) -> AESGCM:
        return self._of(self._session)

    def _of(self, session: bytes) -> AESGCM:
        return self._new(self.key.derived(b"noetl link: message 1 " + session))

    def seal(self, body: bytes, context: bytes) -> bytes:
        at = int(self._clock.now().timestamp() * 1000)
        head = _HEAD.pack(SEALED, self._session, next(self._numbers), at)
        return head + self._own.encrypt(_NONCE_PAD + head[_NUMBER], body, head + context)

    def open(self, sealed: bytes, context: bytes) -> bytes | None:
        """None: it was sealed with another key, or for another purpose."""
        head, session = sealed[: _HEAD.size], sealed[1:17]
        known = self._sessions.peek(session)
        cipher = known or self._of(session)
        try:
            body = cipher.decrypt(_NONCE_PAD + head[_NUMBER], sealed[_HEAD.size :], head + context)
        except self._refused:
            return None
        if known is None:
            self._sessions.put(session, cipher)
        return body


def is_sealed(packed: bytes) -> bool:
    return packed[:1] == SEALED and len(packed) > _HEAD.size


# The side that sends requests


class LinkIdentity:
    """Who this process is on the link. `pool` SERVER: it has the key of servers, and all permissions."""

    def __init__(
        self,
        pool: str,
        key: LinkKey,
        clock: Clock,
        *,
        worker: str = "",
        held_frame: Callable[[], tuple[str, str, Epoch] | None] = lambda: None,
    ) -> None:
        """`held_frame`: the frame that the current asyncio task works on: servers check it."""
        self.pool, self.key, self.worker = pool, key, worker
        self.held_frame = held_frame
        self.cipher = MessageCipher(key, clock)

    def subject(self, base: str) -> str:
        return f"{base}.{self.pool}" if self.pool else base


class SealedCall:
    """One request of an identity, and its reply."""

    def __init__(self, identity: LinkIdentity, subject: str) -> None:
        self._cipher = identity.cipher
        self._subject = subject
        self._id = b""

    def seal(self, body: bytes) -> bytes:
        sealed = self._cipher.seal(body, request_context(self._subject))
        self._id = sealed[_ID]
        return sealed

    def open(self, reply: bytes) -> bytes:
        """Raises Unavailable."""
        body = self._cipher.open(reply, reply_context(self._id))
        if body is None:
            raise Unavailable("the reply was sealed with another key, or for another request")
        return body


def request_context(subject: str) -> bytes:
    return b"request " + subject.encode()


def reply_context(request: bytes) -> bytes:
    return b"reply " + request


# The side that answers


class OpenedRequest(NamedTuple):
    """The body of a request, and who sent it."""

    sender: str | None  # SERVER, a pool, or None: unknown, because the server has no keys of pools
    body: bytes
    id: bytes = b""
    cipher: MessageCipher | None = None

    @property
    def key(self) -> LinkKey | None:
        return None if self.cipher is None else self.cipher.key

    def seal(self, body: bytes) -> bytes:
        """The reply to this request."""
        return body if self.cipher is None else self.cipher.seal(body, reply_context(self.id))


class LinkGuard:
    """Opens requests with the keys of a server. Without keys of pools, it accepts plain requests of anyone."""

    def __init__(self, keys: LinkKeys, clock: Clock) -> None:
        """Raises Rejected if there are keys of pools and no key of servers."""
        if keys.pools and keys.server is None:
            raise Rejected("bad-setting", "NOETL_POOL_KEYS needs NOETL_LINK_KEY, which only servers may have")
        self._clock = clock
        self._ciphers = {pool: [MessageCipher(key, clock) for key in each] for pool, each in keys.pools.items()}
        if keys.pools and keys.server is not None:
            self._ciphers[SERVER] = [MessageCipher(keys.server, clock)]
        self._seen: BoundedCache[bytes, bool] = BoundedCache(SEEN_MAX)

    @property
    def isolates(self) -> bool:
        return bool(self._ciphers)

    def open(self, packed: bytes, subject: str, pool: str) -> OpenedRequest:
        """`pool`: of the subject. Raises Unavailable: settings may be about to change, so senders try again."""
        if not self._ciphers:
            if pool != SERVER or is_sealed(packed):
                raise Unavailable("the server has no pool keys: set NOETL_POOL_KEYS on all servers")
            return OpenedRequest(None, packed)
        if not is_sealed(packed):
            raise Unavailable("the server accepts only sealed messages: set NOETL_POOL_KEY on the worker")
        if pool not in self._ciphers:
            raise Unavailable(f'the server has no key of the pool "{pool[:80]}": add it to NOETL_POOL_KEYS')
        for cipher in self._ciphers[pool]:
            body = cipher.open(packed, request_context(subject))
            if body is not None:
                self._check_time(packed)
                return OpenedRequest(pool, body, packed[_ID], cipher)
        who = f'the worker of the pool "{pool[:80]}" has' if pool else "the sender has"
        raise Unavailable(f"{who} a different key from the server: compare NOETL_POOL_KEY with NOETL_POOL_KEYS")

    def _check_time(self, packed: bytes) -> None:
        sent_ms: int = _HEAD.unpack_from(packed)[3]
        late_s = self._clock.now().timestamp() - sent_ms / 1000
        if abs(late_s) > SKEW_S:
            raise Unavailable(f"the message is {late_s:,.0f} s old: synchronise the clocks of servers and workers")

    def check_first(self, request: OpenedRequest) -> None:
        """For requests that must not be repeated by others. Raises Rejected if it was received before."""
        if request.cipher is not None:
            if request.id in self._seen:
                raise Rejected("repeated", "this message was received before")
            self._seen.put(request.id, True)
