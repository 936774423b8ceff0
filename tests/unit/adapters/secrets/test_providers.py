"""Each kind of keychain entry gives the fields that templates and tools read (D84)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from noetl.playbook.model import Credential
from tests.unit.adapters.secrets.fixtures import ProviderSetup, entry, opened

ENVIRONMENT = {"api": "by its name", "TOKEN": "by variable", "PASSWORD": "from outside"}


def values(folder: Path, credential: Credential) -> dict[str, str]:
    async def work() -> dict[str, str]:
        async with opened(folder, ENVIRONMENT) as setup:
            await setup.secrets.set("api", "stored by name")
            await setup.secrets.set("other", "stored by key")
            return await setup.values(credential)

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("credential", "found"),
    [
        (entry("env"), {"": "by its name"}),
        (entry("env", variable="TOKEN"), {"": "by variable"}),
        (entry("stored"), {"": "stored by name"}),
        (entry("stored", key="other"), {"": "stored by key"}),
        (entry("secret_manager", provider="env", key="TOKEN"), {"": "by variable"}),
        (entry("bearer", token="literal"), {"": "literal"}),
        (entry("bearer", token={"env": "TOKEN"}), {"": "by variable"}),
        (
            entry("basic", user="ann", password={"env": "PASSWORD"}),
            {"user": "ann", "password": "from outside"},
        ),
        (entry("postgres_credential", dsn={"env": "TOKEN"}), {"dsn": "by variable"}),
        (
            entry("nats_credential", url="nats://bus", token={"env": "TOKEN"}),
            {"url": "nats://bus", "token": "by variable"},
        ),
        (
            entry("aws_credential", access_key_id="AK", secret_access_key={"env": "PASSWORD"}, region="eu"),
            {"access_key_id": "AK", "secret_access_key": "from outside", "region": "eu"},
        ),
        (entry("gcp_credential", service_account={"env": "TOKEN"}), {"": "by variable"}),
        (
            entry("azure_credential", account="shop", sas_token={"env": "TOKEN"}),
            {"account": "shop", "sas_token": "by variable"},
        ),
        (
            entry("postgres_credential", host="db", port=5432, password={"env": "PASSWORD"}),
            {"host": "db", "port": "5432", "password": "from outside"},
        ),
    ],
    ids=lambda each: each.kind if isinstance(each, Credential) else "",
)
def test_an_entry_gives_its_value_or_its_fields(credential: Credential, found: dict[str, str], tmp_path: Path) -> None:
    assert values(tmp_path, credential) == found


def test_a_field_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("in a file\n")
    credential = entry("basic", user="ann", password={"file": str(tmp_path / "password")})
    assert values(tmp_path, credential) == {"user": "ann", "password": "in a file"}


@pytest.mark.parametrize(
    ("credential", "words"),
    [
        (entry("wonder"), 'there is no kind "wonder"'),
        (entry("file"), 'it has no field "path"'),
        (entry("bearer"), 'it has no field "token"'),
        (entry("basic", user="ann"), 'it has no field "password"'),
        (entry("postgres_credential", user="ann"), 'it has no field "dsn"'),
        (entry("nats_credential", user="ann"), 'it has no field "url"'),
        (entry("secret_manager", key="x"), 'it has no field "provider"'),
        (entry("secret_manager", provider="other", key="x"), 'there is no provider "other"'),
        (
            entry("secret_manager", provider="vault", key="kv/x"),
            'the environment variable "VAULT_ADDR" is not set',
        ),
        (entry("secret_manager", provider="gcp", key="x"), '"GOOGLE_CLOUD_PROJECT" is not set'),
        (entry("secret_manager", provider="aws", key="x"), '"AWS_DEFAULT_REGION" is not set'),
        (entry("oauth2_client", token_url="x"), 'it has no field "client_id"'),
        (entry("aws_credential", access_key_id="x"), 'it has no field "secret_access_key"'),
        (entry("azure_credential", key="x"), 'it has no field "account"'),
        (entry("azure_credential", account="x"), 'it has no field "key"'),
    ],
)
def test_what_is_missing_is_told_with_the_name_of_the_entry(credential: Credential, words: str, tmp_path: Path) -> None:
    async def work() -> str:
        async with opened(tmp_path) as setup:
            return await setup.told(credential)

    told = asyncio.run(work())
    assert told.startswith('NotFound: keychain entry "api": ')
    assert words in told


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("env", {"variable": {"env": "PASSWORD"}}),
        ("file", {"path": {"env": "PASSWORD"}}),
        ("stored", {"key": {"env": "PASSWORD"}}),
        ("secret_manager", {"provider": {"env": "PASSWORD"}, "key": "x"}),
        ("secret_manager", {"provider": "vault", "key": {"env": "PASSWORD"}}),
        ("oauth2_client", {"token_url": {"env": "URL"}, "client_id": "i", "client_secret": {"env": "PASSWORD"}}),
    ],
)
@pytest.mark.parametrize("source", ["env", "file"])
def test_an_error_does_not_repeat_the_value_of_a_reference(
    source: str, kind: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    environment = {**ENVIRONMENT, "URL": "http://127.0.0.1:1/from-outside"}

    def reference(variable: str) -> dict[str, str]:
        """To the value of the variable, or to a file with the same value."""
        if source == "env":
            return {"env": variable}
        file = tmp_path / f"reference-{variable}"
        file.write_text(environment[variable])
        return {"file": str(file)}

    given = {name: reference(each["env"]) if isinstance(each, dict) else each for name, each in fields.items()}

    async def work() -> str:
        async with opened(tmp_path, environment) as setup:
            return await setup.told(entry(kind, **given))

    told = asyncio.run(work())
    assert 'keychain entry "api": it cannot be read with the values of' in told
    assert "from" not in told.replace("cannot be read", "")


def test_a_version_is_the_same_in_two_processes_with_one_key_and_no_digest_of_the_value(
    tmp_path: Path,
) -> None:
    async def version(folder: str, **fields: Any) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        async with opened(tmp_path / folder, ENVIRONMENT) as setup:
            if folder == "keyed":
                await setup.secrets.set("x", "makes a key")
            return (await setup.providers.fetch(entry("env", **fields))).version

    async def work() -> None:
        keyed = [await version("keyed") for _ in range(2)]
        assert keyed[0] == keyed[1]
        assert await version("keyed", variable="TOKEN") != keyed[0]
        assert len({await version("other") for _ in range(2)}) == 2

    asyncio.run(work())


def test_a_value_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async def work() -> str:
        async with opened(tmp_path, {"api": "x" * 65_537}) as setup:
            return await setup.told(entry("env"))

    assert "longer than SECRET_BYTES_MAX: 65,536 bytes" in asyncio.run(work())


def test_a_row_that_was_changed_behind_our_back_is_told(tmp_path: Path) -> None:
    async def work(setup: ProviderSetup) -> None:
        await setup.secrets.set("api", "hunter22")
        await setup.database.writer.write(lambda cursor: cursor.execute("UPDATE secrets SET version = version + 1"))
        assert await setup.told(entry("stored")) == (
            'Unavailable: keychain entry "api": the secret "api" is damaged: set it again'
        )

    async def go() -> None:
        async with opened(tmp_path) as setup:
            await work(setup)

    asyncio.run(go())


LOGIN = '{"host": "db", "port": 5432, "user": "ann", "password": "hunter22"}'


@pytest.mark.parametrize(
    ("kind", "stored", "found"),
    [
        ("secret_manager", "plain text", {"": "plain text"}),
        ("bearer", '{"a": 1}', {"": '{"a": 1}'}),
        ("file", "content of a file", {"": "content of a file"}),
        ("gcp_credential", '{"type": "service_account"}', {"": '{"type": "service_account"}'}),
        (
            "aws_credential",
            '{"access_key_id": "a", "secret_access_key": "s"}',
            {"access_key_id": "a", "secret_access_key": "s"},
        ),
        ("basic", '{"user": "ann", "password": "hunter22"}', {"user": "ann", "password": "hunter22"}),
        ("postgres_credential", LOGIN, {"host": "db", "port": "5432", "user": "ann", "password": "hunter22"}),
        ("postgres_credential", '{"dsn": "postgresql://db/x"}', {"dsn": "postgresql://db/x"}),
        ("postgres_credential", "postgresql://ann:hunter22@db/x\n", {"dsn": "postgresql://ann:hunter22@db/x"}),
        ("nats_credential", "tls://ann:hunter22@bus:4222\n", {"url": "tls://ann:hunter22@bus:4222"}),
        ("nats_credential", '{"url": "nats://bus", "token": "t"}', {"url": "nats://bus", "token": "t"}),
    ],
)
def test_an_entry_with_name_and_kind_only_is_the_stored_secret_of_that_name_d97(
    kind: str, stored: str, found: dict[str, str], tmp_path: Path
) -> None:
    async def work() -> None:
        async with opened(tmp_path) as setup:
            await setup.secrets.set("api", stored)
            assert await setup.values(entry(kind)) == found
            assert await setup.values(entry(kind, desc="words for readers")) == found
            assert (await setup.providers.fetch(entry(kind))).version == "stored-1"

    asyncio.run(work())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("secret_manager", "add provider and key to the entry, or store the value"),
        ("bearer", "add token to the entry, or store the value"),
        ("file", "add path to the entry, or store the value"),
        ("basic", "add user and password to the entry, or store a JSON object of them"),
        (
            "postgres_credential",
            "add dsn (or host, port, user, password, database) to the entry, or store a JSON object of them",
        ),
        (
            "oauth2_client",
            "add token_url, client_id, client_secret (and scope) to the entry, or store a JSON object of them",
        ),
    ],
)
def test_without_a_stored_secret_both_ways_to_provide_it_are_named_d97(kind: str, words: str, tmp_path: Path) -> None:
    async def work() -> str:
        async with opened(tmp_path) as setup:
            return await setup.told(entry(kind))

    told = asyncio.run(work())
    assert told.startswith('NotFound: keychain entry "api": it has no field "')
    assert told.endswith(f', and no secret "api" is stored: {words}: noetl secrets set api')


@pytest.mark.parametrize(
    "stored",
    [
        "hunter22",
        '["hunter22"]',
        "{   }",
        '{"hunter22": "x"}',
        '{"user": {"env": "hunter22"}, "password": "x"}',
        '{"user": null}',
        '{"user": true, "password": "hunter22"}',
    ],
)
def test_a_stored_secret_without_the_fields_of_the_kind_is_refused_without_its_content_d97(
    stored: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with opened(tmp_path, {"hunter22": "of the environment"}) as setup:
            await setup.secrets.set("api", stored)
            assert await setup.told(entry("basic")) == (
                'NotFound: keychain entry "api": the stored secret "api": it must be a JSON object of text and '
                "whole numbers, with fields of: user, password"
            )

    asyncio.run(work())


def test_a_stored_secret_with_some_of_the_fields_says_what_is_missing_d97(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as setup:
            await setup.secrets.set("api", '{"user": "ann"}')
            prefix = 'NotFound: keychain entry "api": the stored secret "api": it has no field'
            assert await setup.told(entry("basic")) == f'{prefix} "password"'
            assert await setup.told(entry("postgres_credential")) == f'{prefix} "dsn"'

    asyncio.run(work())
