"""`secret_manager`: values that Vault, AWS or Google keep, or a variable; over REST, without their libraries.

How each is reached stands in the variables that its own tools read; a key may end in `#field`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import datetime
from typing import Final
from urllib.parse import quote

import msgspec

from noetl.adapters.secrets.aws_signature import Keys, signed
from noetl.adapters.secrets.requests import Asking, SecretRequest, refused
from noetl.adapters.secrets.sources import Sources, as_text
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.ports import FetchedCredential
from noetl.secret import Secret

VERSION_ID_CHARS_MIN: Final = 32  # what is shorter names a stage: AWSCURRENT, AWSPREVIOUS


def parted(key: str) -> tuple[str, str | None]:
    """`app/db#password` → where it lies, and which field of it; None: all of it."""
    place, _, field = key.partition("#")
    return place, field or None


def picked(text: str, field: str | None, what: str) -> dict[str, Secret]:
    """A field of a secret that is JSON. Raises NotFound."""
    if field is None:
        return {"": Secret(text)}
    try:
        held = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict) or field not in held:
        raise NotFound(f'{what}: it has no field "{field}"')
    return {"": Secret(_word(held[field]))}


def _word(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class Vault:
    """The key-value engine, version 2; a key is `mount/path#field`.

    Reached by VAULT_ADDR, VAULT_TOKEN and VAULT_NAMESPACE.
    """

    def __init__(self, sources: Sources, asking: Asking) -> None:
        self._sources = sources
        self._asking = asking

    async def read(self, key: str, version: str | None) -> FetchedCredential:
        place, field = parted(key)
        mount, _, path = place.strip("/").partition("/")
        what = f'Vault, "{key}"'
        if not path:
            raise NotFound(f'{what}: a key is "mount/path" or "mount/path#field"')
        variables = self._sources.environment
        address = self._sources.own("VAULT_ADDR").reveal().rstrip("/")
        headers = {"X-Vault-Token": self._sources.own("VAULT_TOKEN").reveal(), "X-Vault-Request": "true"}
        if variables.get("VAULT_NAMESPACE"):
            headers["X-Vault-Namespace"] = variables["VAULT_NAMESPACE"]
        url = f"{address}/v1/{quote(mount)}/data/{quote(path.removeprefix('data/'))}"
        if version is not None:
            url += f"?version={quote(version, safe='')}"
        reply = await self._asking.ask(SecretRequest("GET", url, what, headers))
        match reply.data:
            case {"data": {"data": dict(held), "metadata": {"version": found}}} if reply.status == 200:
                return FetchedCredential(_fields(held, field, what), f"vault-{found}")
        raise refused(what, reply)


def _fields(held: dict[str, JSON], field: str | None, what: str) -> dict[str, Secret]:
    """The one that is asked for, or the only one; else all of them, by name."""
    if field is None and len(held) == 1:
        field = next(iter(held))
    if field is None and held:
        return {name: Secret(_word(value)) for name, value in held.items()}
    if field not in held:
        raise NotFound(f'{what}: it has no field "{field}"' if field else f"{what}: it is empty")
    return {"": Secret(_word(held[field]))}


class Aws:
    """Secrets Manager: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION."""

    def __init__(self, sources: Sources, asking: Asking, now: Callable[[], datetime]) -> None:
        self._sources = sources
        self._asking = asking
        self._now = now

    async def read(self, key: str, version: str | None) -> FetchedCredential:
        place, field = parted(key)
        what = f'AWS Secrets Manager, "{key}"'
        variables = self._sources.environment
        region = variables.get("AWS_REGION") or self._sources.own("AWS_DEFAULT_REGION").reveal()
        given = variables.get("AWS_ENDPOINT_URL_SECRETS_MANAGER") or variables.get("AWS_ENDPOINT_URL")
        address = given or f"https://secretsmanager.{region}.amazonaws.com"
        wish = {"SecretId": place}
        if version is not None:
            wish["VersionId" if len(version) >= VERSION_ID_CHARS_MIN else "VersionStage"] = version
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": "secretsmanager.GetSecretValue",
        }
        if token := variables.get("AWS_SESSION_TOKEN"):
            headers["X-Amz-Security-Token"] = token
        access = self._sources.own("AWS_ACCESS_KEY_ID").reveal()
        keys = Keys(access, self._sources.own("AWS_SECRET_ACCESS_KEY"), region, "secretsmanager")
        asked = SecretRequest("POST", address.rstrip("/") + "/", what, headers, msgspec.json.encode(wish))
        reply = await self._asking.ask(signed(asked, keys, self._now()))
        match reply.data:
            case {"SecretString": str(text), "VersionId": str(found)} if reply.status == 200:
                return FetchedCredential(picked(text, field, what), f"aws-{found}")
            case {"SecretBinary": str()} if reply.status == 200:
                raise Unavailable(f"{what}: it is binary, and a secret must be text")
            case {"__type": str(kind)} if kind.endswith("ResourceNotFoundException"):
                raise NotFound(f"{what}: there is no such secret")
        raise refused(what, reply)


class Google:
    """Secret Manager: GOOGLE_OAUTH_ACCESS_TOKEN, and GOOGLE_CLOUD_PROJECT for keys without their project."""

    HOST: Final = "https://secretmanager.googleapis.com"
    ELSEWHERE: Final = "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER"

    def __init__(self, sources: Sources, asking: Asking) -> None:
        self._sources = sources
        self._asking = asking

    async def read(self, key: str, version: str | None) -> FetchedCredential:
        place, field = parted(key)
        what = f'Google Secret Manager, "{key}"'
        if not place.startswith("projects/"):
            place = f"projects/{self._sources.own('GOOGLE_CLOUD_PROJECT').reveal()}/secrets/{place}"
        address = (self._sources.environment.get(self.ELSEWHERE) or self.HOST).rstrip("/")
        token = self._sources.own("GOOGLE_OAUTH_ACCESS_TOKEN").reveal()
        url = f"{address}/v1/{quote(place)}/versions/{quote(version or 'latest', safe='')}:access"
        reply = await self._asking.ask(SecretRequest("GET", url, what, {"Authorization": f"Bearer {token}"}))
        match reply.data:
            case {"name": str(name), "payload": {"data": str(data)}} if reply.status == 200:
                try:
                    text = as_text(base64.b64decode(data, validate=True), what)
                except binascii.Error:
                    raise Unavailable(f"{what}: the answer can not be read") from None
                return FetchedCredential(picked(text, field, what), f"gcp-{name.rpartition('/')[2]}")
        raise refused(what, reply)
