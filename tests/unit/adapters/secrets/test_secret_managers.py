"""Vault, AWS and Google as they are asked, and what each of their answers means."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from noetl.playbook.model import Credential
from tests.services_secrets import GoogleService, VaultService, listening
from tests.unit.adapters.secrets.fixtures import entry, opened


def at(provider: str, key: str, **fields: Any) -> Credential:
    return entry("secret_manager", provider=provider, key=key, **fields)


def from_vault(folder: Path, credential: Credential, token: str = VaultService.TOKEN) -> dict[str, str] | str:
    service = VaultService()
    service.versions["app/db"] = [{"user": "ann", "password": "old"}, {"user": "ann", "password": "new"}]
    service.versions["one"] = [{"value": "the only one"}]

    async def work() -> dict[str, str] | str:
        async with listening(service.handle) as address:
            environment = {"VAULT_ADDR": f"{address}/", "VAULT_TOKEN": token, "VAULT_NAMESPACE": "team"}
            async with opened(folder, environment) as setup:
                told = await setup.told(credential)
                return await setup.values(credential) if told == "it was there" else told

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("credential", "found"),
    [
        (at("vault", "kv/app/db#password"), {"": "new"}),
        (at("vault", "kv/data/app/db#password"), {"": "new"}),
        (at("vault", "kv/app/db#password", version=1), {"": "old"}),
        (at("vault", "kv/app/db"), {"user": "ann", "password": "new"}),
        (at("vault", "kv/one"), {"": "the only one"}),
    ],
)
def test_vault_gives_a_field_or_the_only_one_or_all_of_them(
    credential: Credential, found: dict[str, str], tmp_path: Path
) -> None:
    assert from_vault(tmp_path, credential) == found


@pytest.mark.parametrize(
    ("credential", "token", "words"),
    [
        (at("vault", "kv/none"), VaultService.TOKEN, "NotFound: … there is no such secret"),
        (at("vault", "kv/app/db#no"), VaultService.TOKEN, 'NotFound: … it has no field "no"'),
        (at("vault", "kv"), VaultService.TOKEN, "NotFound: … a key is"),
        (at("vault", "kv/one"), "hvs.another-token", "Unavailable: … HTTP 403, access denied"),
    ],
)
def test_vault_tells_what_is_wrong_and_no_token(credential: Credential, token: str, words: str, tmp_path: Path) -> None:
    told = from_vault(tmp_path, credential, token)
    assert isinstance(told, str)
    kind, rest = words.split(": … ")
    assert told.startswith(f'{kind}: keychain entry "api": Vault, ')
    assert rest in told
    assert token not in told


def from_google(folder: Path, credential: Credential) -> dict[str, str] | str:
    service = GoogleService()
    service.versions["db"] = [b'{"password": "old"}', b'{"password": "new"}']
    service.versions["binary"] = [b"\xff\xfe"]

    async def work() -> dict[str, str] | str:
        async with listening(service.handle) as address:
            environment = {
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": address,
                "GOOGLE_OAUTH_ACCESS_TOKEN": service.TOKEN,
                "GOOGLE_CLOUD_PROJECT": "p",
            }
            async with opened(folder, environment) as setup:
                told = await setup.told(credential)
                return await setup.values(credential) if told == "it was there" else told

    return asyncio.run(work())


def test_google_gives_the_latest_version_or_the_one_that_is_named(tmp_path: Path) -> None:
    assert from_google(tmp_path, at("gcp", "db")) == {"": '{"password": "new"}'}
    assert from_google(tmp_path, at("gcp", "db#password", version="1")) == {"": "old"}
    assert from_google(tmp_path, at("gcp", "projects/p/secrets/db#password")) == {"": "new"}


def test_google_tells_what_is_wrong(tmp_path: Path) -> None:
    assert "there is no such secret" in from_google(tmp_path, at("gcp", "none"))
    assert 'it has no field "user"' in from_google(tmp_path, at("gcp", "db#user"))
    assert "is not UTF-8 text" in from_google(tmp_path, at("gcp", "binary"))


AWS = {
    "AWS_REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "AKIAOURS",
    "AWS_SECRET_ACCESS_KEY": "key of ours",
    "AWS_SESSION_TOKEN": "session",
}


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (400, {"__type": "ResourceNotFoundException"}, "NotFound: … there is no such secret"),
        (400, {"__type": "AccessDeniedException"}, "Unavailable: … HTTP 400 without a secret"),
        (403, {}, "Unavailable: … HTTP 403, access denied"),
        (200, {"SecretBinary": "aGk=", "VersionId": "v"}, "Unavailable: … is binary"),
        (200, {"SecretString": "hunter22"}, "Unavailable: … HTTP 200 without a secret"),
    ],
)
def test_aws_tells_what_is_wrong_and_nothing_of_its_answer(
    status: int, answer: dict[str, str], words: str, tmp_path: Path
) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response(answer, status=status)

    async def work() -> str:
        async with (
            listening(handle) as address,
            opened(tmp_path, {**AWS, "AWS_ENDPOINT_URL": address}) as setup,
        ):
            return await setup.told(at("aws", "db"))

    told = asyncio.run(work())
    kind, rest = words.split(": … ")
    assert told.startswith(f'{kind}: keychain entry "api": AWS Secrets Manager, "db": ')
    assert rest in told
    assert "hunter22" not in told


@pytest.mark.parametrize(
    ("version", "wish"),
    [
        (None, {"SecretId": "db"}),
        ("AWSPREVIOUS", {"SecretId": "db", "VersionStage": "AWSPREVIOUS"}),
        ("a" * 36, {"SecretId": "db", "VersionId": "a" * 36}),
    ],
)
def test_aws_is_asked_for_a_version_by_its_id_or_its_stage(
    version: str | None, wish: dict[str, str], tmp_path: Path
) -> None:
    seen: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((msgspec.json.decode(await request.read()), request.headers["X-Amz-Security-Token"]))
        return web.json_response({"SecretString": "hunter22", "VersionId": "v"})

    async def work() -> dict[str, str]:
        async with (
            listening(handle) as address,
            opened(tmp_path, {**AWS, "AWS_ENDPOINT_URL": address}) as setup,
        ):
            return await setup.values(at("aws", "db", **({"version": version} if version else {})))

    assert asyncio.run(work()) == {"": "hunter22"}
    assert seen == [(wish, "session")]


def test_a_service_that_is_away_or_breaks_off_is_told_by_its_address_alone(tmp_path: Path) -> None:
    async def too_much(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * (1 << 20))

    async def elsewhere(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://192.0.2.1/"})

    async def work() -> None:
        for handler, words in (
            (too_much, "larger than BODY_BYTES_MAX"),
            (elsewhere, "HTTP 302 without a secret"),
        ):
            async with listening(handler) as address:
                environment = {"VAULT_ADDR": address, "VAULT_TOKEN": "hvs.token"}
                async with opened(tmp_path, environment) as setup:
                    assert words in await setup.told(at("vault", "kv/x"))
        async with opened(tmp_path, environment) as setup:  # the server no longer listens there
            told = await setup.told(at("vault", "kv/x"))
        assert told == f'Unavailable: keychain entry "api": Vault, "kv/x": no answer from {address}'
        for wrong in ("ftp://host", "no url", "http://[::1"):
            async with opened(tmp_path, {**environment, "VAULT_ADDR": wrong}) as setup:
                assert "its address" in await setup.told(at("vault", "kv/x"))

    asyncio.run(work())
