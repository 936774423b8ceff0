"""What a result looks like in the public engine, written as expressions over our output (§3, §13).

`output` is one of `output`, the name of a task in the same pipeline, or another base path.
"""

from __future__ import annotations

from typing import NamedTuple

SQL = frozenset({"postgres", "duckdb", "sqlite", "snowflake", "ducklake"})
_WRAPPERS = ("data", "result", "results")


class ShapeRead(NamedTuple):
    """How a path below a result is read: an expression, and how many parts of the path it replaces."""

    text: str
    parts: int
    guessed: bool = False


def rows(base: str) -> str:
    return f"({base}.data | default([], true))"


def _status(base: str) -> str:
    return f"('success' if {base}.status == 'ok' else 'error')"


def fields(kind: str, base: str) -> dict[str, str]:
    """The parts of a result of this kind; empty if the result is the data itself."""
    error = {"error": f"{base}.error"}
    if kind == "http":
        return {
            "status_code": f"{base}.http.status",
            "headers": f"{base}.http.headers",
            "url": f"{base}.http.url",
            "data": f"{base}.data",
            "body": f"{base}.data",
            "result": f"{base}.data",
            "status": _status(base),
            **error,
        }
    if kind in SQL:
        count = f"{rows(base)} | length"
        return {"rows": rows(base), "row_count": f"({count})", "status": _status(base), **error}
    if kind == "playbook":
        return {
            "status": f"('COMPLETED' if {base}.status == 'ok' else 'FAILED')",
            "completed": f"({base}.status == 'ok')",
            "failed": f"({base}.status == 'error')",
            "result": f"{base}.data",
            **error,
        }
    if kind == "shell":
        return {
            "returncode": f"{base}.shell.exit_code",
            "exit_code": f"{base}.shell.exit_code",
            "stdout": f"{base}.data",
            "stderr": f"{base}.shell.stderr",
            "status": _status(base),
            **error,
        }
    if kind == "container":
        return {
            "status": f"('completed' if {base}.status == 'ok' else 'failed')",
            "exit_code": f"{base}.container.exit_code",
            "output": f"{base}.data",
            "stdout": f"{base}.data",
            "logs": f"{base}.data",
            "job_name": f"{base}.container.name",
            **error,
        }
    if kind == "loop":
        stats = f"{{'total': {base}.meta.count, 'success': {base}.meta.succeeded, 'failed': {base}.meta.failed}}"
        return {"results": f"{base}.data", "data": f"{base}.data", "stats": stats}
    return {}


_FULL = {
    "http": ("status_code", "headers", "url", "data", "body"),
    "playbook": ("status", "completed", "failed", "result"),
    "shell": ("returncode", "stdout", "stderr"),
    "container": ("status", "exit_code", "output", "job_name"),
    "loop": ("results", "data", "stats"),
}


def whole(kind: str, base: str, asked: frozenset[str] = frozenset(), last: int = 0) -> str:
    """A result as a mapping. `asked` are the parts that are read; empty: all of them."""
    known = fields(kind, base)
    if not known:
        return f"{base}.data"
    if kind in SQL:
        body = f"'rows': {rows(base)}, 'row_count': {rows(base)} | length"
        inner = f"{{'status': 'success', {body}}}"
        if not asked:
            return f"{{'status': 'success', {body}, 'command_{last}': {inner}}}"
        made = [f"'{part}': {known[part]}" for part in known if part in asked]
        made += [f"'{part}': {inner}" for part in sorted(asked) if part.startswith("command_")]
        return "{" + ", ".join(made) + "}" if made else f"{{'rows': {rows(base)}}}"
    names = [part for part in known if part in asked] if asked else list(_FULL[kind])
    return "{" + ", ".join(f"'{part}': {known[part]}" for part in names) + "}"


def _wrapped(path: tuple[str, ...], known: dict[str, str]) -> int:
    """How many parts before a field of a SQL result name envelopes: `data.result.command_0` has two."""
    skip = 0
    while len(path) > skip and path[skip] in _WRAPPERS:
        skip += 1
    return skip if len(path) > skip and (path[skip] in known or path[skip].startswith("command_")) else 0


def _dropped(path: tuple[str, ...], keys: set[str] | None) -> int:
    """How many parts before a key that the result has name envelopes: `data.result.command_0` has two."""
    skip = 0
    while len(path) > skip and path[skip] in ("data", "result", "context") and path[skip] not in (keys or ()):
        skip += 1
    return skip if len(path) > skip and keys is not None and path[skip] in keys else min(skip, 1)


def _enveloped(first: str | None, keys: set[str] | None) -> bool:
    """Code may return `{status, data}`, whose `data` the public engine reads by the name of the step."""
    return first is not None and keys is not None and {"status", "data"} <= keys and first not in keys


def is_counted(kind: str, path: tuple[str, ...]) -> bool:
    """Is this the result of a statement, of which a filter for lists can only mean the rows?

    As a mapping it would always have the same length.
    """
    rest = path[next((skip for skip, part in enumerate(path) if part not in _WRAPPERS), len(path)) :]
    return kind in SQL and (not rest or (len(rest) == 1 and rest[0].startswith("command_")))


def read(kind: str, base: str, path: tuple[str, ...], keys: set[str] | None) -> ShapeRead:
    """How `path` below a result is read where `base` is the output. `keys` are those that code returns."""
    known = fields(kind, base)
    first = path[0] if path else None
    if not known:
        if (skip := _dropped(path, keys)) > 0:
            return ShapeRead(f"{base}.data", skip, keys is None)
        return ShapeRead(f"{base}.data.data" if _enveloped(first, keys) else f"{base}.data", 0)
    if first is None:
        return ShapeRead(whole(kind, base), 0)
    if kind in SQL:
        skip = _wrapped(path, known)
        skip += 1 if len(path) > skip and path[skip].startswith("command_") else 0
        if len(path) == skip and skip:
            inner = whole(kind, base, frozenset({"status", "rows", "row_count"}))
            return ShapeRead(inner, skip)
        part = path[skip] if len(path) > skip else "rows"
        if part in known:
            return ShapeRead(known[part], skip + 1)
        if skip == 0 and first in _WRAPPERS:
            return ShapeRead(rows(base), 1, True)
        return ShapeRead(rows(base), skip, True)
    if first in known:
        return ShapeRead(known[first], 1)
    if kind == "playbook":
        return ShapeRead(f"{base}.data", 1 if first in ("data", "return_value") else 0, True)
    return ShapeRead(f"{base}.data", 0, True)


def stored(kind: str, path: tuple[str, ...], keys: set[str] | None) -> tuple[tuple[str, ...], int, str | None]:
    """How `path` is read from a stored result: new leading parts, how many old ones they replace, the part asked."""
    first = path[0] if path else None
    known = fields(kind, "output")
    if not known:
        if (skip := _dropped(path, keys)) > 0:
            return (), skip, None
        return ("data",) if _enveloped(first, keys) else (), 0, None
    if first is None:
        return (), 0, ""
    if kind in SQL:
        skip = _wrapped(path, known)
        if skip:
            return (), skip, path[skip]
        if first in known or first.startswith("command_"):
            return (), 0, first
        return ("rows",), 1 if first in _WRAPPERS else 0, "rows"
    if first in known:
        return (), 0, first
    if kind == "playbook":
        return ("result",), 1 if first in ("data", "return_value") else 0, "result"
    if kind == "loop":
        return (), 0, ""
    part = {"http": "data", "container": "output"}.get(kind, "stdout")
    return (part,), 0, part
