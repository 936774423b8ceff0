"""A real OpenID Connect provider for tests: Canaille on a loopback port, in memory, as a process of its own.

It requires PKCE and a nonce, and has login pages. `python -m tests.identity_provider PORT` runs it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.request import Request, urlopen

from tests.distributed.processes import Process, Program
from tests.ports import free_port

PASSWORD: Final = "correct horse battery staple"
USERS: Final[dict[str, tuple[str, ...]]] = {  # user → groups
    "ann": ("orders-team",),
    "root": ("noetl-admins", "orders-team"),
    "stranger": (),
}
ROOT: Final = Path(__file__).parents[1]
ROLES: Final = {  # as in NOETL_OIDC_ROLES
    "orders-team": [{"role": "operator", "paths": ["orders/*"], "pools": ["default"]}],
    "noetl-admins": [{"role": "admin"}],
}


class RegisteredClient(NamedTuple):
    id: str
    secret: str


class IdentityProvider:
    """The running provider."""

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"

    def register(self, public_url: str, **metadata: Any) -> RegisteredClient:
        """Register a server as a client, as RFC 7591 describes it. No page asks the user for consent."""
        body = {
            "client_name": "NoETL",
            "client_uri": public_url,
            "redirect_uris": [f"{public_url}/session/oidc/callback"],
            "scope": "openid profile email groups",
            "token_endpoint_auth_method": "client_secret_basic",
            "grant_types": ["authorization_code"],
            "response_types": ["code"],
            **metadata,
        }
        headers = {"Content-Type": "application/json"}
        request = Request(f"{self.issuer}/oauth/register", json.dumps(body).encode(), headers)
        with urlopen(request, timeout=60) as answer:
            made = json.load(answer)
        return RegisteredClient(made["client_id"], made.get("client_secret", ""))


@contextmanager
def identity_provider(folder: Path) -> Iterator[IdentityProvider]:
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NOETL_")},
        "AUTHLIB_INSECURE_TRANSPORT": "1",  # http on loopback
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.identity_provider", str(port)]
    process = Process(Program("identity provider", command, environment, folder, ready="ready"))
    process.start()
    try:
        yield IdentityProvider(port)
    finally:
        process.close()


def main(port: int) -> None:
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    from canaille import create_app
    from canaille.app import models
    from canaille.backends import Backend
    from joserfc.jwk import RSAKey

    class ThreadingServer(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class QuietHandler(WSGIRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...

    key = RSAKey.generate_key(2048)
    key.ensure_kid()
    settings = {
        "ENV_FILE": None,
        "SECRET_KEY": os.urandom(32).hex(),
        "WTF_CSRF_ENABLED": False,
        "PREFERRED_URL_SCHEME": "http",
        "SERVER_NAME": f"127.0.0.1:{port}",
        "SESSION_COOKIE_NAME": "provider",
        "CANAILLE": {
            "DATABASE": "memory",
            "JAVASCRIPT": False,
            "ACL": {"DEFAULT": {"PERMISSIONS": ["use_oidc"]}},
        },
        "CANAILLE_OIDC": {"DYNAMIC_CLIENT_REGISTRATION_OPEN": True, "ACTIVE_JWKS": [key.as_dict(private=True)]},
    }
    app = create_app(config=settings, env_file=None)
    with app.app_context():
        backend = Backend.instance
        members: dict[str, list[Any]] = {}
        for name, groups in USERS.items():
            user = models.User(
                formatted_name=name.title(), family_name=name, user_name=name, display_name=name,
                emails=[f"{name}@example.com"], password=PASSWORD,
            )  # fmt: skip
            backend.save(user)
            for group in groups:
                members.setdefault(group, []).append(user)
        for group, users in members.items():
            backend.save(models.Group(display_name=group, members=users))
    server = make_server("127.0.0.1", port, app, server_class=ThreadingServer, handler_class=QuietHandler)
    print("ready", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
