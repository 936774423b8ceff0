"""Roles: sets of scopes that are limited to paths of playbooks and to pools.

A path of a role is `orders/import` (this path), `orders/*` (every path that begins with `orders/`), or `*` (all).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from noetl.errors import Rejected
from noetl.ports import RoleGrant

ALL: Final = "*"
GRANTS_MAX: Final = 20  # of one token
PATTERNS_MAX: Final = 50  # of one grant
PATTERN_CHARS_MAX: Final = 1_000

INCLUDES: Final[dict[str, frozenset[str]]] = {  # scope → the scopes that it includes
    "read": frozenset({"read"}),
    "run": frozenset({"run", "read"}),
    "write": frozenset({"write", "read"}),
    "admin": frozenset({"admin", "write", "run", "read"}),
}
ROLES: Final[dict[str, frozenset[str]]] = {  # role → its scopes
    "viewer": frozenset({"read"}),
    "operator": frozenset({"run"}),
    "author": frozenset({"run", "write"}),
    "admin": frozenset({"admin"}),
}


def permits(scopes: Iterable[str], scope: str) -> bool:
    return any(scope in INCLUDES.get(each, ()) for each in scopes)


def scopes_of(roles: Iterable[RoleGrant]) -> frozenset[str]:
    return frozenset(scope for each in roles for scope in ROLES.get(each.role, ()))


def matches(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern


def matches_any(patterns: Iterable[str], path: str) -> bool:
    return any(matches(each, path) for each in patterns)


def covers(patterns: Sequence[str], other: str) -> bool:
    """Whether the patterns match everything that the other pattern matches."""
    if other.endswith("*"):
        return any(each.endswith("*") and other[:-1].startswith(each[:-1]) for each in patterns)
    return matches_any(patterns, other)


def check_roles(roles: Sequence[RoleGrant]) -> None:
    """Raises Rejected if a role, a path or a pool cannot be granted."""
    if len(roles) > GRANTS_MAX:
        raise Rejected("bad-role", f"a token has at most {GRANTS_MAX} roles")
    for grant in roles:
        if grant.role not in ROLES:
            raise Rejected("bad-role", f"unknown role {grant.role!a:.40}: use one of {', '.join(ROLES)}")
        for name, patterns in (("path", grant.paths), ("pool", grant.pools)):
            if not 0 < len(patterns) <= PATTERNS_MAX:
                raise Rejected("bad-role", f"a role has 1 to {PATTERNS_MAX} {name}s; `*` stands for all")
            for pattern in patterns:
                if not _is_pattern(pattern, prefix=name == "path"):
                    hint = "write orders/import, orders/* or *" if name == "path" else "write the name of a pool or *"
                    raise Rejected("bad-role", f"the {name} {pattern!a:.80} cannot be granted: {hint}")


def _is_pattern(pattern: str, *, prefix: bool) -> bool:
    """`*` is only allowed alone and, in a path, after the last slash: `ord*` would also match `ordinary`."""
    if pattern == ALL:
        return True
    name = pattern.removesuffix("/*") if prefix else pattern
    return 0 < len(name) <= PATTERN_CHARS_MAX and name.isprintable() and "*" not in name
