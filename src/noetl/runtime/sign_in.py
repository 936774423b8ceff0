"""The settings of sign-in, checked: the address of the server, the OpenID Connect provider, and the roles of groups."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from noetl.control.roles import check_roles
from noetl.errors import Rejected
from noetl.ports import RoleGrant
from noetl.runtime.settings import (
    OIDC_CLIENT_ID,
    OIDC_ISSUER,
    OIDC_ROLES,
    OIDC_SECRET,
    OIDC_SECRET_FILE,
    PUBLIC_URL,
    Settings,
)
from noetl.secret import Secret
from noetl.server.oidc import OidcSettings, is_protected
from noetl.telemetry.logs import redaction

FILE_BYTES_MAX: Final = 1 << 20
GROUPS_MAX: Final = 1_000
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


def public_url(settings: Settings) -> str:
    """As browsers state it in the header Origin; "": not set. Raises Rejected."""
    if not settings.public_url:
        return ""
    try:
        parts = urlsplit(settings.public_url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in _DEFAULT_PORTS or parts.path not in ("", "/") or parts.query or parts.username:
        raise _bad(f"{PUBLIC_URL} must be an address without a path, such as https://noetl.example.com")
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + ("" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}")


def oidc_settings(settings: Settings) -> OidcSettings | None:
    """None: no provider is set. Raises Rejected when settings are missing, wrong or contradict each other."""
    required = {
        OIDC_ISSUER: settings.oidc_issuer,
        OIDC_CLIENT_ID: settings.oidc_client_id,
        OIDC_ROLES: settings.oidc_roles,
    }
    given = (*required.values(), settings.oidc_client_secret, settings.oidc_client_secret_file)
    if not any(given):
        return None
    missing = [name for name, value in {**required, PUBLIC_URL: settings.public_url}.items() if not value]
    if missing:
        raise _bad(f"sign-in with OpenID Connect also needs {' and '.join(missing)}")
    own = public_url(settings)
    for name, url in ((OIDC_ISSUER, settings.oidc_issuer), (PUBLIC_URL, own)):
        if not is_protected(url):
            raise _bad(f"{name} must begin with https://; http:// is only for localhost")
    if urlsplit(settings.oidc_issuer).query or urlsplit(settings.oidc_issuer).fragment:
        raise _bad(f"{OIDC_ISSUER} must be the issuer itself, without a query; NoETL adds /.well-known/…")
    if "openid" not in settings.oidc_scopes.split():
        raise _bad("NOETL_OIDC_SCOPES must contain openid")
    return OidcSettings(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=_client_secret(settings),
        public_url=own,
        roles=group_roles(settings.oidc_roles),
        scopes=" ".join(settings.oidc_scopes.split()),
        groups_claim=settings.oidc_groups_claim,
    )


def _client_secret(settings: Settings) -> Secret | None:
    value, file = settings.oidc_client_secret, settings.oidc_client_secret_file
    if value and file:
        raise _bad(f"set either {OIDC_SECRET} or {OIDC_SECRET_FILE}, not both")
    if file:
        value = _read(OIDC_SECRET_FILE, file).strip()
        if not value:
            raise _bad(f"the file in {OIDC_SECRET_FILE} is empty")
    if not value:
        return None
    redaction.hide(value)
    return Secret(value)


def group_roles(text: str) -> dict[str, tuple[RoleGrant, ...]]:
    """The value of NOETL_OIDC_ROLES. Raises Rejected."""
    content = text if text.lstrip().startswith("{") else _read(OIDC_ROLES, text)
    example = 'write {"GROUP": [{"role": "operator", "paths": ["orders/*"]}]}'
    try:
        found = msgspec.json.decode(content, type=dict[str, tuple[RoleGrant, ...]])
    except msgspec.MsgspecError as error:
        raise _bad(f"{OIDC_ROLES} cannot be read: {error}; {example}") from error
    if not found or len(found) > GROUPS_MAX or not all(found.values()):
        raise _bad(f"{OIDC_ROLES} needs 1 to {GROUPS_MAX:,} groups with a role each: {example}")
    for group, roles in found.items():
        try:
            check_roles(roles)
        except Rejected as error:
            raise _bad(f'{OIDC_ROLES}, group "{group}": {str(error).partition(": ")[2]}') from error
    return found


def _read(name: str, file: str) -> str:
    try:
        with Path(file).expanduser().open("rb") as opened:
            return opened.read(FILE_BYTES_MAX).decode()
    except OSError as error:
        raise _bad(f"the file in {name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _bad(f"the file in {name} is not text") from error


def _bad(reason: str) -> Rejected:
    return Rejected("bad-setting", reason)
