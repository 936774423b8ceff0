"""New tokens: `noetl_<id>_<secret>`, told once to their bearer; what is kept is the digest of that text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from noetl.clock import Clock
from noetl.errors import Rejected
from noetl.ports import ApiToken

SCOPES: Final = ("read", "run", "write", "admin")
PREFIX: Final = "noetl_"  # so that a token is known for one wherever it turns up
ID_BYTES: Final = 8
SECRET_BYTES: Final = 32
NAME_CHARS_MAX: Final = 100


def new_token(
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None,
    clock: Clock,
    random: Callable[[int], bytes],
) -> tuple[ApiToken, str]:
    """A token, and the text that its bearer is given. Raises Rejected when there can be no such token.

    `random`: so many bytes that nobody can guess.
    """
    granted, now = frozenset(scopes), clock.now()
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise Rejected("bad-name", f"a name has 1 to {NAME_CHARS_MAX} characters that can be printed")
    if not granted or not granted <= set(SCOPES):
        unknown = ", ".join(f"{scope!a:.40}" for scope in sorted(granted - set(SCOPES)))
        what = f"there is no scope {unknown}" if unknown else "a token needs a scope"
        raise Rejected("bad-scope", f"{what}: give one or more of {', '.join(SCOPES)}")
    if expires_at is not None and expires_at <= now:
        raise Rejected("bad-expiry", "a token that has expired opens nothing: let it last longer")
    id = random(ID_BYTES).hex()
    secret = base64.urlsafe_b64encode(random(SECRET_BYTES)).decode().rstrip("=")
    return ApiToken(id, name, granted, now, expires_at), f"{PREFIX}{id}_{secret}"


def digest_of(text: str) -> bytes:
    """What a token is looked up by. No two texts that could be tokens have the same."""
    return hashlib.sha256(text.encode(errors="replace")).digest()
