"""Every kind of keychain entry keeps the contract, against the real thing or a stand-in on loopback (D57, D84)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from noetl.adapters.secrets.providers import CredentialProviders
from noetl.adapters.secrets.stored import StoredSecrets
from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.secrets import stored_secrets
from noetl.clock import SystemClock
from noetl.playbook.model import Credential
from noetl.testing.contracts.secrets import SecretProviderContract, SecretSetup
from tests.services_secrets import GoogleService, TokenService, VaultService, listening


def entry(kind: str, name: str = "there", **fields: Any) -> Credential:
    return Credential(name=name, kind=kind, fields=fields, at=())


class OnOneFile(SecretProviderContract):
    """Providers with an environment of their own."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.folder_path = tmp_path
        self.environment: dict[str, str] = {}

    @asynccontextmanager
    async def providers(self) -> AsyncIterator[tuple[CredentialProviders, StoredSecrets]]:
        database = open_sqlite(self.folder_path / "noetl.db", SystemClock())
        secrets = stored_secrets(database, self.environment)
        providers = CredentialProviders(secrets, SystemClock(), self.environment)
        try:
            yield providers, secrets
        finally:
            await providers.close()
            database.close()


class TestVariables(OnOneFile):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        async def change() -> None:
            self.environment["TOKEN"] = "another value"

        self.environment["TOKEN"] = "a first value"
        async with self.providers() as (providers, _):
            yield SecretSetup(providers, entry("env", variable="TOKEN"), entry("env", "missing", variable="NO"), change)


class TestFiles(OnOneFile):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        file = self.folder_path / "token"
        file.write_text("a first value\n")

        async def change() -> None:
            file.write_text("another value\n")

        async with self.providers() as (providers, _):
            there, missing = entry("file", path=str(file)), entry("file", "missing", path=f"{file}.no")
            yield SecretSetup(providers, there, missing, change)


class TestStored(OnOneFile):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        async with self.providers() as (providers, secrets):

            async def change() -> None:
                await secrets.set("there", "another value")

            await secrets.set("there", "a first value")
            yield SecretSetup(providers, entry("stored"), entry("stored", "missing", key="none"), change)


class TestVault(OnOneFile):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        service = VaultService()
        held = service.versions["app/db"] = [{"user": "ann", "password": "a first value"}]

        async def change() -> None:
            held.append({"user": "ann", "password": "another value"})

        async with listening(service.handle) as address, self.providers() as (providers, _):
            self.environment |= {"VAULT_ADDR": address, "VAULT_TOKEN": service.TOKEN}
            there = entry("secret_manager", provider="vault", key="kv/app/db#password")
            missing = entry("secret_manager", "missing", provider="vault", key="kv/app/no")
            yield SecretSetup(providers, there, missing, change)


class TestGoogle(OnOneFile):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        service = GoogleService()
        service.versions["db"] = [b"a first value"]

        async def change() -> None:
            service.versions["db"].append(b"another value")

        async with listening(service.handle) as address, self.providers() as (providers, _):
            self.environment |= {
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": address,
                "GOOGLE_OAUTH_ACCESS_TOKEN": service.TOKEN,
                "GOOGLE_CLOUD_PROJECT": "p",
            }
            there = entry("secret_manager", provider="gcp", key="db")
            missing = entry("secret_manager", "missing", provider="gcp", key="projects/p/secrets/no")
            yield SecretSetup(providers, there, missing, change)


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """Secrets Manager as moto speaks it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


class TestAws(OnOneFile):
    @pytest.fixture(autouse=True)
    def service(self, moto: str) -> None:
        self.address = moto

    async def tell(self, target: str, wish: dict[str, str]) -> None:
        headers = {
            "X-Amz-Target": f"secretsmanager.{target}",
            "Content-Type": "application/x-amz-json-1.1",
            "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/eu-central-1/secretsmanager/aws4_request",
        }
        body = msgspec.json.encode(wish)
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.address, data=body, headers=headers) as reply,
        ):
            assert reply.status == 200, await reply.text()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        name = f"app/{self.folder_path.name}"
        await self.tell("CreateSecret", {"Name": name, "SecretString": '{"password": "a first value"}'})

        async def change() -> None:
            wish = {"SecretId": name, "SecretString": '{"password": "another value"}'}
            await self.tell("PutSecretValue", wish)

        self.environment |= {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "AKIAOURS",
            "AWS_SECRET_ACCESS_KEY": "secret access key of ours",
        }
        async with self.providers() as (providers, _):
            there = entry("secret_manager", provider="aws", key=f"{name}#password")
            missing = entry("secret_manager", "missing", provider="aws", key="app/none")
            yield SecretSetup(providers, there, missing, change)


class TestGiven(OnOneFile):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        self.environment["PASSWORD"] = "a first value"

        async def change() -> None:
            self.environment["PASSWORD"] = "another value"

        async with self.providers() as (providers, _):
            password = {"env": "PASSWORD"}
            there = entry("postgres_credential", host="db.example", user="annette", password=password)
            missing = entry("basic", "missing", user="ann", password={"env": "NO"})
            yield SecretSetup(providers, there, missing, change)


class TestTokens(OnOneFile):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        service = TokenService()

        async def change() -> None:
            """Does nothing: the service issues another token for each request."""

        async with listening(service.handle) as address, self.providers() as (providers, _):
            client = {"token_url": f"{address}/token", "client_id": service.CLIENT}
            there = entry("oauth2_client", client_secret=service.PASSWORD, **client)
            missing = entry("oauth2_client", "missing", client_secret="a wrong one", **client)
            yield SecretSetup(providers, there, missing, change)


class TestStoredFields(OnOneFile):
    """Entries with a name and a kind only (D97)."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        async with self.providers() as (providers, secrets):

            async def change() -> None:
                await secrets.set("there", '{"host": "db.example", "password": "another value"}')

            await secrets.set("there", '{"host": "db.example", "password": "a first value"}')
            yield SecretSetup(providers, entry("postgres_credential"), entry("postgres_credential", "missing"), change)


class TestStoredClient(OnOneFile):
    """The client of a token service, stored as JSON (D97)."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        service = TokenService()

        async def change() -> None:
            """Does nothing: the service issues another token for each request."""

        async with listening(service.handle) as address, self.providers() as (providers, secrets):
            client = {"token_url": f"{address}/token", "client_id": service.CLIENT, "client_secret": service.PASSWORD}
            await secrets.set("there", msgspec.json.encode(client).decode())
            yield SecretSetup(providers, entry("oauth2_client"), entry("oauth2_client", "missing"), change)
