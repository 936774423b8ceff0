"""The table of roles in SECURITY.md, from the options of the routes that the server enforces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from noetl.control.roles import ROLES, permits
from noetl.server.access import LIMITS
from noetl.server.auth import PUBLIC, SCOPE
from noetl.server.routes import agents
from scripts import reference_api

SECURITY: Final = Path(__file__).parents[1] / "SECURITY.md"
BEGIN: Final = "<!-- Roles: written by scripts/reference.py from the routes of the server; do not edit. -->"
_IMPLIED: Final = ("head", "options")
_AGENTS: Final = "each call of a tool becomes requests of this table, with the rights of the caller"
END: Final = "<!-- End of roles. -->"


def table() -> str:
    """Role × request. Requests that need the same scope and have the same limit are one row."""
    found: dict[tuple[str, str], list[str]] = {}
    described = reference_api.described()
    keys = [(route.method, route.path) for route in reference_api.routes()]
    for key in keys + sorted(key for key in described.scopes if key not in keys and key[0] not in _IMPLIED):
        row = described.scopes[key], described.limits[key]
        if key in described.unverified:
            found.setdefault((described.unverified[key], row[1]), []).append(f"{_request(*key)} without `verify`")
        elif row[0] != PUBLIC:
            found.setdefault(row, []).append(_request(*key))
    return "\n".join([*_lines(found), _row(f"`{agents.PATH}`", agents.agents.opt[SCOPE], _AGENTS)])


def _request(method: str, path: str) -> str:
    return f"`{method.upper()} {path}`"


def _lines(found: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    yield f"| requests | {' | '.join(ROLES)} | limited by |"
    yield f"|---|{'---|' * len(ROLES)}---|"
    scopes = ("read", "run", "write", "admin")
    for (scope, limit), requests in sorted(found.items(), key=lambda each: (scopes.index(each[0][0]), each[0][1])):
        yield _row(", ".join(requests), scope, LIMITS[limit])


def _row(requests: str, scope: str, limit: str) -> str:
    cells = ["yes" if permits(ROLES[role], scope) else "–" for role in ROLES]
    return f"| {requests} | {' | '.join(cells)} | {limit} |"


def current() -> str:
    """SECURITY.md with the current table."""
    text = SECURITY.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, "SECURITY.md has no place for the table of roles"
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"
