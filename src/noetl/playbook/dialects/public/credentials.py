"""`auth` of tasks and the entries of `keychain` (§10). No secret is ever copied into text."""

from __future__ import annotations

import itertools
import re

from noetl.playbook import language
from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.scalars import TextEdit, replace
from noetl.playbook.dialects.layout.tree import (
    LayoutEntry,
    Leaf,
    List,
    Map,
    item,
    leaves,
    name_leaf,
    plain,
    quoted,
    rename,
    table,
)
from noetl.playbook.dialects.parts import TaskPart
from noetl.playbook.dialects.public.book import (
    Book,
    change_text,
    child,
    discard,
    insert,
    is_template,
    new,
    put,
    scalar,
    text_of,
)
from noetl.playbook.dialects.public.code import prepended
from noetl.playbook.dialects.template_tokens import parse

_STORED = frozenset(
    {
        "credential",
        "credentials",
        "credential_ref",
        "google_oauth",
        "oauth_token",
        "api_key",
        "token",
        "postgres",
        "static",
        "google_service_account",
        "service_account",
    }
)
_DROPPED = (
    "scope",
    "auto_renew",
    "ttl",
    "ttl_seconds",
    "cache",
    "refresh",
    "type",
    "renew_before",
    "service",
    "description",
    "cache_type",
    "expires_in",
)
_NAMES = ("credential", "key", "ref", "name", "source", "credential_ref")
_TOKEN = re.compile(r"Bearer\s+\{\{\s*token\(\s*([\w.]+|'[^']+'|\"[^\"]+\")\s*(?:,[^{}]*)?\)\s*\}\}")
_KEYCHAIN = re.compile(r"\{\{-?\s*keychain\.([A-Za-z_]\w*)\s*-?\}\}")  # the whole entry
_VALID = re.compile(r"[A-Za-z_][\w-]*\Z")
_CLOUDS = {
    "gcp_credential": ("gcs", "gcs_service_account", "service_account", "google_service_account"),
    "aws_credential": ("s3", "s3_hmac", "aws", "gcs_hmac", "hmac"),
}
_GOOGLE = (  # the libraries of Google read a file
    "import os, tempfile",
    "_key_file = tempfile.NamedTemporaryFile('w', suffix='.json')",
    "_key_file.write(os.environ['GOOGLE_SERVICE_ACCOUNT']); _key_file.flush()",
    "os.environ['GOOGLE_APPLICATION_CREDENTIALS'] = _key_file.name",
)
_NEEDS = {
    "postgres": ("postgres", "pg"),
    "snowflake": ("snowflake",),
    "http": ("bearer", "basic", "api_key", "header", "oauth2", "token"),
}
_FIELDS_IN_INPUT = ("http", "postgres", "duckdb", "snowflake")


def auth_forms(book: Book) -> None:
    """`auth` is the name of a credential. Templates and mappings become that name."""
    for _, task in book.tasks():
        for key in ("credential", "credentials"):
            entry = task.body.entry(key)
            named = task.body.entry("auth")
            if entry is not None and named is not None and parts.is_null(named.value):
                discard(task.body, named)
                named = None
            if entry is not None and named is None:
                rename(entry, "auth")
                book.changed()
            elif entry is not None and task.kind != "python":
                discard(task.body, entry)
                book.note(entry.start, "dropped", f"`{key}` is set beside `auth`; it was removed")
        for holder in (task.body, task.body.map("input") if task.kind in _FIELDS_IN_INPUT else None):
            entry = holder.entry("auth") if holder is not None else None
            if holder is not None and entry is not None:
                _auth(book, task, holder, entry)


def side_auth(book: Book, task: TaskPart, side: Map) -> None:
    """`auth` of one side of a transfer."""
    entry = side.entry("auth")
    if entry is None:
        return
    _auth(book, task, side, entry)
    name = text_of(entry.value)
    if name is not None and _VALID.match(name):
        declare(book, name, entry.start)


def read_credentials(book: Book) -> None:
    """`{{ auth.api.client_id }}` with `auth: {api: {client_id_key: path}}` reads a secret of that path."""
    for _, task in book.tasks():
        entry = task.body.entry("auth")
        aliases = entry.value.entries if entry is not None and isinstance(entry.value, Map) else []
        names: dict[tuple[str, str], str] = {}
        for alias in aliases:
            body = alias.value if isinstance(alias.value, Map) else Map()
            for each in body.entries if body.text("provider") == "secret_manager" else []:
                key = text_of(each.value) or ""
                key = (default_of(book, key) or "") if is_template(key) else key
                if each.name.endswith("_key") and key:
                    name = f"{alias.name}_{each.name[:-4]}"
                    names[alias.name, each.name[:-4]] = name
                    made = table(name=scalar(name), kind=plain("secret_manager"), provider=plain("gcp"))
                    made.entries.append(new("key", scalar(key), each.start))
                    declare(book, name, each.start, made=made)
            given = body.text("key") or body.text("credential")
            given = default_of(book, given) if given is not None and is_template(given) else given
            if task.kind == "http" and given is not None and _VALID.match(given):
                read = _fields_read(task.body, alias.name)
                names |= {(alias.name, field): f"{given}.{field}" for field in read}
                if read:
                    declare(book, given, alias.start)
                    words = f'"{given}" is a stored JSON object with {", ".join(sorted(read))}'
                    book.note(alias.start, "keychain-stored", f"templates read the credential: {words}")
        if entry is None or not names or len({alias for alias, _ in names}) < len(aliases):
            continue
        discard(task.body, entry)
        for leaf in leaves(task.body):
            _read(leaf, names)
        book.changed()


def _fields_read(body: Map, alias: str) -> set[str]:
    """The fields of a credential that templates of the task read: `{{ auth.alias.field }}`."""
    parsed = [parse(leaf.text) for leaf in leaves(body) if is_template(leaf.text)]
    readings = [reading for each in parsed if each is not None for reading in each.readings]
    return {each.path[2] for each in readings if each.path[:2] == ("auth", alias) and len(each.path) > 2}


def _read(leaf: Leaf, names: dict[tuple[str, str], str]) -> None:
    parsed = parse(leaf.text) if is_template(leaf.text) else None
    edits = [
        TextEdit(reading.start, reading.parts[1].end, f"keychain.{names[reading.path[1], reading.path[2]]}")
        for reading in (parsed.readings if parsed is not None else [])
        if reading.root == "auth" and reading.path[1:3] in names
    ]
    if edits:
        made = replace(leaf, edits)
        leaf.raw, leaf.text, leaf.style = made.raw, made.text, made.style


def _auth(book: Book, task: TaskPart, holder: Map, entry: LayoutEntry) -> None:
    if isinstance(entry.value, Leaf):
        _named(book, entry)
        return
    if task.kind == "python":
        if isinstance(entry.value, Map) and entry.value.entries:
            _variables(book, task.body, holder, entry)
        return
    if task.kind == "duckdb":
        return  # the rule for duckdb has said why it stays
    found = _credential(book, task, entry)
    if found is None:
        return
    name, header = found
    if header is not None:
        discard(holder, entry)
        headers = task.body.map("headers")
        if headers is None:
            headers = Map()
            task.body.entries.append(new("headers", headers, entry.start))
        headers.entries.append(
            new(
                header,
                Leaf(raw=f'"{{{{ keychain.{name} }}}}"', text=f"{{{{ keychain.{name} }}}}", style='"'),
                entry.start,
            )
        )
        declare(book, name, entry.start)
        return
    _name_it(book, entry, name)
    book.changed()


def cloud_kind(service: str) -> str:
    """The keychain kind of a credential for a cloud."""
    return next((kind for kind, words in _CLOUDS.items() if service in words), "stored")


def _variables(book: Book, body: Map, holder: Map, entry: LayoutEntry) -> None:
    """`auth` of a python task: variables that the libraries of a cloud read."""
    assert isinstance(entry.value, Map)
    flat = entry.value.text("key") or entry.value.text("credential")
    made: dict[str, str] = {}
    for value in [entry.value] if flat else [each.value for each in entry.value.entries]:
        body_of = value if isinstance(value, Map) else Map()
        service = body_of.text("service") or body_of.text("type") or body_of.text("tool") or ""
        key = body_of.text("key") or body_of.text("credential")
        name = default_of(book, key) if key is not None and is_template(key) else key
        kind = cloud_kind(service)
        if not name or kind == "stored" or not _VALID.match(name):
            message = "`auth` of a python task with entries passed secrets as variables"
            book.refuse(entry.start, message, 'write `env: {NAME: "{{ keychain.<name>.<field> }}"}`')
            return
        declare(book, name, entry.start, made=table(name=scalar(name), kind=plain(kind)))
        fields = {"AWS_ACCESS_KEY_ID": ".access_key_id", "AWS_SECRET_ACCESS_KEY": ".secret_access_key"}
        fields = {"GOOGLE_SERVICE_ACCOUNT": ""} if kind == "gcp_credential" else fields
        made |= {variable: f"{{{{ keychain.{name}{field} }}}}" for variable, field in fields.items()}
    code = body.entry("code")
    if "GOOGLE_SERVICE_ACCOUNT" in made and code is not None:
        change_text(code, prepended(text_of(code.value) or "", list(_GOOGLE)))
    env = child(body, "env", entry.start)
    for variable, text in made.items() if env is not None else ():
        assert env is not None
        env.entries.append(new(variable, quoted(text), entry.start))
    discard(holder, entry)
    message = f"the credentials are the environment variables {', '.join(made)} of the code"
    book.note(entry.start, "python-credential", message)


def _named(book: Book, entry: LayoutEntry) -> None:
    """A name, or a template that reads a workload key with the name."""
    assert isinstance(entry.value, Leaf)
    text = entry.value.text
    if entry.value.null:
        return
    if not is_template(text):
        if not _VALID.match(text):
            _name_it(book, entry, text)
        return
    declared = _KEYCHAIN.fullmatch(text.strip())
    if declared is not None:
        _name_it(book, entry, declared[1])
        book.changed()
        return
    name = default_of(book, text)
    if name is None:
        return  # the check says that a name cannot be a template
    book.note(entry.start, "auth-fixed", f'the credential is always "{name}"; a caller can no longer choose it')
    _name_it(book, entry, name)


def _name_it(book: Book, entry: LayoutEntry, name: str) -> None:
    """Write the name of a credential. A key that is not a name gets an entry with a name."""
    short = name if _VALID.match(name) else _name_of(name)
    if short != name:
        declare(book, short, entry.start, key=name)
    put(entry, name_leaf(short))
    assert isinstance(entry.value, Leaf)
    entry.value.start = entry.start


def _name_of(key: str) -> str:
    """A name for a key such as `projects/1/secrets/token/versions/1`."""
    words = [word for word in re.split(r"[^A-Za-z0-9_-]+", key) if word and not word.isdigit()]
    words = [word for word in words if word not in ("projects", "secrets", "versions", "latest")]
    made = "_".join(words[-2:]) or "credential"
    return made if made[0].isalpha() else f"c_{made}"


def default_of(book: Book, text: str) -> str | None:
    """The default in `workload` that a template reads, or its own default."""
    parsed = parse(text)
    if parsed is None or not parsed.typed or not parsed.readings:
        return None
    node = book.root.get("workload")
    path = parsed.readings[0].path
    while path and path[0] in ("workload", "ctx", "vars", "payload"):
        path = path[1:]
    for part in path:
        node = node.get(part) if isinstance(node, Map) else None
    found = text_of(node)
    if found and not is_template(found):
        return found
    if found and found != text:
        return default_of(book, found)
    strings = [token.text[1:-1] for token in parsed.tokens if token.type == "string"]
    return strings[0] if len(strings) == 1 and strings[0] else None


def _credential(book: Book, task: TaskPart, entry: LayoutEntry) -> tuple[str, str | None] | None:
    """The name in a mapping or list, and the header that takes it; None: refused."""
    value = entry.value
    if isinstance(value, List):
        names = [text for each in value.entries if (text := text_of(each.value))]
        if len(names) == 1:
            return names[0], None
        book.refuse(entry.start, "`auth` names several credentials", "keep the one that the tool needs")
        return None
    assert isinstance(value, Map)
    variable = value.text("env")
    if variable is not None and task.kind == "http" and value.text("type") in ("bearer", None):
        name = variable.lower()
        source = Map(entries=[new("env", scalar(variable), entry.start)], style="flow")
        declare(book, name, entry.start, made=table(name=scalar(name), kind=plain("bearer"), token=source))
        return name, None
    direct = _direct(book, task, value)
    if direct is not None:
        return direct
    inner = [each for each in value.entries if isinstance(each.value, Map)]
    fitting = inner if len(inner) == 1 else [each for each in inner if _fits(task, each.value)]
    if len(fitting) == 1 and isinstance(fitting[0].value, Map):
        found = _direct(book, task, fitting[0].value)
        return found if found is not None else (fitting[0].name, None)
    texts = [text for each in value.entries if (text := text_of(each.value))]
    if not inner and len(texts) == 1 and not is_template(texts[0]):
        return texts[0], None
    message = "`auth` does not say which credential the tool needs"
    book.refuse(entry.start, message, "write the name of one keychain entry: `auth: <name>`")
    return None


def _fits(task: TaskPart, entry: object) -> bool:
    kind = entry.text("type") if isinstance(entry, Map) else None
    return any(word in (kind or "") for word in _NEEDS.get(task.kind or "", ()))


def _direct(book: Book, task: TaskPart, value: Map) -> tuple[str, str | None] | None:
    """`{type: postgres, credential: x}` and its variants."""
    for key in _NAMES:
        text = value.text(key)
        if text is None:
            continue
        if is_template(text):
            read = default_of(book, text)
            if read is None:
                continue
            entry = value.entry(key)
            assert entry is not None
            book.note(entry.start, "auth-fixed", f'the credential is always "{read}"; a caller can no longer choose it')
            text = read
        header = value.text("header")
        if task.kind == "http" and value.text("type") in ("api_key", "header") and header:
            return text, header
        if key == "source" and text.startswith("gcp"):
            entry = value.entry(key)
            assert entry is not None
            book.note(entry.start, "keychain-stored", "the gcloud token is not fetched; store it as a credential")
            return text.replace("-", "_"), None
        return text, None
    return None


def keychain_entries(book: Book) -> None:
    """Entries of the keychain: old kinds become `stored`, `secret_manager` or `oauth2_client`."""
    keychain = book.root.entry("keychain")
    for body in parts.maps(keychain.value if keychain is not None else None):
        kind = body.entry("kind")
        typed = body.entry("type")
        if kind is None and typed is not None:
            rename(typed, "kind")
            kind = typed
            book.changed()
        word = text_of(kind.value) if kind is not None else None
        if kind is None:
            kind, word = new("kind", plain("credential"), body.start), "credential"
            body.entries.append(kind)
        _entry(book, body, kind, word or "")
        for key in _DROPPED:
            entry = body.entry(key)
            if (
                entry is not None
                and word not in ("oauth2_client",)
                and not (key == "scope" and body.text("kind") == "oauth2_client")
            ):
                discard(body, entry)
                book.note(entry.start, "dropped", f"`{key}` of a keychain entry has no effect (D57); it was removed")


def _entry(book: Book, body: Map, kind: LayoutEntry, word: str) -> None:
    name = body.text("name") or ""
    if word in ("secrets", "secret_manager") and body.get("map") is not None:
        _mapped(book, body, kind)
    elif word in _STORED:
        key = next((text for each in ("credential", "ref", "key") if (text := body.text(each))), None)
        _keep_only(body, ("name", "kind", "desc"))
        put(kind, plain("stored"))
        if key and key != name and not is_template(key):
            body.entries.append(new("key", scalar(key), kind.start))
        message = f'"{name}" takes the stored secret: `noetl secrets set {key or name}`'
        book.note(kind.start, "keychain-stored", message)
    elif word == "bearer" and book.public and text_of(body.get("token")):
        token = body.entry("token")
        assert token is not None
        discard(body, token)
        put(kind, plain("stored"))
        message = f'the token is not copied; "{name}" takes the stored secret: `noetl secrets set {name}`'
        book.note(kind.start, "keychain-stored", message)
    elif word == "oauth2":
        _oauth2(book, body, kind)
    elif word == "google_id_token":
        _keep_only(body, ("name", "kind", "desc"))
        put(kind, plain("stored"))
        words = "a JSON object if templates read fields of it"
        message = f"the Google ID token is not fetched; store it: `noetl secrets set {name}`, {words}"
        book.note(kind.start, "keychain-stored", message)
    elif word not in language.CREDENTIALS:
        message = f'there is no keychain kind "{word}"'
        book.refuse(kind.start, message, "use `kind: stored`, and set the secret with `noetl secrets set`")


def _keep_only(body: Map, names: tuple[str, ...]) -> None:
    for each in list(body.entries):
        if each.name not in names:
            discard(body, each)


def _oauth2(book: Book, body: Map, kind: LayoutEntry) -> None:
    """A request for client credentials is `oauth2_client`, whose fields are stored; other requests are refused."""
    data = body.map("data") or body.map("payload") or body.map("body")
    url = body.text("endpoint") or body.text("url") or body.text("token_url")
    if data is None or data.text("grant_type") != "client_credentials" or url is None:
        message = 'the public kind "oauth2" sends a request that no keychain kind sends'
        fix = (
            "use `kind: oauth2_client` with token_url, client_id and client_secret, or store the token: `kind: stored`"
        )
        book.refuse(kind.start, message, fix)
        return
    name = body.text("name") or ""
    _keep_only(body, ("name", "kind", "desc"))
    put(kind, plain("oauth2_client"))
    words = f"`noetl secrets set {name}` with a JSON object of token_url ({url}), client_id and client_secret"
    message = f'the fields of "{name}" are stored, because they cannot be read from other entries: {words}'
    book.note(kind.start, "keychain-stored", message)


def token_calls(book: Book) -> None:
    """`Authorization: Bearer {{ token(x) }}` is `auth: x`; another place for a token is refused."""
    _bearer_tokens(book)
    for step in book.owners:
        for leaf in leaves(step.body):
            parsed = parse(leaf.text) if is_template(leaf.text) and "token(" in leaf.text else None
            tokens = parsed.tokens if parsed is not None else []
            pairs = itertools.pairwise(tokens)
            if any(word.type == "name" and word.text == "token" and behind.text == "(" for word, behind in pairs):
                fix = "store the token with `noetl secrets set`, and read `keychain.<name>` in a field of the task"
                book.refuse(leaf.start, "`token(…)` fetches a token, which no template does", fix)


def _bearer_tokens(book: Book) -> None:
    for _, task in book.tasks():
        headers = task.body.entry("headers")
        if task.kind != "http" or headers is None or not isinstance(headers.value, Map) or task.body.get("auth"):
            continue
        for entry in list(headers.value.entries):
            found = _TOKEN.fullmatch((text_of(entry.value) or "").strip())
            if entry.name.lower() != "authorization" or found is None:
                continue
            word = found[1].strip()
            name = word[1:-1] if word[0] in "'\"" else default_of(book, f"{{{{ {word} }}}}")
            if not name:
                message = f"`token({word})` names a credential that the playbook does not know"
                book.refuse(entry.start, message, "write `auth: <name>` with the name of a keychain entry")
                continue
            discard(headers.value, entry)
            made = new("auth", name_leaf(name), entry.start)
            insert(task.body, made, before=("headers",))
            _name_it(book, made, name)
            message = f'the token is that of the credential "{name}"; NoETL does not make one from a service account'
            book.note(entry.start, "auth-fixed", message)
        if not headers.value.entries:
            discard(task.body, headers)


def _mapped(book: Book, body: Map, kind: LayoutEntry) -> None:
    """`secret_manager` with a map of fields: one entry for each field."""
    name = body.text("name") or "secret"
    fields = body.map("map")
    keychain = book.root.entry("keychain")
    assert keychain is not None
    if fields is None or not isinstance(keychain.value, List):
        return
    provider = body.text("provider") or "gcp"
    made = []
    for each in fields.entries:
        key = text_of(each.value) or each.name
        if is_template(key):
            key = default_of(book, key) or key
        single = table(name=scalar(f"{name}_{each.name}"), kind=plain("secret_manager"))
        if is_template(key):  # a caller chose the path
            put(single.entries[1], plain("stored"))
            message = f"a caller cannot choose the path of a secret; store it: `noetl secrets set {name}_{each.name}`"
            book.note(each.start, "keychain-stored", message)
        else:
            single.entries += [new("provider", scalar(provider), each.start), new("key", scalar(key), each.start)]
        entry = item(single)
        entry.start = each.start
        made.append(entry)
    position = next(index for index, each in enumerate(keychain.value.entries) if each.value is body)
    keychain.value.entries[position : position + 1] = made
    book.note(kind.start, "keychain-stored", f'"{name}" has one entry for each field: `keychain.{name}_<field>`')


def declare(book: Book, name: str, start: int, *, key: str | None = None, made: Map | None = None) -> None:
    """Declare a credential that a template reads."""
    keychain = book.root.entry("keychain")
    if keychain is not None and any(each.text("name") == name for each in parts.maps(keychain.value)):
        return
    body = made if made is not None else table(name=scalar(name), kind=plain("stored"))
    if key is not None:
        body.entries.append(new("key", scalar(key), start))
    holder = item(body)
    holder.start = start
    if keychain is None:
        insert(book.root, new("keychain", List(entries=[holder]), start), after=("metadata",))
    elif isinstance(keychain.value, List):
        keychain.value.entries.append(holder)
    book.note(start, "keychain-stored", f'the credential "{name}" has been declared with kind `stored`')
