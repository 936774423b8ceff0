"""SQL tasks: their fields, statements, and templates in quotes and names (§8)."""

from __future__ import annotations

import base64
import binascii
import re

from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, rename
from noetl.playbook.dialects.public.book import Book, change_text, discard, is_template, text_of
from noetl.playbook.dialects.public.credentials import default_of
from noetl.playbook.dialects.public.sql_bodies import TEMPLATE, body_values, without_comments
from noetl.playbook.dialects.public.sql_groups import by_position
from noetl.playbook.dialects.public.sql_types import strings, with_types
from noetl.playbook.dialects.template_tokens import parse

_KINDS = frozenset({"postgres", "duckdb", "ducklake", "snowflake"})
_INPUTS = {  # the fields that may be in `input`
    "postgres": frozenset({"query", "command", "copy", "params", "stored", "auth"}),
    "duckdb": frozenset({"query", "command", "params", "stored", "tables", "database", "to", "auth"}),
    "snowflake": frozenset(
        {"query", "command", "params", "rows", "row_format", "warehouse", "database", "schema", "role", "auth"}
    ),
    "http": frozenset({"url", "method", "params", "headers", "json", "form", "body", "multipart", "response", "auth"}),
    "shell": frozenset({"argv", "sh", "env", "cwd", "stdin", "parse", "auth"}),
}
_FIELDS = ("query", "command", "commands", "cmds", "sql", "statement", "code")
_ESCAPED = re.compile(r"\|\s*replace\(\s*(?:\"'\"\s*,\s*\"''\"|'\\''\s*,\s*'\\'\\'')\s*\)")
_JOINED = re.compile(r"(?i)(\bIN\s*\(\s*)\{\{(.*?)\|\s*join\(\s*['\"],\s*['\"]\s*\)\s*\}\}", re.DOTALL)
_NAMED = re.compile(
    r"(?i)\b(?:FROM|JOIN|INTO|UPDATE|TABLE|EXISTS|DELETE\s+FROM|TRUNCATE|ON|SCHEMA|VIEW|INDEX|DATABASE|USE|COPY)\s+(?:ONLY\s+|TABLE\s+|IF\s+(?:NOT\s+)?EXISTS\s+)*$"
)
_ID_COLUMN = re.compile(r"(?i)(\b\w*execution_id\"?)\s+(?:BIGINT|INT8|INTEGER|INT)\b")
_ID_CAST = re.compile(r"(?i)(\{\{\s*execution_id\s*\}\}'?)::(?:bigint|int8|integer|int)\b")
_DOLLARS = re.compile(r"\$(\w*)\$\s*(?P<value>" + TEMPLATE.pattern + r")\s*\$\1\$", re.DOTALL)
_FILE = re.compile(r"(?i)(\b(?:FROM|JOIN)\s+)('(?:[^'{}]|\{\{[^{}]*\}\})*'(?!\s*\())")
_READERS = {"parquet": "read_parquet", "csv": "read_csv_auto", "json": "read_json_auto", "ndjson": "read_json_auto"}
_IDENTIFIER = re.compile(r"[\w.]*\{\{[^{}]*\}\}(?:[\w.]|\{\{[^{}]*\}\})*")


def sql_fields(book: Book) -> None:
    """`query`, `command`, `commands`, `cmds`, `command_b64`: one statement with rows is `query`, the rest `command`."""
    for _, task in book.tasks():
        if task.kind not in _KINDS:
            continue
        body = task.body
        _decoded(book, body)
        bound = body.entry("parameters")
        if bound is not None and body.get("params") is None:
            rename(bound, "params")
            book.changed()
        found = [entry for key in _FIELDS if (entry := body.entry(key)) is not None]
        if not found:
            continue
        entry = found[0]
        for other in found[1:]:
            discard(body, other)
            book.note(other.start, "dropped", f"`{entry.name}` is used, and `{other.name}` beside it is not read")
        if isinstance(entry.value, List):
            texts = [text for each in entry.value.entries if (text := text_of(each.value)) is not None]
            change_text(entry, "\n".join(text.strip().rstrip(";") + ";" for text in texts) + "\n")
            rename(entry, "command")
            book.changed()
        elif entry.name not in ("query", "command"):
            rename(entry, "command")
            book.changed()
        if entry.name == "query" and _statements(text_of(entry.value) or "") > 1:
            rename(entry, "command")
            book.changed()
        if task.kind == "duckdb":
            _database(book, body)


def _decoded(book: Book, body: Map) -> None:
    entry = body.entry("command_b64")
    text = text_of(entry.value) if entry is not None else None
    if entry is None or text is None:
        return
    try:
        plain = base64.b64decode("".join(text.split()), validate=True).decode("utf-8")
        if not all(sign.isprintable() or sign in "\n\r\t" for sign in plain):
            raise ValueError("a control character")
    except (binascii.Error, ValueError):
        book.refuse(entry.start, "`command_b64` is not base64 text", "write the SQL under `command`")
        return
    change_text(entry, plain)
    rename(entry, "command")
    book.changed()


def _statements(text: str) -> int:
    bare = re.sub(r"'(?:[^']|'')*'|--[^\n]*|\$\$.*?\$\$", "", text, flags=re.DOTALL)
    return len([each for each in bare.split(";") if each.strip()])


def _database(book: Book, body: Map) -> None:
    entry = body.entry("database")
    text = text_of(entry.value) if entry is not None else None
    if entry is not None and text in (":memory:", "memory"):
        discard(body, entry)
        book.changed()


def one_transaction(book: Book) -> None:
    """The public engine runs each statement in a transaction of its own."""
    for _, task in book.tasks():
        entry = task.body.entry("command")
        text = text_of(entry.value) if entry is not None else None
        kinds = ("postgres", "snowflake")
        if book.public and task.kind in kinds and entry is not None and text is not None and _statements(text) > 1:
            message = "the statements are one transaction; the public engine commits each, and continues after an error"
            book.note(entry.start, "one-transaction", message)


def arguments(book: Book) -> None:
    """`input` of a task with fields of its own names values for its templates."""
    for _, task in book.tasks():
        inputs = task.body.entry("input")
        known = _INPUTS.get(task.kind or "")
        if known is None or inputs is None or not isinstance(inputs.value, Map):
            continue
        loose = [each for each in inputs.value.entries if each.name not in known]
        own = {each.name: text for each in loose if (text := text_of(each.value)) is not None}
        if not own or len(own) < len(loose):
            continue
        for entry in task.body.entries:
            if entry.name not in ("kind", "name", "auth", "spec", "set", "input"):
                _inline_all(entry, own)
        for each in loose:
            discard(inputs.value, each)
        if not inputs.value.entries:
            discard(task.body, inputs)
        book.changed()


def _inline_all(entry: LayoutEntry, own: dict[str, str]) -> None:
    if isinstance(entry.value, Leaf):
        _inline(entry, own)
        return
    for each in entry.value.entries:
        _inline_all(each, own)


def _inline(entry: LayoutEntry, own: dict[str, str]) -> None:
    text = text_of(entry.value) or ""
    made = inline(text, own, ("input", "args"))
    if made != text:
        change_text(entry, made)


def inline(text: str, own: dict[str, str], scopes: tuple[str, ...]) -> str:
    """Put the expressions of arguments in place of their names, which may have one of some scopes."""
    parsed = parse(text)
    made, position = "", 0
    for reading in parsed.readings if parsed is not None else []:
        path = reading.path
        offset = 1 if path[0] in scopes and len(path) > 1 else 0
        if path[offset] not in own or reading.start < position:
            continue
        value = own[path[offset]]
        whole = parse(value) if "{{" in value else None
        if whole is not None and whole.typed:
            inner = "(" + value[whole.tokens[0].end : whole.tokens[-1].start].strip() + ")"
        elif "{{" in value:
            if "{%" in value:
                continue
            inner = f"({concatenated(value)})"
        else:
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            inner = f"'{escaped}'"
        end = reading.parts[0].end if offset else reading.start + len(reading.root)
        made += text[position : reading.start] + inner
        position = end
    return made + text[position:]


def sql_templates(book: Book) -> None:
    """Templates in SQL are values: quotes around them, escapes and identifiers are written for that."""
    for _, task in book.tasks():
        if task.kind not in _KINDS:
            continue
        if not book.public:
            _constants(book, task.body)
            continue
        for key in ("query", "command"):
            entry = task.body.entry(key)
            text = text_of(entry.value) if entry is not None else None
            if entry is None or text is None or ("{{" not in text and not _ID_COLUMN.search(text)):
                continue
            text = _whole(book, entry, text)
            text = _text_ids(book, entry, without_comments(text))
            if task.kind != "snowflake":
                text = body_values(text) if task.kind == "postgres" else _files(book, text)
            made = _rewritten(with_types(by_position(text), postgres=task.kind == "postgres"))
            if made != text_of(entry.value):
                change_text(entry, made)
                book.changed()
                if "sql_ident" in made and "sql_ident" not in text:
                    book.note(entry.start, "sql-name", "a name in the SQL is quoted, so its letters keep their case")


def _files(book: Book, text: str) -> str:
    """`FROM 'gs://{{ bucket }}/{{ file }}'`: a file is read by the function for its ending."""

    def read(found: re.Match[str]) -> str:
        last = _pieces(found[2][1:-1])[-1]
        name = (default_of(book, last) or _last_text(last)) if last.startswith("{{") else last
        reader = _READERS.get(name.rsplit(".", 1)[-1].lower())
        return f"{found[1]}{reader}({found[2]})" if reader is not None and "{{" in found[2] else found.group()

    return _FILE.sub(read, text)


def _last_text(template: str) -> str:
    """The last text in an expression such as `default('file_' ~ execution_id ~ '.csv', true)`."""
    parsed = parse(template)
    texts = [token.text[1:-1] for token in parsed.tokens if token.type == "string"] if parsed is not None else []
    return texts[-1] if texts else ""


def _text_ids(book: Book, entry: LayoutEntry, text: str) -> str:
    """Execution ids of the public engine are numbers, ours are text."""
    made = _ID_CAST.sub(r"\1::text", _ID_COLUMN.sub(r"\1 TEXT", text))
    if made != text:
        message = "an execution id is text, so a column or a cast for it is TEXT; alter a table that already exists"
        book.note(entry.start, "execution-id", message)
    return made


def _constants(book: Book, body: Map) -> None:
    """A statement that is a constant of `workload` is written in its place, also in v2 and v10."""
    for key in ("query", "command"):
        entry = body.entry(key)
        text = text_of(entry.value) if entry is not None else None
        value = default_of(book, text) if text is not None and is_template(text) else None
        if entry is not None and value is not None and text is not None and " " in value.strip():
            change_text(entry, _whole(book, entry, text))


def _whole(book: Book, entry: LayoutEntry, text: str) -> str:
    """`{{ statement }}` alone: its default in `workload` is put in place."""
    parsed = parse(text)
    bare = text.strip().rstrip(";").strip()
    if (
        parsed is None
        or not bare.startswith("{{")
        or not bare.endswith("}}")
        or len(parsed.readings) != 1
        or bare.count("{{") != 1
    ):
        return text
    path = [part for part in parsed.readings[0].path if part != "workload"]
    node = book.root.get("workload")
    for part in path:
        node = node.get(part) if isinstance(node, Map) else None
    constant = text_of(node)
    if constant is None or "{{" in constant:
        message = "a whole SQL statement cannot be a value"
        book.refuse(entry.start, message, "write the statement here, with `{{ }}` for its values")
        return text
    book.note(
        entry.start,
        "sql-statement",
        f"the statement of `workload.{'.'.join(path)}` is written here; a caller can no longer change it",
    )
    return constant


def _rewritten(text: str) -> str:
    text = _ESCAPED.sub("", text)
    text = _DOLLARS.sub(lambda found: found["value"], text)
    text = _JOINED.sub(lambda found: f"{found[1]}{{{{{found[2].rstrip()} | sql_list }}}}", text)
    pieces: list[str] = []
    position = 0
    for start, end in strings(text):
        pieces.append(_names(text[position:start], "".join(pieces)))
        made = _literal(text[start:end])
        if made == text[start:end] and re.search(r"(?<!\w)[Ee]\Z", pieces[-1]):
            pieces[-1] = pieces[-1][:-1]  # E'{{ x }}': a value has no escapes
        pieces.append(made)
        position = end
    pieces.append(_names(text[position:], "".join(pieces)))
    return "".join(pieces)


def _literal(text: str) -> str:
    """`'{{ x }}'` stays; `'a {{ x }} b'` becomes one value."""
    inner = text[1:-1]
    only = TEMPLATE.fullmatch(inner.strip())
    if only is not None and inner.strip() == inner and inner.count("{{") == 1:
        return text
    if "{%" in inner:
        return text
    pieces = [piece if "{{" in piece else piece.replace("''", "'") for piece in _pieces(inner)]
    return "{{ " + concatenated("".join(pieces)) + " }}"


def _pieces(text: str) -> list[str]:
    """The templates of a text, and what is between them."""
    made, position = [], 0
    for found in TEMPLATE.finditer(text):
        made += [text[position : found.start()], found.group()]
        position = found.end()
    return [piece for piece in [*made, text[position:]] if piece]


def concatenated(text: str) -> str:
    """Text with templates as one expression."""
    return " ~ ".join(
        f"({piece[2:-2].strip()})" if piece.startswith("{{") else _quoted(piece) for piece in _pieces(text)
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _names(text: str, before: str) -> str:
    """Templates in the place of a table or schema, or glued to letters, are identifiers."""

    def name(found: re.Match[str]) -> str:
        word = found.group()
        if "sql_ident" in word or "sql_list" in word:
            return word
        only = TEMPLATE.fullmatch(word) if word.count("{{") == 1 else None
        context = before + text[: found.start()]
        if only is not None and not _NAMED.search(context):
            return word
        if only is not None:
            return "{{ " + _bracketed(word[2:-2].strip()) + " | sql_ident }}"
        if word.startswith(tuple("0123456789")):
            return word
        pieces, position = [], 0
        for inner in TEMPLATE.finditer(word):
            if inner.start() > position:
                pieces.append(f"'{word[position : inner.start()]}'")
            pieces.append(
                f"({inner.group()[2:-2].strip()})"
                if not re.fullmatch(r"[\w.]+", inner.group()[2:-2].strip())
                else inner.group()[2:-2].strip()
            )
            position = inner.end()
        if position < len(word):
            pieces.append(f"'{word[position:]}'")
        return "{{ (" + " ~ ".join(pieces) + ") | sql_ident }}"

    return _IDENTIFIER.sub(name, text)


def _bracketed(inner: str) -> str:
    return inner if re.fullmatch(r"[\w.]+", inner) else f"({inner})"
