"""Guards: text around a template becomes one expression (§2, D118), and old event names the current ones (§4)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, Map, plain, quoted
from noetl.playbook.dialects.public.book import Book, is_template, put, text_of
from noetl.playbook.dialects.template_tokens import parse

_PIECE = re.compile(
    r"""\s*(?:(?P<template>['"]?\{\{.*?\}\}['"]?)|(?P<text>'[^']*'|"[^"]*")|(?P<sign>==|!=|>=|<=|>|<|\(|\)|&&|\|\|)"""
    r"""|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])|(?P<word>[\w./:-]+))""",
    re.DOTALL,
)
_WORDS = {"&&": "and", "||": "or", "and": "and", "or": "or", "not": "not", "in": "in", "AND": "and", "OR": "or"}
_ORDER = frozenset({">", "<", ">=", "<="})


def text_guards(book: Book) -> None:
    """`"{{ a }} == b"` was compared as text; it becomes `{{ a | string == 'b' }}`."""
    for entry in _guards(book):
        text = text_of(entry.value)
        if text is not None and text.strip().lower() in ("true", "false") and isinstance(entry.value, Leaf):
            if entry.value.style:
                put(entry, plain(text.strip().lower()))
                book.changed()
            continue
        if text is None or not is_template(text):
            continue
        parsed = parse(text)
        if parsed is None or parsed.typed:
            continue
        made = expression(text)
        if made is None:
            continue
        start = entry.value.start if isinstance(entry.value, Leaf) else entry.start
        put(entry, quoted(f"{{{{ {made} }}}}"))
        assert isinstance(entry.value, Leaf)
        entry.value.start = start
        book.note(entry.start, "guard-text", f"the guard compares text: `{text.strip()}` is now `{made}`")


def _guards(book: Book) -> Iterator[LayoutEntry]:
    for step in book.owners:
        holders: list[Map] = [step.body, *parts.arcs(step.body)]
        following = step.body.map("next")
        holders += parts.maps(following.get("arcs")) if following is not None else []
        for task in parts.tasks(step.body):
            policy = parts.policy(task.body)
            holders += policy.rules if policy is not None else []
        admit = parts.admit(step.body)
        if admit is not None and isinstance(admit.value, Map):
            holders += parts.maps(admit.value.get("rules"))
        seen: set[int] = set()
        for holder in holders:
            for key in ("when", "expr"):
                entry = holder.entry(key)
                if entry is not None and id(entry) not in seen:
                    seen.add(id(entry))
                    yield entry


def expression(text: str) -> str | None:
    """One expression with the meaning of a guard that is text around templates; None if it is not a comparison."""
    pieces: list[tuple[str, str]] = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _PIECE.match(text, position)
        if found is None:
            return None
        position = found.end()
        kind = found.lastgroup or ""
        pieces.append((kind, found[kind]))
    made: list[str] = []
    for index, (kind, word) in enumerate(pieces):
        near = [pieces[at][1] for at in (index - 1, index + 1) if 0 <= at < len(pieces)]
        made.append(_piece(kind, word, near, truth=_is_truth(pieces, index)))
    joined = " ".join(made).replace("( ", "(").replace(" )", ")")
    check = parse(f"{{{{ {joined} }}}}")
    return joined if check is not None and check.typed and _alternates(pieces) else None


def _is_truth(pieces: list[tuple[str, str]], index: int) -> bool:
    """Is the piece compared with `true` or `false`?"""
    for step in (-1, 1):
        sign, other = index + step, index + 2 * step
        if 0 <= other < len(pieces) and pieces[sign][1] in ("==", "!="):
            return pieces[other][1].strip("'\"").lower() in ("true", "false")
    return False


def _piece(kind: str, word: str, near: list[str], *, truth: bool) -> str:
    ordered = any(each in _ORDER for each in near)
    compared = any(each in ("==", "!=") for each in near)
    if kind == "template":
        inner = word.strip("'\"")[2:-2].strip()
        inner = inner if re.fullmatch(r"[\w.]+", inner) else f"({inner})"
        if ordered:
            return f"({inner} | float)"
        text = f"({inner} | string | lower)" if truth else f"({inner} | string)"
        return text if compared else inner
    if (kind == "word" and word in _WORDS) or word in _WORDS:
        return _WORDS[word]
    if word.strip("'\"").lower() in ("true", "false"):
        bare = word.strip("'\"").lower()
        return f"'{bare}'" if compared else bare
    if kind == "word" or (kind == "number" and not ordered):
        return f"'{word}'"
    return word


def _alternates(pieces: list[tuple[str, str]]) -> bool:
    """Are values separated by signs?"""
    flat = [(kind, word) for kind, word in pieces if word not in ("(", ")", "not")]
    values = [kind != "sign" and word not in _WORDS for kind, word in flat]
    return bool(values) and all(value == (index % 2 == 0) for index, value in enumerate(values)) and values[-1]


def inner_of(text: str | None) -> str | None:
    """The expression of a guard: of `{{ e }}` it is e; None if there is no condition or no expression."""
    if text is None:
        return None
    parsed = parse(text) if is_template(text) else None
    if parsed is None:
        return "true" if text.strip().lower() == "true" else None
    if parsed.typed:
        return text[parsed.tokens[0].end : parsed.tokens[-1].start].strip()
    return expression(text)
