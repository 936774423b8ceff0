"""Credentials of duckdb tasks: the SQL reads them from the keychain (§8, §10).

The public engine creates secrets of DuckDB from `auth`, and loads the extensions that they need.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from noetl.playbook.dialects.layout.tree import LayoutEntry, Map, plain, rename, table
from noetl.playbook.dialects.public.book import (
    Book,
    change_text,
    child,
    discard,
    is_template,
    new,
    put,
    scalar,
    text_of,
)
from noetl.playbook.dialects.public.credentials import declare, default_of
from noetl.playbook.dialects.template_tokens import parse

_ATTACH = re.compile(r"(?i)\bATTACH\s+(?:IF\s+NOT\s+EXISTS\s+)?''\s+AS\s+(\w+)\s*\(([^()]*)\)")
_SECRET = re.compile(r"(?i),?\s*\bSECRET\s+(\w+)")
_READ = re.compile(r"'?\{\{\s*auth\.(\w+)\.(\w+)\s*\}\}'?")
_OUTSIDE = re.compile(
    r"(?im)^\s*(?:INSTALL|LOAD|ATTACH|COPY|EXPORT|IMPORT)\b|\bread_(?:csv|parquet|json|text|blob)\w*\s*\("
)
_PARTS = {
    "key_id": "access_key_id",
    "access_key_id": "access_key_id",
    "secret": "secret_access_key",
    "secret_key": "secret_access_key",
    "secret_access_key": "secret_access_key",
    "region": "region",
}
_FIX = "read with `postgres`, and hand the rows over as `tables`"


class _Access(NamedTuple):
    """One entry of `auth`."""

    alias: str  # name of the secret in SQL
    type: str  # `postgres`, `gcs` or `s3`
    name: str  # keychain entry
    scope: str


def repeated_credentials(book: Book) -> None:
    """`gcs_credential: x` beside `auth` with an entry for x says the same."""
    for _, task in book.tasks():
        auth = task.body.map("auth") if task.kind == "duckdb" else None
        for entry in [each for each in task.body.entries if each.name.endswith("_credential")] if auth else []:
            keys = [each.value.text("key") for each in auth.entries if isinstance(each.value, Map)] if auth else []
            if text_of(entry.value) in keys:
                discard(task.body, entry)
                book.note(entry.start, "dropped", f"`{entry.name}` repeats a key of `auth`; it was removed")


def ducklake_tasks(book: Book) -> None:
    """`kind: ducklake` is duckdb with its extension: the SQL attaches the catalog."""
    for _, task in book.tasks():
        body, kind, command = task.body, task.body.entry("kind"), task.body.entry("command") or task.body.entry("query")
        text = text_of(command.value) if command is not None else None
        if task.kind != "ducklake" or kind is None or command is None or text is None:
            continue
        name = body.text("catalog_name") or "ducklake"
        name = (default_of(book, name) or "") if is_template(name) else name
        catalog = _catalog(book, body)
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or catalog is None:
            message = "this catalog of DuckLake has no name, or a connection string with a password"
            book.refuse(
                kind.start, message, "store the connection string, and write `auth: <name>` of a keychain entry"
            )
            continue
        path = body.text("data_path")
        options = f" (DATA_PATH '{path}')" if path else ""
        used = "" if body.text("use_catalog") == "false" else f" USE {name};"
        attach = f"ATTACH {{{{ 'ducklake:postgres:' ~ {catalog} }}}} AS {name}{options};{used}\n"
        change_text(command, f"INSTALL ducklake; LOAD ducklake; INSTALL postgres; LOAD postgres;\n{attach}{text}")
        rename(command, "command")
        for key in ("catalog_connection", "catalog_name", "data_path", "use_catalog", "auth", "create_catalog"):
            entry = body.entry(key)
            if entry is not None:
                discard(body, entry)
        put(kind, plain("duckdb"))
        spec = child(body, "spec", kind.start)
        if spec is not None and spec.get("external_access") is None:
            spec.entries.append(new("external_access", plain("true"), kind.start))
        message = "duckdb loads the extension ducklake and attaches the catalog; it may access files and the network"
        book.note(kind.start, "duckdb-credential", message)


def _catalog(book: Book, body: Map) -> str | None:
    """The expression of the connection string of a catalog."""
    given = body.text("catalog_connection")
    if given is not None:
        parsed = parse(given) if is_template(given) else None
        return f"({given.strip()[2:-2].strip()})" if parsed is not None and parsed.typed else None
    name = body.text("auth") or ""
    name = (default_of(book, name) or "") if is_template(name) else name
    if not re.fullmatch(r"[A-Za-z_][\w-]*", name):
        return None
    declare(book, name, body.start)
    return f"keychain.{name}"


def duckdb_credentials(book: Book) -> None:
    """`auth: {pg: {type: postgres, key: x}}` of duckdb: the SQL attaches with `{{ keychain.x }}`."""
    for _, task in book.tasks():
        for holder in (task.body, task.body.map("input")):
            entry = None if holder is None else holder.entry("auth") or holder.entry("credentials")
            if task.kind == "duckdb" and holder is not None and entry is not None and isinstance(entry.value, Map):
                _convert(book, task.body, holder, entry)


def outside_access(book: Book) -> None:
    """SQL that loads extensions or accesses files needs rights that a duckdb task does not have by default."""
    for _, task in book.tasks():
        entry = task.body.entry("command") or task.body.entry("query")
        text = text_of(entry.value) if entry is not None else None
        if task.kind != "duckdb" or not book.public or entry is None or text is None or not _OUTSIDE.search(text):
            continue
        spec = child(task.body, "spec", entry.start)
        if spec is not None and spec.get("external_access") is None and spec.get("folders") is None:
            spec.entries.append(new("external_access", plain("true"), entry.start))
            message = "the SQL loads extensions or accesses files, so it may access files and the network"
            book.note(entry.start, "duckdb-access", message)


def _convert(book: Book, body: Map, holder: Map, entry: LayoutEntry) -> None:
    assert isinstance(entry.value, Map)
    flat = any(entry.value.text(key) for key in ("type", "service", "credential", "key"))
    named = [("db", entry.value)] if flat else [(each.name, each.value) for each in entry.value.entries]
    found = [_access(book, alias, value) for alias, value in named if isinstance(value, Map)]
    command = body.entry("command") or body.entry("query")
    text = text_of(command.value) if command is not None else None
    known = [each for each in found if each is not None]
    if len(known) != len(named) or command is None or text is None:
        book.refuse(entry.start, "this credential does not reach duckdb", _FIX)
        return
    for access in known:
        kind = "stored" if access.type == "postgres" else "aws_credential"
        declare(book, access.name, entry.start, made=table(name=scalar(access.name), kind=plain(kind)))
    made = _sql(text, known)
    change_text(command, made)
    if not made.startswith(text):  # statements before it
        rename(command, "command")
    spec = child(body, "spec", entry.start)
    if spec is not None and spec.get("external_access") is None:
        spec.entries.append(new("external_access", plain("true"), entry.start))
    discard(holder, entry)
    names = ", ".join(f"`{access.name}`" for access in known)
    message = f"the SQL reads the stored credentials {names}: a connection string for postgres, keys for buckets"
    book.note(entry.start, "duckdb-credential", f"{message}; it may access files and the network")


def _access(book: Book, alias: str, value: Map) -> _Access | None:
    kinds = [value.text(key) or "" for key in ("service", "type", "tool", "kind")]
    scope = value.text("scope") or ""
    key = next((text for each in ("key", "credential", "ref") if (text := value.text(each))), None)
    if key is not None and is_template(key):
        key = default_of(book, key)
    if any(kind in ("postgres", "postgresql", "pg") for kind in kinds):
        found = "postgres"
    elif any(kind in ("s3", "aws") for kind in kinds) or scope.startswith("s3://"):
        found = "s3"
    elif any(kind in ("gcs", "gs", "hmac", "gcs_hmac") for kind in kinds):
        found = "gcs"
    else:
        return None
    if not key or not re.fullmatch(r"[A-Za-z_][\w-]*", key):
        return None
    return _Access(value.text("secret_name") or alias, found, key, scope)


def _sql(text: str, accesses: list[_Access]) -> str:
    """The SQL with its credentials: extensions, attached databases and secrets."""
    before: list[str] = []
    by_alias = {access.alias: access for access in accesses}
    text = _READ.sub(lambda found: _part(found, by_alias), text)
    text = _ATTACH.sub(lambda found: _attached(found, by_alias), text)
    for extension, types in (("postgres", ("postgres",)), ("httpfs", ("gcs", "s3"))):
        needed = any(access.type in types for access in accesses)
        if needed and not re.search(rf"(?i)\bLOAD\s+{extension}\b", text):
            before.append(f"INSTALL {extension}; LOAD {extension};\n")
    for access in accesses:
        made = rf"(?i)\b(?:SECRET\s+(?:IF\s+NOT\s+EXISTS\s+)?|AS\s+){re.escape(access.alias)}\b"
        if access.type == "postgres":
            if re.search(rf"\b{re.escape(access.alias)}\.", text) and not re.search(made, text):
                before.append(f"ATTACH {{{{ keychain.{access.name} }}}} AS {access.alias} (TYPE postgres);\n")
        elif not re.search(made, text):
            before.append(_secret(access))
    return "".join(before) + text


def _attached(found: re.Match[str], by_alias: dict[str, _Access]) -> str:
    secret = _SECRET.search(found[2])
    access = by_alias.get(secret[1] if secret is not None else found[1])
    if access is None or access.type != "postgres":
        return found.group()
    options = _SECRET.sub("", found[2]).strip(" ,")
    return f"ATTACH {{{{ keychain.{access.name} }}}} AS {found[1]} ({options})"


def _part(found: re.Match[str], by_alias: dict[str, _Access]) -> str:
    """`{{ auth.alias.field }}` in the SQL."""
    access = by_alias.get(found[1])
    if access is None:
        return found.group()
    opened, closed = found.group().startswith("'"), found.group().endswith("'")
    if found[2] == "scope" and access.scope:
        return ("'" if opened else "") + access.scope + ("'" if closed else "")
    return f"{{{{ keychain.{access.name}.{_PARTS.get(found[2], found[2])} }}}}"


def _secret(access: _Access) -> str:
    entry = f"keychain.{access.name}"
    keys = f"KEY_ID {{{{ {entry}.access_key_id }}}}, SECRET {{{{ {entry}.secret_access_key }}}}"
    scope = f", SCOPE '{access.scope}'" if access.scope else ""
    return f"CREATE OR REPLACE SECRET {access.alias} (TYPE {access.type}, {keys}{scope});\n"
