"""Services that hold secrets, over HTTP and without their libraries: OAuth 2, Vault, AWS and Google.

Addresses and logins of secret managers come from the environment variables that the tools of each service use.
A key may end in `#field`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from noetl.adapters.secrets.sources import Sources, ValueVersions, as_text
from noetl.clock import Clock
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import SECRET_BYTES_MAX, Secret
from noetl.tool import AddressPolicy

if TYPE_CHECKING:
    import aiohttp

    from noetl.adapters.secrets.aws_roles import AwsRoles


TIMEOUT_S: Final = 10.0
BODY_BYTES_MAX: Final = 4 * SECRET_BYTES_MAX


class SecretRequest(NamedTuple):
    """One request. `what` describes it in errors."""

    method: str
    url: str
    what: str
    headers: Mapping[str, str]
    body: bytes | None = None


class SecretReply(NamedTuple):
    status: int
    data: JSON  # None: the body is not a JSON object
    text: str = ""  # the body


class SecretServiceClient:
    """One HTTP session, opened by the first request.

    A policy restricts the addresses, because authors of playbooks may name some of them.
    """

    def __init__(self, policy: AddressPolicy | None = None) -> None:
        self._policy = policy
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: SecretRequest, timeout_s: float = TIMEOUT_S) -> SecretReply:
        """The reply with any status. Raises Unavailable if it is incomplete, NotFound for an invalid URL."""
        import aiohttp
        from yarl import URL

        try:
            url = URL(request.url, encoded=True)
        except ValueError:
            raise NotFound(f"{request.what}: its address is not a URL") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise NotFound(f"{request.what}: its address must begin with http:// or https://")
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._open().request(
                    request.method, url, headers=request.headers, data=request.body, allow_redirects=False
                ) as reply,
            ):
                body = await reply.content.read(BODY_BYTES_MAX + 1)
                while len(body) <= BODY_BYTES_MAX and (more := await reply.content.read(BODY_BYTES_MAX)):
                    body += more
        except (aiohttp.ClientError, OSError) as error:
            host = f"{url.scheme}://{url.host_port_subcomponent}"
            message = f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else "no answer"
            # Without cause and text of the error: both may contain what was sent.
            refused = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
            if isinstance(refused, PermissionError):
                raise NotFound(f"{request.what}: {refused.strerror}, which playbooks may not use") from None
            raise Unavailable(f"{request.what}: {message} from {host}") from None
        if len(body) > BODY_BYTES_MAX:
            raise Unavailable(f"{request.what}: the answer is larger than BODY_BYTES_MAX: {BODY_BYTES_MAX:,}")
        return SecretReply(reply.status, _object(body), body.decode(errors="replace"))

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            connector = aiohttp.TCPConnector(socket_factory=None if self._policy is None else self._policy.socket)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "noetl"},
                trust_env=False,
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


def _object(body: bytes) -> JSON:
    try:
        data = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def refusal(what: str, reply: SecretReply) -> NotFound | Unavailable:
    """The error for a reply without a secret, by its status alone."""
    if reply.status == 404:
        return NotFound(f"{what}: there is no such secret")
    if reply.status in (401, 403):
        return Unavailable(f"{what}: HTTP {reply.status}, access denied")
    return Unavailable(f"{what}: HTTP {reply.status} without a secret")


EARLY_S: Final = 30.0  # a token that expires sooner is not used
DEFAULT_S: Final = 300.0  # how long a token without an expiry is cached
TOKENS_MAX: Final = 1_024


class _Grant(NamedTuple):
    """The request for a token, and the key of the cache."""

    url: str
    client: Secret
    password: Secret
    scope: str


class _Cached(NamedTuple):
    fetched: FetchedCredential
    until: float  # monotonic


class OauthTokens:
    """The token cache of this process."""

    def __init__(self, sources: Sources, client: SecretServiceClient, versions: ValueVersions, clock: Clock) -> None:
        self._sources = sources
        self._client = client
        self._versions = versions
        self._clock = clock
        self._cached: dict[_Grant, _Cached] = {}
        self._locks: dict[_Grant, asyncio.Lock] = {}

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        grant = _Grant(
            await self._sources.text(credential, "token_url"),
            Secret(await self._sources.text(credential, "client_id")),
            Secret(await self._sources.text(credential, "client_secret")),
            await self._sources.text(credential, "scope", ""),
        )
        before = self._cached.get(grant)
        if len(self._locks) >= TOKENS_MAX:
            self._locks = {each: lock for each, lock in self._locks.items() if lock.locked()}
            self._cached.clear()
        async with self._locks.setdefault(grant, asyncio.Lock()):
            cached = self._cached.get(grant)
            # A caller that waited here for the request of another one gets a fresh token.
            if cached is not None and not (fresh and cached is before) and self._left_s(cached) > 0:
                return cached.fetched._replace(expires_s=self._left_s(cached))
            cached = self._cached[grant] = await self._request_token(grant)
            return cached.fetched

    def _left_s(self, cached: _Cached) -> float:
        return cached.until - self._clock.monotonic()

    async def _request_token(self, grant: _Grant) -> _Cached:
        sent_at = self._clock.monotonic()
        reply = await self._client.send(_request(grant, in_body=False))
        if _is_unknown_client(reply):  # some services accept the client in the body only
            reply = await self._client.send(_request(grant, in_body=True))
        match reply.data:
            case {"access_token": str(token), **rest} if reply.status == 200 and token:
                valid = _seconds(rest.get("expires_in"))
                lifetime_s = DEFAULT_S if valid is None else max(0.0, valid - EARLY_S)
                values = {"": Secret(token)}
                return _Cached(FetchedCredential(values, self._versions.of(values), lifetime_s), sent_at + lifetime_s)
        raise Unavailable(f"the token service {_public(grant.url)} sent no token: HTTP {reply.status}")


def _request(grant: _Grant, *, in_body: bool) -> SecretRequest:
    form = {"grant_type": "client_credentials", **({"scope": grant.scope} if grant.scope else {})}
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    client, password = grant.client.reveal(), grant.password.reveal()
    if in_body:
        form |= {"client_id": client, "client_secret": password}
    else:
        pair = f"{quote(client, safe='')}:{quote(password, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    what = f"the token service {_public(grant.url)}"
    return SecretRequest("POST", grant.url, what, headers, urlencode(form).encode())


def _is_unknown_client(reply: SecretReply) -> bool:
    error = reply.data.get("error") if isinstance(reply.data, dict) else None
    return reply.status == 401 or (reply.status == 400 and error in ("invalid_client", "invalid_request"))


def _seconds(value: object) -> float | None:
    """Some services send a string."""
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


def _public(url: str) -> str:
    """The address without user and query, which may be secret."""
    return url.partition("?")[0].rpartition("@")[2][:200]


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

    It uses AWS_REGION, and AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or a role.
    """

    def __init__(
        self, sources: Sources, client: SecretServiceClient, now: Callable[[], datetime], roles: AwsRoles
    ) -> None:
        self._sources = sources
        self._client = client
        self._now = now
        self._roles = roles

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
        found_keys = await self._roles.get(region)
        if found_keys.token is not None:
            headers["X-Amz-Security-Token"] = found_keys.token.reveal()
        keys = AwsKeys(found_keys.access, found_keys.secret, region, "secretsmanager")
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
