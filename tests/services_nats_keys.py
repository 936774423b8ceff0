"""Keys and JWTs as `nsc` makes them, for NATS servers that require them."""

from __future__ import annotations

import base64
import binascii
import json
from hashlib import sha256
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SEED = 18 << 3
_KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}


class Nkey(NamedTuple):
    kind: str
    key: Ed25519PrivateKey

    @property
    def public(self) -> str:
        return _text(bytes((_KINDS[self.kind],)) + self.key.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        kind = _KINDS[self.kind]
        return _text(bytes((_SEED | kind >> 5, (kind & 31) << 3)) + self.key.private_bytes_raw())

    def jwt(self, kind: str, subject: str, nats: dict[str, Any]) -> str:
        """A JWT about the subject, issued by this key."""
        claims = {
            "iat": 1,
            "iss": self.public,
            "sub": subject,
            "name": kind,
            "nats": {**nats, "type": kind, "version": 2},
        }
        claims["jti"] = base64.b32encode(sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
        head, body = (_base64(json.dumps(each).encode()) for each in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims))
        return f"{head}.{body}.{_base64(self.key.sign(f'{head}.{body}'.encode()))}"


def new_key(kind: str) -> Nkey:
    return Nkey(kind, Ed25519PrivateKey.generate())


def _text(body: bytes) -> str:
    checksum = binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(body + checksum).decode().rstrip("=")


def _base64(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def with_nkey(user: Nkey) -> str:
    """The configuration of a server that knows the public key of one user."""
    return f"authorization {{ timeout: 60, users: [ {{ nkey: {user.public} }} ] }}"


def with_operator() -> tuple[str, str]:
    """The configuration of a server that trusts an operator, and the `.creds` file of a user."""
    operator, account, user, system = new_key("operator"), new_key("account"), new_key("user"), new_key("account")
    limits = {"subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1}
    accounts = {each.public: operator.jwt("account", each.public, {"limits": limits}) for each in (account, system)}
    preload = "\n".join(f"  {public}: {jwt}" for public, jwt in accounts.items())
    trusted = operator.jwt("operator", operator.public, {})
    config = f"authorization {{ timeout: 60 }}\noperator: {trusted}\nsystem_account: {system.public}\nresolver: MEMORY\nresolver_preload {{\n{preload}\n}}\n"
    token = account.jwt("user", user.public, {"subs": -1, "data": -1, "payload": -1})
    creds = (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"*************** IMPORTANT ***************\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )
    return config, creds
