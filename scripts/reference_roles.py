"""The table of roles in SECURITY.md, from the options of the routes that the server enforces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from noetl.control.roles import ROLES, permits
from noetl.server.access import LIMITS
from scripts import reference_api

SECURITY: Final = Path(__file__).parents[1] / "SECURITY.md"
BEGIN: Final = "<!-- Roles: written by scripts/reference.py from the routes of the server; do not edit. -->"
END: Final = "<!-- End of roles. -->"


def table() -> str:
    """Role × request. Requests that need the same scope and have the same limit are one row."""
    found: dict[tuple[str, str], list[str]] = {}
    described = reference_api.described()
    for route in reference_api.routes():
        key = route.method, route.path
        if described.scopes[key] != "public":
            limit = described.limits[key]
            found.setdefault((described.scopes[key], limit), []).append(_request(*key))
    return "\n".join(_lines(found))


def _request(method: str, path: str) -> str:
    return f"`{method.upper()} {path}`"


def _lines(found: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    yield f"| requests | {' | '.join(ROLES)} | limited by |"
    yield f"|---|{'---|' * len(ROLES)}---|"
    scopes = ("read", "run", "write", "admin")
    for (scope, limit), requests in sorted(found.items(), key=lambda each: (scopes.index(each[0][0]), each[0][1])):
        cells = ["yes" if permits(ROLES[role], scope) else "–" for role in ROLES]
        yield f"| {', '.join(requests)} | {' | '.join(cells)} | {LIMITS[limit]} |"


def current() -> str:
    """SECURITY.md with the current table."""
    text = SECURITY.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, "SECURITY.md has no place for the table of roles"
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"
