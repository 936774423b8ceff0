"""How to get into NATS: addresses, and what to show at the door. Nothing of it is ever in words.

A user or a token may stand in the address, with what is special in it as %XX.
"""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from noetl.errors import Rejected

PORT = 4222


class Given(NamedTuple):
    """As nats-py wants it."""

    servers: list[str]  # without anything that is secret
    user: str | None
    password: str | None
    token: str | None
    credentials: str | None
    tls: ssl.SSLContext | None  # None: none was asked for

    def options(self) -> dict[str, Any]:
        """Of its `connect`."""
        return {
            "servers": self.servers,
            "user": self.user,
            "password": self.password,
            "token": self.token,
            "user_credentials": self.credentials,
            "tls": self.tls,
        }

    def __repr__(self) -> str:
        return "Given(***)"


class Access(NamedTuple):
    """What the settings say. An option goes before what stands in the address."""

    url: str  # nats://host:port or tls://host:port, several with commas
    user: str | None = None
    password: str | None = None
    token: str | None = None
    credentials: str | None = None  # the file of a user that NATS has made (.creds)
    ca: str | None = None  # the file with whom to trust; None: whom the system trusts
    certificate: str | None = None  # our own, and its key
    key: str | None = None

    def __repr__(self) -> str:
        return "Access(***)"

    def given(self) -> Given:
        """Raises Rejected, without the address."""
        parts = [_split(each) for each in self.url.split(",") if each.strip()]
        if not parts:
            raise Rejected("bad-setting", "no address of NATS is given: write nats://host:port")
        named = next((each for each in parts if each.username), None)
        user, password = self.user, self.password
        token = self.token
        if named is not None and user is None and token is None:
            told = unquote(named.username or "")
            if named.password is None:
                token = told
            else:
                user, password = told, unquote(named.password)
        secure = any(each.scheme == "tls" for each in parts) or self.ca or self.certificate
        servers = [f"{each.scheme}://{_host(each)}:{_port(each)}" for each in parts]
        return Given(servers, user, password, token, self.credentials, self._tls() if secure else None)

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            words = "the files for TLS with NATS can not be read"
            raise Rejected("bad-setting", f"{words} ({type(error).__name__})") from error
        return context


def _split(address: str) -> SplitResult:
    address = address.strip()
    try:
        parts = urlsplit(address if "://" in address else f"nats://{address}")
        _port(parts)
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise Rejected("bad-setting", "that is no address of NATS: write nats://host:port or tls://host:port")
    return parts


def _port(parts: SplitResult) -> int:
    return PORT if parts.port is None else parts.port


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host
