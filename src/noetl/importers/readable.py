"""Write plain data as readable YAML: short values on one line, double quotes, templates unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from noetl.output import JSON
from noetl.playbook.source import resolve
from noetl.template.values import contains_template

WIDTH: Final = 110
_PLAIN: Final = re.compile(r"[A-Za-z_/][\w /.-]*(?<! )\Z", re.ASCII)


def readable(value: dict[str, JSON], indent: str = "") -> str:
    """The data as YAML text. Parsing the text gives exactly the same data."""
    return "".join(f"{line}\n" for line in _mapping(value, indent))


def _mapping(value: dict[str, JSON], indent: str) -> Iterator[str]:
    for key, each in value.items():
        yield from _entry(f"{indent}{_text(key)}:", each, indent)


def _entry(head: str, value: JSON, indent: str) -> Iterator[str]:
    short = _inline(value)
    if not isinstance(value, dict | list) or not value or _fits(head, short, value):
        yield f"{head} {short}"
        return
    if head.endswith(":"):
        yield head
    if isinstance(value, dict):
        yield from _mapping(value, f"{indent}  ")
    else:
        for item in value:
            yield from _item(item, f"{indent}  ")


def _item(value: JSON, indent: str) -> Iterator[str]:
    short = _inline(value)
    if not isinstance(value, dict | list) or not value or _fits(f"{indent}-", short, value):
        yield f"{indent}- {short}"
        return
    lines = _mapping(value, f"{indent}  ") if isinstance(value, dict) else _items(value, f"{indent}  ")
    for number, line in enumerate(lines):
        yield f"{indent}- {line.removeprefix(f'{indent}  ')}" if number == 0 else line


def _items(value: list[JSON], indent: str) -> Iterator[str]:
    for item in value:
        yield from _item(item, indent)


def _fits(head: str, short: str, value: JSON) -> bool:
    return len(head) + len(short) < WIDTH and not contains_template(value)


def _inline(value: JSON) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{_text(key)}: {_inline(each)}" for key, each in value.items())
        return "{ " + pairs + " }" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """A string as a YAML scalar: without quotes if YAML then reads the same string."""
    if _PLAIN.match(text) and isinstance(resolve(text), str):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(
        r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]", lambda each: f"\\u{ord(each[0]):04x}", quoted
    )
