"""How to connect to NATS: addresses, credentials and TLS. No error and no `repr` contains any of it.

A user or a token may be part of the address, with special characters as %XX.
"""

from __future__ import annotations

import ssl
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from noetl.errors import Rejected

PORT: Final = 4222


class ConnectOptions(NamedTuple):
    """The settings as nats-py expects them."""

    servers: list[str]  # without credentials
    user: str | None
    password: str | None
    token: str | None
    credentials: str | None
    tls: ssl.SSLContext | None  # None: the settings do not ask for TLS

    def as_kwargs(self) -> dict[str, Any]:
        """Arguments of `nats.connect`."""
        return {
            "servers": self.servers,
            "user": self.user,
            "password": self.password,
            "token": self.token,
            "user_credentials": self.credentials,
            "tls": self.tls,
        }

    def __repr__(self) -> str:
        return "ConnectOptions(***)"


class NatsSettings(NamedTuple):
    """Where NATS is and how to log in. A field takes precedence over the same information in the address."""

    url: str  # nats://host:port or tls://host:port, several with commas
    user: str | None = None
    password: str | None = None
    token: str | None = None
    credentials: str | None = None  # path of a .creds file
    ca: str | None = None  # path of the trusted certificates; None: those of the system
    certificate: str | None = None  # path of the client certificate
    key: str | None = None  # path of its private key

    def __repr__(self) -> str:
        return "NatsSettings(***)"

    def resolve(self) -> ConnectOptions:
        """Raises Rejected, without the address in its text."""
        parts = [_split(each) for each in self.url.split(",") if each.strip()]
        if not parts:
            raise Rejected("bad-setting", "the address of NATS is empty: write nats://host:port")
        named = next((each for each in parts if each.username), None)
        user, password, token = self.user, self.password, self.token
        if named is not None and user is None and token is None:
            login = unquote(named.username or "")
            if named.password is None:
                token = login
            else:
                user, password = login, unquote(named.password)
        secure = any(each.scheme == "tls" for each in parts) or self.ca or self.certificate
        servers = [f"{each.scheme}://{_host(each)}:{_port(each)}" for each in parts]
        tls = self._tls() if secure else None
        return ConnectOptions(servers, user, password, token, self.credentials, tls)

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            message = "the TLS files for NATS cannot be read"
            raise Rejected("bad-setting", f"{message} ({type(error).__name__})") from error
        return context


def _split(address: str) -> SplitResult:
    address = address.strip()
    try:
        parts = urlsplit(address if "://" in address else f"nats://{address}")
        _port(parts)
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise Rejected("bad-setting", "not an address of NATS: write nats://host:port or tls://host:port")
    return parts


def _port(parts: SplitResult) -> int:
    return PORT if parts.port is None else parts.port


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host
