"""New API tokens: `noetl_<id>_<secret>`. The text is shown once; only its digest is stored."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from noetl.clock import Clock
from noetl.control.roles import check_roles, scopes_of
from noetl.errors import Rejected
from noetl.ports import ApiToken, RoleGrant

SCOPES: Final = ("read", "run", "write", "admin")
PREFIX: Final = "noetl_"  # so that secret scanners and people recognise a token
ID_BYTES: Final = 8
SECRET_BYTES: Final = 32
NAME_CHARS_MAX: Final = 100


def new_token(
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None,
    clock: Clock,
    random: Callable[[int], bytes],
    *,
    roles: Sequence[RoleGrant] = (),
) -> tuple[ApiToken, str]:
    """A token and the text for its holder. Raises Rejected for a bad name, scope, role or expiry.

    `random`: a cryptographically secure source of this many bytes. A token has either scopes or roles.
    """
    granted, now = frozenset(scopes), clock.now()
    if roles:
        check_roles(roles)
        if granted:
            raise Rejected("bad-role", "a token has either scopes or roles, not both")
        granted = scopes_of(roles)
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise Rejected("bad-name", f"a token name has 1 to {NAME_CHARS_MAX} printable characters")
    if not granted or not granted <= set(SCOPES):
        unknown = ", ".join(f"{scope!a:.40}" for scope in sorted(granted - set(SCOPES)))
        reason = f"unknown scope {unknown}" if unknown else "a token needs a scope or a role"
        raise Rejected("bad-scope", f"{reason}: use one or more of {', '.join(SCOPES)}")
    if expires_at is not None and expires_at <= now:
        raise Rejected("bad-expiry", "the expiry is in the past: choose a later one")
    id = random(ID_BYTES).hex()
    secret = base64.urlsafe_b64encode(random(SECRET_BYTES)).decode().rstrip("=")
    return ApiToken(id, name, granted, now, expires_at, tuple(roles)), f"{PREFIX}{id}_{secret}"


def digest_of(text: str) -> bytes:
    """The key under which a token is stored."""
    return hashlib.sha256(text.encode(errors="replace")).digest()


def rights_of(token: ApiToken) -> str:
    """`operator orders/* (pools default)`, or the scopes of a token without roles."""
    if not token.roles:
        return " ".join(scope for scope in SCOPES if scope in token.scopes)
    return "; ".join(
        f"{each.role} {' '.join(each.paths)}" + ("" if "*" in each.pools else f" (pools {' '.join(each.pools)})")
        for each in token.roles
    )
