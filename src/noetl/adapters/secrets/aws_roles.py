"""The AWS keys of this process: those of the environment, or temporary ones of a role.

The order is that of the AWS tools: variables, web identity (EKS), the container (ECS, EKS), the machine (EC2).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

from noetl.adapters.secrets.services import SecretReply, SecretRequest, SecretServiceClient
from noetl.adapters.secrets.sources import Sources
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.secret import Secret

EARLY: Final = timedelta(minutes=5)  # keys that expire sooner are not used
MACHINE_S: Final = 2.0  # a machine of AWS answers at once; others do not answer at all
CONTAINER: Final = "http://169.254.170.2"
MACHINE: Final = "http://169.254.169.254"
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


class AwsCredential(NamedTuple):
    access: str
    secret: Secret
    token: Secret | None = None  # of temporary keys
    expires_at: datetime | None = None  # None: never


class AwsRoles:
    """Finds the keys, and caches temporary ones until they expire."""

    def __init__(self, sources: Sources, client: SecretServiceClient, now: Callable[[], datetime]) -> None:
        self._sources = sources
        self._client = client
        self._now = now
        self._cached: AwsCredential | None = None

    async def get(self, region: str) -> AwsCredential:
        """Raises NotFound or Unavailable."""
        variables = self._sources.environment
        if variables.get("AWS_ACCESS_KEY_ID"):
            token = variables.get("AWS_SESSION_TOKEN")
            secret = self._sources.own("AWS_SECRET_ACCESS_KEY")
            return AwsCredential(variables["AWS_ACCESS_KEY_ID"], secret, Secret(token) if token else None)
        cached = self._cached
        if cached is None or (cached.expires_at is not None and cached.expires_at - self._now() < EARLY):
            cached = self._cached = await self._fetch(region)
        return cached

    async def _fetch(self, region: str) -> AwsCredential:
        variables = self._sources.environment
        if variables.get("AWS_WEB_IDENTITY_TOKEN_FILE") and variables.get("AWS_ROLE_ARN"):
            return await self._web_identity(region)
        full, relative = (variables.get(f"AWS_CONTAINER_CREDENTIALS_{each}_URI") for each in ("FULL", "RELATIVE"))
        if full or relative:
            return await self._container(full or f"{CONTAINER}{relative}")
        if variables.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true":
            return await self._machine()
        raise NotFound('the environment variable "AWS_ACCESS_KEY_ID" is not set, and there is no role')

    async def _web_identity(self, region: str) -> AwsCredential:
        variables = self._sources.environment
        what = "the role of the web identity"
        address = variables.get("AWS_ENDPOINT_URL_STS") or variables.get("AWS_ENDPOINT_URL")
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": variables["AWS_ROLE_ARN"],
            "RoleSessionName": variables.get("AWS_ROLE_SESSION_NAME") or "noetl",
            "WebIdentityToken": _content(variables["AWS_WEB_IDENTITY_TOKEN_FILE"], what),
        }
        url = f"{(address or f'https://sts.{region}.amazonaws.com').rstrip('/')}/"
        reply = await self._client.send(SecretRequest("POST", url, what, _FORM, urlencode(form).encode()))
        match reply.data:
            case {"AssumeRoleWithWebIdentityResponse": {"AssumeRoleWithWebIdentityResult": {"Credentials": found}}}:
                return _credential(found, what, "SessionToken")
        raise Unavailable(f"{what}: HTTP {reply.status} without keys")

    async def _container(self, url: str) -> AwsCredential:
        variables, what = self._sources.environment, "the role of the container"
        file = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = _content(file, what) if file else variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        headers = {"Authorization": token} if token else {}
        return _credential((await self._client.send(SecretRequest("GET", url, what, headers))).data, what)

    async def _machine(self) -> AwsCredential:
        """By version 2 of the metadata service, which needs a token."""
        at = self._sources.environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", MACHINE).rstrip("/")
        what, base = "the role of the machine", f"{at}/latest/meta-data/iam/security-credentials/"
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        try:
            session = await self._ask(SecretRequest("PUT", f"{at}/latest/api/token", what, lifetime))
        except Unavailable:
            message = 'the environment variable "AWS_ACCESS_KEY_ID" is not set, and this machine has no role'
            raise NotFound(message) from None
        headers = {"X-aws-ec2-metadata-token": session.text.strip()}
        named = await self._ask(SecretRequest("GET", base, what, headers))
        role = named.text.strip().partition("\n")[0]
        if named.status != 200 or not role:
            raise NotFound(f"{what}: the machine has none")
        return _credential((await self._ask(SecretRequest("GET", f"{base}{role}", what, headers))).data, what)

    async def _ask(self, request: SecretRequest) -> SecretReply:
        return await self._client.send(request, timeout_s=MACHINE_S)


def _credential(found: JSON, what: str, token: str = "Token") -> AwsCredential:  # the name of a field
    match found:
        case {"AccessKeyId": str(access), "SecretAccessKey": str(secret), **rest}:
            session = rest.get(token)
            kept = Secret(session) if isinstance(session, str) and session else None
            return AwsCredential(access, Secret(secret), kept, _instant(rest.get("Expiration")))
    raise Unavailable(f"{what}: the answer has no keys")


def _instant(value: JSON) -> datetime | None:
    """Services send text or seconds."""
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        found = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _content(path: str, what: str) -> str:
    """A file that AWS has mounted. Raises Unavailable."""
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise Unavailable(f'{what}: the file "{path}" cannot be read') from error
