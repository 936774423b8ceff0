"""`secret_manager`: values from Vault, AWS or Google, over REST and without their libraries.

Addresses and logins come from the environment variables that the tools of each service use. A key may end in
`#field`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from noetl.adapters.secrets.oauth import SecretRequest, SecretServiceClient, refusal
from noetl.adapters.secrets.sources import Sources, as_text
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.ports import FetchedCredential
from noetl.secret import Secret

VERSION_ID_CHARS_MIN: Final = 32  # a shorter version is a stage: AWSCURRENT, AWSPREVIOUS


def split_key(key: str) -> tuple[str, str | None]:
    """`app/db#password` → name and field; field None: the whole secret."""
    name, _, field = key.partition("#")
    return name, field or None


def pick_field(text: str, field: str | None, what: str) -> dict[str, Secret]:
    """The secret, or a field of a secret that is a JSON object. Raises NotFound."""
    if field is None:
        return {"": Secret(text)}
    try:
        fields = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or field not in fields:
        raise NotFound(f'{what}: it has no field "{field}"')
    return {"": Secret(_text(fields[field]))}


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class Vault:
    """The key-value engine of Vault, version 2. A key is `mount/path#field`.

    It uses VAULT_ADDR, VAULT_TOKEN and VAULT_NAMESPACE.
    """

    def __init__(self, sources: Sources, client: SecretServiceClient) -> None:
        self._sources = sources
        self._client = client

    async def read(self, key: str, version: str | None) -> FetchedCredential:
        name, field = split_key(key)
        mount, _, path = name.strip("/").partition("/")
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
        reply = await self._client.send(SecretRequest("GET", url, what, headers))
        match reply.data:
            case {"data": {"data": dict(fields), "metadata": {"version": found}}} if reply.status == 200:
                return FetchedCredential(_fields(fields, field, what), f"vault-{found}")
        raise refusal(what, reply)


def _fields(fields: dict[str, JSON], field: str | None, what: str) -> dict[str, Secret]:
    """The requested field, or the only one, as ""; otherwise all fields by name."""
    if field is None and len(fields) == 1:
        field = next(iter(fields))
    if field is None and fields:
        return {name: Secret(_text(value)) for name, value in fields.items()}
    if field not in fields:
        raise NotFound(f'{what}: it has no field "{field}"' if field else f"{what}: it is empty")
    return {"": Secret(_text(fields[field]))}


class Aws:
    """AWS Secrets Manager.

    It uses AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION.
    """

    def __init__(self, sources: Sources, client: SecretServiceClient, now: Callable[[], datetime]) -> None:
        self._sources = sources
        self._client = client
        self._now = now

    async def read(self, key: str, version: str | None) -> FetchedCredential:
        name, field = split_key(key)
        what = f'AWS Secrets Manager, "{key}"'
        variables = self._sources.environment
        region = variables.get("AWS_REGION") or self._sources.own("AWS_DEFAULT_REGION").reveal()
        endpoint = variables.get("AWS_ENDPOINT_URL_SECRETS_MANAGER") or variables.get("AWS_ENDPOINT_URL")
        address = endpoint or f"https://secretsmanager.{region}.amazonaws.com"
        body = {"SecretId": name}
        if version is not None:
            body["VersionId" if len(version) >= VERSION_ID_CHARS_MIN else "VersionStage"] = version
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "secretsmanager.GetSecretValue"}
        if token := variables.get("AWS_SESSION_TOKEN"):
            headers["X-Amz-Security-Token"] = token
        access = self._sources.own("AWS_ACCESS_KEY_ID").reveal()
        keys = AwsKeys(access, self._sources.own("AWS_SECRET_ACCESS_KEY"), region, "secretsmanager")
        request = SecretRequest("POST", address.rstrip("/") + "/", what, headers, msgspec.json.encode(body))
        reply = await self._client.send(sign(request, keys, self._now()))
        match reply.data:
            case {"SecretString": str(text), "VersionId": str(found)} if reply.status == 200:
                return FetchedCredential(pick_field(text, field, what), f"aws-{found}")
            case {"SecretBinary": str()} if reply.status == 200:
                raise Unavailable(f"{what}: the secret is binary, but must be text")
            case {"__type": str(kind)} if kind.endswith("ResourceNotFoundException"):
                raise NotFound(f"{what}: there is no such secret")
        raise refusal(what, reply)


class Google:
    """Google Secret Manager.

    It uses GOOGLE_OAUTH_ACCESS_TOKEN, and GOOGLE_CLOUD_PROJECT for keys without a project.
    """

    HOST: Final = "https://secretmanager.googleapis.com"
    OVERRIDE: Final = "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER"

    def __init__(self, sources: Sources, client: SecretServiceClient) -> None:
        self._sources = sources
        self._client = client

    async def read(self, key: str, version: str | None) -> FetchedCredential:
        name, field = split_key(key)
        what = f'Google Secret Manager, "{key}"'
        if not name.startswith("projects/"):
            name = f"projects/{self._sources.own('GOOGLE_CLOUD_PROJECT').reveal()}/secrets/{name}"
        address = (self._sources.environment.get(self.OVERRIDE) or self.HOST).rstrip("/")
        token = self._sources.own("GOOGLE_OAUTH_ACCESS_TOKEN").reveal()
        url = f"{address}/v1/{quote(name)}/versions/{quote(version or 'latest', safe='')}:access"
        reply = await self._client.send(SecretRequest("GET", url, what, {"Authorization": f"Bearer {token}"}))
        match reply.data:
            case {"name": str(found), "payload": {"data": str(data)}} if reply.status == 200:
                try:
                    text = as_text(base64.b64decode(data, validate=True), what)
                except binascii.Error:
                    raise Unavailable(f"{what}: the answer cannot be read") from None
                return FetchedCredential(pick_field(text, field, what), f"gcp-{found.rpartition('/')[2]}")
        raise refusal(what, reply)


class AwsKeys(NamedTuple):
    access: str
    secret: Secret
    region: str
    service: str


def sign(request: SecretRequest, keys: AwsKeys, at: datetime) -> SecretRequest:
    """Add an AWS Signature Version 4, which proves who sends the request without sending the key.

    The path must need no quoting, and the request has no query: ours need neither.
    """
    stamp = f"{at:%Y%m%dT%H%M%SZ}"
    url = urlsplit(request.url)
    headers = {"Host": url.netloc, **request.headers, "X-Amz-Date": stamp}
    ordered = sorted((name.lower(), value.strip()) for name, value in headers.items())
    names = ";".join(name for name, _ in ordered)
    lines = "".join(f"{name}:{value}\n" for name, value in ordered)
    canonical = f"{request.method}\n{url.path or '/'}\n\n{lines}\n{names}\n{_digest(request.body or b'')}"
    scope = f"{stamp[:8]}/{keys.region}/{keys.service}/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{_digest(canonical.encode())}"
    key = f"AWS4{keys.secret.reveal()}".encode()
    for part in scope.split("/"):
        key = _mac(key, part)
    proof = f"Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={_mac(key, to_sign).hex()}"
    return request._replace(headers={**headers, "Authorization": f"AWS4-HMAC-SHA256 {proof}"})


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
