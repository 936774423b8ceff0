"""Sign-in with an OpenID Connect provider: the authorization code flow with PKCE, for any provider with discovery.

Everything that the provider and the browser send is checked here. Codes, tokens and secrets are never logged.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from noetl.addresses import is_loopback_host
from noetl.clock import Clock
from noetl.control.api_tokens import NAME_CHARS_MAX
from noetl.defaults import OIDC_GROUPS_CLAIM, OIDC_SCOPES
from noetl.ports import RoleGrant
from noetl.secret import Secret
from noetl.server.auth import PERSON

if TYPE_CHECKING:
    import aiohttp
    from joserfc.jwk import KeySet

CALLBACK: Final = "/session/oidc/callback"
ATTEMPT_S: Final = 600.0  # from the start of a sign-in to its end
REQUEST_S: Final = 10.0  # for one request to the provider
RESPONSE_BYTES_MAX: Final = 1 << 20
CACHED_S: Final = 3_600.0  # for the addresses and the keys of the provider
KEYS_S: Final = 60.0  # between two requests for keys because of an unknown key
EXCHANGES_MAX: Final = 32  # sign-ins at once that wait for the provider
LEEWAY_S: Final = 60  # by which the clocks may differ
SUBJECT_CHARS_MAX: Final = 255
PAGE_CHARS_MAX: Final = 500
EVERYONE: Final = "*"  # the group of everyone whom the provider signs in

# Only signatures with a public key: a provider's public key must never count as the key of an HMAC.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_HEADER_BYTES_MAX: Final = 16 << 10  # some providers send a chain of certificates
_NAMES: Final = ("preferred_username", "email", "name", "sub")  # the first one is the name in the log
_PAGE: Final = re.compile(r"/ui(/[\w\-.~%!$&'()*+,;=:@/]*)?(\?[\w\-.~%!$&'()*+,;=:@/?]*)?", re.ASCII)
_HOME: Final = "/ui/"
_SECRET: Final = re.compile(r"[\w-]{43}", re.ASCII)
_ERROR: Final = re.compile(r"[a-z_]{1,40}")

T = TypeVar("T")


class OidcSettings(NamedTuple):
    issuer: str  # https://…, as the provider states it
    client_id: str
    client_secret: Secret | None  # None: a public client, which PKCE alone protects
    public_url: str  # of this server, without a path
    roles: Mapping[str, tuple[RoleGrant, ...]]  # by group; `*`: everyone
    scopes: str = OIDC_SCOPES
    groups_claim: str = OIDC_GROUPS_CLAIM  # a name, or a path such as `realm_access.roles`

    @property
    def redirect_uri(self) -> str:
        return self.public_url + CALLBACK

    @property
    def label(self) -> str:
        """The name of the provider on the sign-in page."""
        return urlsplit(self.issuer).hostname or self.issuer


class SignInRefused(Exception):
    """Why a sign-in ends without a session. The reason is for the process log and contains no values of tokens."""

    def __init__(self, code: str, reason: str, person: Person | None = None) -> None:
        super().__init__(reason)
        self.code = code  # state, denied, provider, identity, no-role, busy
        self.person = person  # None: not known


class Person(NamedTuple):
    """Who has signed in."""

    user: str  # oidc:SUBJECT
    name: str
    roles: tuple[RoleGrant, ...]


class SignInAttempt(NamedTuple):
    """One sign-in of one browser. Its cookie keeps the secret; state, nonce and PKCE verifier are derived from it."""

    secret: str
    page: str  # of the UI, to be shown afterwards

    @staticmethod
    def begin(page: str) -> SignInAttempt:
        return SignInAttempt(_encode(os.urandom(32)), own_page(page))

    @staticmethod
    def of_cookie(value: str | None) -> SignInAttempt | None:
        secret, _, page = (value or "").partition(".")
        if not _SECRET.fullmatch(secret):
            return None
        try:
            text = base64.urlsafe_b64decode(page + "=" * (-len(page) % 4)).decode()
        except ValueError:
            text = _HOME
        return SignInAttempt(secret, own_page(text))

    @property
    def cookie(self) -> str:
        return f"{self.secret}.{_encode(self.page.encode())}"

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        return _encode(hashlib.sha256(self.verifier.encode()).digest())

    def _derived(self, purpose: str) -> str:
        return _encode(hmac.digest(self.secret.encode(), purpose.encode(), "sha256"))

    def __repr__(self) -> str:
        return "SignInAttempt(***)"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def own_page(path: str) -> str:
    """A page of the UI; any other address becomes its first page, so that no link leads from here to another site."""
    return path if len(path) <= PAGE_CHARS_MAX and _PAGE.fullmatch(path) else _HOME


class Metadata(Struct, frozen=True, kw_only=True):
    """The parts that we use of the discovery document."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Tokens(Struct, frozen=True, kw_only=True):
    """The parts that we use of the response of the token endpoint."""

    id_token: str
    access_token: str = ""

    def __repr__(self) -> str:
        return "Tokens(***)"


class OidcProvider:
    """The provider of one server, with its addresses and keys, which are cached."""

    def __init__(self, settings: OidcSettings, clock: Clock, request_s: float = REQUEST_S) -> None:
        """`request_s`: the limit of one request to the provider, including its whole response."""
        self.settings = settings
        self._request_s = request_s
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._exchanges = 0

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def authorization_url(self, attempt: SignInAttempt) -> str:
        """Where the browser goes. Raises SignInRefused."""
        endpoint = (await self.metadata()).authorization_endpoint
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.settings.client_id,
                "redirect_uri": self.settings.redirect_uri,
                "scope": self.settings.scopes,
                "state": attempt.state,
                "nonce": attempt.nonce,
                "code_challenge": attempt.challenge,
                "code_challenge_method": "S256",
            }
        )
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    async def finish(self, attempt: SignInAttempt | None, answer: Mapping[str, str]) -> Person:
        """The person whom the provider has signed in. `answer`: the query of the callback. Raises SignInRefused."""
        # The state comes first: without it the answer belongs to a sign-in of somebody else.
        if attempt is None or not hmac.compare_digest(attempt.state.encode(), answer.get("state", "").encode()):
            raise SignInRefused("state", "the state does not belong to a sign-in of this browser")
        if "error" in answer:
            error = answer["error"] if _ERROR.fullmatch(answer["error"]) else "an error"
            raise SignInRefused("denied", f"the provider answered {error}")
        if not answer.get("code"):
            raise SignInRefused("provider", "the provider sent no code")
        if self._exchanges >= EXCHANGES_MAX:
            raise SignInRefused("busy", f"{EXCHANGES_MAX} sign-ins wait for the provider")
        self._exchanges += 1
        try:
            metadata = await self.metadata()
            if answer.get("iss", metadata.issuer) != metadata.issuer:
                raise SignInRefused("identity", "the answer comes from another provider")
            tokens = await self._exchange(metadata, answer["code"], attempt.verifier)
            claims = await self._verified(metadata, tokens.id_token, attempt.nonce)
            if find_claim(claims, self.settings.groups_claim) is None and metadata.userinfo_endpoint:
                claims = {**await self._userinfo(metadata, tokens.access_token, claims["sub"]), **claims}
        finally:
            self._exchanges -= 1
        return self._person(claims)

    def _person(self, claims: Mapping[str, Any]) -> Person:
        names = (str(claims.get(each) or "")[:NAME_CHARS_MAX].strip() for each in _NAMES)
        name = next((each for each in names if each and each.isprintable()), None)
        if name is None:  # not even a subject without blanks
            raise SignInRefused("identity", "the ID token has no usable name")
        groups = groups_of(find_claim(claims, self.settings.groups_claim))
        person = Person(PERSON + claims["sub"], name, roles_for(groups, self.settings.roles))
        if not person.roles:
            raise SignInRefused("no-role", "no group of this person has a role", person)
        return person

    # Requests to the provider

    async def metadata(self) -> Metadata:
        """The discovery document. Raises SignInRefused."""
        now = self._clock.monotonic()
        if self._metadata is None or now - self._metadata[0] >= CACHED_S:
            url = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await self._ask("GET", url, Metadata)
            if found.issuer.rstrip("/") != self.settings.issuer.rstrip("/"):
                raise SignInRefused("provider", "the discovery document names another issuer")
            endpoints = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri, found.userinfo_endpoint)
            if not all(is_protected(each) for each in endpoints if each):
                raise SignInRefused("provider", "the discovery document names an address without https")
            self._metadata = now, found
        return self._metadata[1]

    async def keys(self, metadata: Metadata, *, fresh: bool = False) -> KeySet:
        """The keys for signatures. `fresh`: one is unknown, the provider may have changed them."""
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        now = self._clock.monotonic()
        age_s = None if self._keys is None else now - self._keys[0]
        if self._keys is None or age_s is None or age_s >= (KEYS_S if fresh else CACHED_S):
            found = await self._ask("GET", metadata.jwks_uri, _KeyDocument)
            public = [each for each in found.keys if each.get("kty") != "oct"]
            try:
                self._keys = now, KeySet.import_key_set({"keys": public})
            except (JoseError, ValueError, TypeError, KeyError) as error:
                raise SignInRefused("provider", "the provider has no usable keys") from error
        return self._keys[1]

    async def _exchange(self, metadata: Metadata, code: str, verifier: str) -> Tokens:
        client_id, secret = self.settings.client_id, self.settings.client_secret
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.redirect_uri,
            "code_verifier": verifier,
        }
        headers = {}
        if secret is None:
            form["client_id"] = client_id
        elif "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = f"{quote(client_id, safe='')}:{quote(secret.reveal(), safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": client_id, "client_secret": secret.reveal()}
        return await self._ask("POST", metadata.token_endpoint, Tokens, form=form, headers=headers)

    async def _userinfo(self, metadata: Metadata, access_token: str, subject: str) -> dict[str, Any]:
        """More claims: a provider may leave groups out of the ID token."""
        headers = {"Authorization": f"Bearer {access_token}"}
        found = await self._ask("GET", metadata.userinfo_endpoint, dict[str, Any], headers=headers)
        if found.get("sub") != subject:
            raise SignInRefused("identity", "the user info belongs to another person")
        return found

    async def _ask(
        self,
        method: str,
        url: str,
        kind: type[T],
        *,
        form: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> T:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._request_s))
        what = f"{method} {urlsplit(url)._replace(query='').geturl()}"
        sent = {"Accept": "application/json", **(headers or {})}
        try:
            async with self._session.request(method, url, data=form, headers=sent, allow_redirects=False) as response:
                body = b""
                async for piece in response.content.iter_chunked(64 << 10):
                    body += piece
                    if len(body) > RESPONSE_BYTES_MAX:
                        raise SignInRefused("provider", f"{what}: the response is too large")
                if response.status != 200:
                    raise SignInRefused("provider", f"{what}: {response.status}{_error_name(body)}")
            return msgspec.json.decode(body, type=kind)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SignInRefused("provider", f"{what}: {type(error).__name__}") from error
        except msgspec.MsgspecError as error:
            raise SignInRefused("provider", f"{what}: the response is not the expected JSON") from error

    # The ID token

    async def _verified(self, metadata: Metadata, id_token: str, nonce: str) -> dict[str, Any]:
        from joserfc.errors import InvalidKeyIdError

        now = int(self._clock.now().timestamp())
        expected = Expected(metadata.issuer, self.settings.client_id, nonce, now)
        try:
            return verified_claims(id_token, await self.keys(metadata), expected)
        except InvalidKeyIdError:
            try:
                return verified_claims(id_token, await self.keys(metadata, fresh=True), expected)
            except InvalidKeyIdError as error:
                raise SignInRefused("identity", "the ID token is signed with an unknown key") from error


class _KeyDocument(Struct, frozen=True):
    keys: list[dict[str, Any]]


class Expected(NamedTuple):
    """What an ID token must state."""

    issuer: str
    client_id: str
    nonce: str
    now: int  # seconds since 1970


def verified_claims(id_token: str, keys: KeySet, expected: Expected) -> dict[str, Any]:
    """The claims of an ID token: OpenID Connect Core 3.1.3.7. Raises SignInRefused, or InvalidKeyIdError."""
    from joserfc import jwt
    from joserfc.errors import ClaimError, InvalidKeyIdError, JoseError
    from joserfc.jws import JWSRegistry

    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    registry.max_header_length = _HEADER_BYTES_MAX
    checks = jwt.JWTClaimsRegistry(
        now=expected.now,
        leeway=LEEWAY_S,
        iss={"essential": True, "value": expected.issuer},
        aud={"essential": True, "value": expected.client_id},
        exp={"essential": True},
        iat={"essential": True},
        sub={"essential": True},
        nonce={"essential": True, "value": expected.nonce},
    )
    try:
        claims = jwt.decode(id_token, keys, algorithms=ALGORITHMS, registry=registry).claims
        checks.validate(claims)
    except InvalidKeyIdError:
        raise
    except (JoseError, ValueError, TypeError, KeyError) as error:
        # The class alone: messages may repeat parts of the token.
        name = f" ({error.claim})" if isinstance(error, ClaimError) else ""
        raise SignInRefused("identity", f"the ID token is not valid: {type(error).__name__}{name}") from error
    audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    authorized = claims.get("azp")
    if authorized != expected.client_id and (authorized is not None or len(audience) > 1):
        raise SignInRefused("identity", "the ID token is for another client")
    subject = claims["sub"]
    if not isinstance(claims["nonce"], str) or not 0 < len(subject) <= SUBJECT_CHARS_MAX or not subject.isprintable():
        raise SignInRefused("identity", "the ID token has no usable subject")
    return claims


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim with this name, or at this path: `realm_access.roles`. None: there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    return found


def groups_of(claim: Any) -> list[str]:
    """Providers send a list, or the only group as text."""
    found = claim if isinstance(claim, list) else [claim]
    return [each for each in found if isinstance(each, str)]


def roles_for(groups: Iterable[str], roles: Mapping[str, tuple[RoleGrant, ...]]) -> tuple[RoleGrant, ...]:
    """All roles of these groups, each once. `*` in the claim names no group."""
    known = [EVERYONE, *(each for each in groups if each != EVERYONE)]
    return tuple(dict.fromkeys(role for group in known for role in roles.get(group, ())))


def is_protected(url: str) -> bool:
    """Whether other machines cannot read a request: https, or this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host)))


def _error_name(body: bytes) -> str:
    """The stable name of an error that the provider states, such as invalid_grant."""
    try:
        error = msgspec.json.decode(body, type=dict[str, Any]).get("error")
    except msgspec.MsgspecError:
        return ""
    return f" {error}" if isinstance(error, str) and _ERROR.fullmatch(error) else ""
