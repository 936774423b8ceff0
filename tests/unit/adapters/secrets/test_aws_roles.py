"""AWS keys of the environment and of roles: the order of the sources, their requests, and expiry."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from noetl.adapters.secrets.aws_roles import AwsCredential, AwsRoles
from noetl.adapters.secrets.services import SecretServiceClient
from noetl.adapters.secrets.sources import Sources
from noetl.errors import NoetlError
from noetl.secret import Secret
from tests.services_secrets import listening

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
KEYS = AwsCredential("ROLE", Secret("secret"), Secret("token"), LATER)


class AwsService:
    """STS, the service of a container and that of a machine."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.lifetime = timedelta(hours=1)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        expires_at = NOW + self.lifetime
        keys = {"AccessKeyId": "ROLE", "SecretAccessKey": "secret"}
        text = expires_at.isoformat().replace("+00:00", "Z")
        if request.path == "/":
            form = await request.post()
            if form["WebIdentityToken"] != "jwt" or form["RoleArn"] != "arn:role":
                return web.json_response({}, status=403)
            given = {**keys, "SessionToken": "token", "Expiration": expires_at.timestamp()}
            result = {"AssumeRoleWithWebIdentityResult": {"Credentials": given}}
            return web.json_response({"AssumeRoleWithWebIdentityResponse": result})
        if request.path == "/container":
            if request.headers.get("Authorization") != "pod":
                return web.Response(status=401)
            return web.json_response({**keys, "Token": "token", "Expiration": text})
        if request.path == "/latest/api/token":
            return web.Response(text="session")
        if request.headers.get("X-aws-ec2-metadata-token") != "session":
            return web.Response(status=401)
        if request.path.endswith("/security-credentials/"):
            return web.Response(text="worker")
        return web.json_response({**keys, "Token": "token", "Expiration": text})


async def keys_of(roles: AwsRoles) -> AwsCredential | str:
    try:
        return await roles.get("eu-central-1")
    except NoetlError as error:
        return f"{type(error).__name__}: {error}"


def found(service: AwsService, variables: dict[str, str], times: int = 1) -> list[AwsCredential | str]:
    async def work() -> list[AwsCredential | str]:
        async with listening(service.handle) as address:
            environment = {name: value.replace("HERE", address) for name, value in variables.items()}
            client = SecretServiceClient()
            roles = AwsRoles(Sources(environment), client, lambda: NOW)
            try:
                return [await keys_of(roles) for _ in range(times)]
            finally:
                await client.close()

    return asyncio.run(work())


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "jwt").write_text("jwt\n")
    (tmp_path / "pod").write_text("pod\n")
    return {"jwt": str(tmp_path / "jwt"), "pod": str(tmp_path / "pod"), "none": str(tmp_path / "none")}


def web_identity(files: dict[str, str], file: str = "jwt") -> dict[str, str]:
    return {"AWS_WEB_IDENTITY_TOKEN_FILE": files[file], "AWS_ROLE_ARN": "arn:role", "AWS_ENDPOINT_URL_STS": "HERE"}


CONTAINER = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "HERE/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "pod"}
MACHINE = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "HERE/"}


def test_each_kind_of_role_gives_temporary_keys(files: dict[str, str]) -> None:
    by_file = {**CONTAINER, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": files["pod"]}
    del by_file["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
    cases: list[tuple[dict[str, str], list[str]]] = [
        (web_identity(files), ["POST /"]),
        (CONTAINER, ["GET /container"]),
        (by_file, ["GET /container"]),
        (
            MACHINE,
            [
                "PUT /latest/api/token",
                "GET /latest/meta-data/iam/security-credentials/",
                "GET /latest/meta-data/iam/security-credentials/worker",
            ],
        ),
    ]
    for variables, asked in cases:
        service = AwsService()
        assert found(service, variables) == [KEYS]
        assert service.asked == asked


def test_the_first_source_counts_and_variables_need_no_request(files: dict[str, str]) -> None:
    service = AwsService()
    own = {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "key"}
    everything = {**own, **web_identity(files), **CONTAINER, **MACHINE}
    assert found(service, everything) == [AwsCredential("mine", Secret("key"))]
    assert found(service, {**own, "AWS_SESSION_TOKEN": "t"}) == [AwsCredential("mine", Secret("key"), Secret("t"))]
    assert service.asked == []
    assert found(service, {**web_identity(files), **CONTAINER, **MACHINE}) == [KEYS]
    assert service.asked == ["POST /"]


def test_keys_are_cached_until_they_are_about_to_expire() -> None:
    service = AwsService()
    assert found(service, CONTAINER, 3) == [KEYS] * 3
    assert service.asked == ["GET /container"]
    short = AwsService()
    short.lifetime = timedelta(minutes=4)
    found(short, CONTAINER, 3)
    assert short.asked == ["GET /container"] * 3


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (
            {"AWS_EC2_METADATA_DISABLED": "true"},
            'NotFound: the environment variable "AWS_ACCESS_KEY_ID" is not set, and there is no role',
        ),
        (
            {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"},
            'NotFound: the environment variable "AWS_ACCESS_KEY_ID" is not set, and this machine has no role',
        ),
        ({**CONTAINER, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "x"}, "Unavailable: the role of the container: the answer"),
        ({"AWS_ACCESS_KEY_ID": "a"}, 'NotFound: the environment variable "AWS_SECRET_ACCESS_KEY" is not set'),
    ],
)
def test_a_source_that_gives_no_keys_says_so(variables: dict[str, str], told: str) -> None:
    [answer] = found(AwsService(), variables)
    assert isinstance(answer, str)
    assert answer.startswith(told)


def test_a_token_file_that_is_missing_or_refused_is_told(files: dict[str, str]) -> None:
    [missing] = found(AwsService(), web_identity(files, "none"))
    assert isinstance(missing, str)
    assert missing.startswith("Unavailable: the role of the web identity: the file")
    [refused] = found(AwsService(), web_identity(files, "pod"))
    assert refused == "Unavailable: the role of the web identity: HTTP 403 without keys"


def test_a_secret_is_read_with_the_keys_of_a_role(tmp_path: Path) -> None:
    """The whole way: the role of the container signs the request for a secret."""
    from tests.unit.adapters.secrets.fixtures import entry, opened

    service, seen = AwsService(), list[Any]()

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/container":
            return await service.handle(request)
        seen.append((request.headers["Authorization"].partition("/")[0], request.headers["X-Amz-Security-Token"]))
        return web.json_response({"SecretString": "the value", "VersionId": "v1"})

    async def work() -> dict[str, str]:
        async with listening(answer) as address:
            variables = {name: value.replace("HERE", address) for name, value in CONTAINER.items()}
            variables |= {"AWS_REGION": "eu", "AWS_ENDPOINT_URL": address}
            async with opened(tmp_path, variables) as setup:
                return await setup.values(entry("secret_manager", provider="aws", key="app/db"))

    assert asyncio.run(work()) == {"": "the value"}
    assert seen == [("AWS4-HMAC-SHA256 Credential=ROLE", "token")]
