"""Hostile playbook texts: a table of different cases, each at most as large as the server accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"
NOOP = "workflow:\n- {step: start, tool: {kind: noop}}\n"
SIZE = 900_000


class Text(NamedTuple):
    name: str
    body: bytes


PLACES: dict[str, Callable[[str], str]] = {
    "a path": lambda value: f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: t, path: {value}}}\n{NOOP}",
    "a key": lambda value: f"{HEAD}{value}: 1\n{NOOP}",
    "a step": lambda value: f"{HEAD}workflow:\n- {{step: {value}, tool: {{kind: noop}}}}\n",
    "a target": lambda value: f"{HEAD}workflow:\n- {{step: a, tool: {{kind: noop}}, next: [{{step: {value}}}]}}\n",
    "a kind": lambda value: f"{HEAD}workflow:\n- {{step: a, tool: {{kind: {value}}}}}\n",
    "a workload": lambda value: f"{HEAD}workload: {{a: {value}}}\n{NOOP}",
    "code": lambda value: f"{HEAD}workflow:\n- {{step: a, tool: {{kind: python, code: {value}}}}}\n",
    "SQL": lambda value: (
        f"{HEAD}keychain: [{{name: k, kind: postgres_credential}}]\n"
        f"workflow:\n- {{step: a, tool: {{kind: postgres, auth: k, query: {value}}}}}\n"
    ),
    "a template": lambda value: f"{HEAD}workflow:\n- {{step: a, tool: {{kind: shell, argv: [{value}]}}}}\n",
    "a guard": lambda value: (
        f"{HEAD}workflow:\n- {{step: a, tool: {{kind: noop}}, next: [{{step: b, when: {value}}}]}}\n"
        "- {step: b, tool: {kind: noop}}\n"
    ),
}  # fmt: skip
VALUES = {
    "long text": '"' + "x" * SIZE + '"',
    "bidi": '"\u202e\u2066\u2069\u200f abc"',
    "an escaped NUL": '"a\\0b"',
    "a lone surrogate": '"\\ud800"',
    "combining characters": '"a' + "\u0301" * 20_000 + '"',
    "zero-width characters": '"' + "\u200b\u2060\ufeff" * 5_000 + '"',
    "a terminal sequence": '"\\e]0;x\\a\\e[31m"',
    "line separators": '"a\\Nb\\Lc\\Pd"',
    "nothing": '""',
    "a number": "1" * 5_000,
    "a list": "[" * 60 + "]" * 60,
    "a tag": "!!python/object/apply:os.system [id]",
}
TEMPLATES = {
    "deep parentheses": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "deep lists": "{{ " + "[" * 50_000 + "]" * 50_000 + " }}",
    "many filters": "{{ 'a'" + " | upper" * 50_000 + " }}",
    "a long sum": "{{ 1" + " + 1" * 100_000 + " }}",
    "many nots": "{{ " + "not " * 100_000 + "1 }}",
    "many minus signs": "{{ " + "-" * 200_000 + "1 }}",
    "conditions": "{{ " + "1 if 1 else " * 50_000 + "1 }}",
    "many templates": "{{ a }}" * 50_000,
    "open": "{{ " + "a" * SIZE,
    "only open": "{{" * 200_000,
    "statements": "{% if 1 %}" * 20_000,
    "a large power": "{{ 9 ** 9 ** 9 ** 9 }}",
    "a large product": "{{ 'a' * 10 ** 12 }}",
    "attributes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "many attributes": "{{ a" + ".b" * 100_000 + " }}",
    "a pattern": "{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaa!' | regex_replace('(a+)+$', 'x') }}",
    "a large pattern": "{{ 'a' | regex_replace('" + "(a{1,1000}){1,1000}" * 20 + "', 'x') }}",
    "names": "{{ " + " ~ ".join(f"n{n}" for n in range(50_000)) + " }}",
    "a text": "{{ '" + "a" * SIZE + "' }}",
    "escapes": "{{ '" + "\\u0041" * 100_000 + "' }}",
}
PARTS: dict[str, Callable[[int], str]] = {
    "steps without arcs": lambda count: "".join(f"- {{step: s{n}, tool: {{kind: noop}}}}\n" for n in range(count)),
    "a chain": lambda count: "".join(
        f"- {{step: s{n}, tool: {{kind: noop}}, next: [{{step: s{n + 1}}}]}}\n" for n in range(count)
    ) + f"- {{step: s{count}, tool: {{kind: noop}}}}\n",
    "a ring": lambda count: "".join(
        f"- {{step: s{n}, tool: {{kind: noop}}, next: [{{step: s{(n + 1) % count}}}]}}\n" for n in range(count)
    ),
    "a star": lambda count: "- step: s0\n  tool: {kind: noop}\n  next: ["
    + ", ".join(f"{{step: s{n}}}" for n in range(1, count)) + "]\n"
    + "".join(f"- {{step: s{n}, tool: {{kind: noop}}, next: [{{step: s0}}]}}\n" for n in range(1, count)),
    "the same step": lambda count: "- {step: a, tool: {kind: noop}}\n" * count,
    "unknown targets": lambda count: "".join(
        f"- {{step: s{n}, tool: {{kind: noop}}, next: [{{step: x{n}}}]}}\n" for n in range(count)
    ),
    "unknown kinds": lambda count: "".join(f"- {{step: s{n}, tool: {{kind: k{n}}}}}\n" for n in range(count)),
    "unknown keys": lambda count: "- step: a\n  tool: {kind: noop}\n" + "".join(f"  k{n}: 1\n" for n in range(count)),
    "many tasks": lambda count: "- step: a\n  tool:\n"
    + "".join(f"  - {{name: t{n}, kind: noop}}\n" for n in range(count)),
    "many rules": lambda count: "- step: a\n  tool:\n    kind: noop\n    spec:\n      policy:\n        rules:\n"
    + "".join(f"        - {{when: '{{{{ output.a == {n} }}}}', then: {{do: continue}}}}\n" for n in range(count)),
    "many templates": lambda count: "- step: a\n  tool: {kind: shell, argv: ["
    + ", ".join(f"'{{{{ workload.w{n} }}}}'" for n in range(count)) + "]}\n",
    "joins": lambda count: "- step: s0\n  tool: {kind: noop}\n  next: ["
    + ", ".join(f"{{step: s{n}}}" for n in range(1, count)) + "]\n"
    + "".join(f"- {{step: s{n}, tool: {{kind: noop}}, next: [{{step: e}}]}}\n" for n in range(1, count))
    + "- {step: e, tool: {kind: noop}, spec: {policy: {admit: {join: all}}}}\n",
}  # fmt: skip
RAW = {
    "nothing": b"", "spaces": b" " * SIZE, "line ends": b"\n" * SIZE, "tabs": b"\t" * 1_000, "NULs": b"\0" * 1_000,
    "a BOM of UTF-16": b"\xff\xfea\0", "invalid UTF-8": b"\xff\xfe\xfd", "a number": b"1", "a list": b"[1]", "text": b"abc",
    "null": b"~", "two documents": (HEAD + NOOP + "---\n" + HEAD + NOOP).encode(), "1,000 documents": b"--- a\n" * 1_000,
    "a directive": b"%YAML 9.9\n---\na: 1\n", "a tag directive": b"%TAG ! tag:x,2000:\n---\n!a b\n",
    "merge keys": b"a: &a {b: 1}\nc: {<<: *a}\n", "an open quote": b'a: "' + b"x" * 500_000,
    "a comment": b"#" + b"x" * SIZE, "many comments": b"#\n" * 400_000, "many anchors": b"".join(b"- &a%d 1\n" % n for n in range(50_000)),
    "an unknown alias": b"a: *b\n", "an alias of itself": b"&a [*a]\n", "a long key": b"? " + b"x" * 500_000 + b"\n: 1\n",
    "a mapping as a key": b"? {a: 1}\n: 1\n", "JSON": b'{"apiVersion": "noetl.io/v2"}', "HTML": b"<html>" * 10_000,
    "the same key": b"a: 1\n" * 50_000, "many keys": b"".join(b"k%d: 1\n" % n for n in range(60_000)),
    "binary": b"a: !!binary " + b"A" * 500_000, "dates": b"a: [" + b"2001-01-01, " * 20_000 + b"]", "infinite": b"a: [.inf, .nan, -.inf]",
    "octal and hex": b"a: [0o7777777777777777777777, 0x" + b"f" * 10_000 + b"]", "base 60": b"a: " + b"59:" * 20_000 + b"1",
    "dashes": b"- " * 40_000, "question marks": b"? " * 40_000, "colons": b": " * 40_000, "carriage returns": b"a: 1\r" * 10_000,
    "old dialects": b"apiVersion: noetl.io/v1\nkind: Playbook\nworkflow: []\n",
}  # fmt: skip


def texts() -> list[Text]:
    return [
        *_nested(),
        *_values(),
        *_templates(),
        *_parts(),
        *(Text(f"raw: {name}", body) for name, body in RAW.items()),
    ]


def _nested() -> Iterator[Text]:
    opening = {"lists": ("[", "]"), "mappings": ("{a: ", "}"), "both": ("[{a: ", "}]")}
    for (kind, (left, right)), depth, closed in product(opening.items(), (65, 1_000, 50_000), (True, False)):
        body = HEAD + "workload: " + left * depth + (right * depth if closed else "") + "\n" + NOOP
        yield Text(f"{depth} {kind}{'' if closed else ', open'}", body.encode())
    for depth in (65, 1_000):
        lines = "".join("  " * level + "a:\n" for level in range(1, depth))
        yield Text(f"{depth} levels of lines", f"{HEAD}workload:\n{lines}{NOOP}".encode())
    for width, levels in product((2, 10), (5, 10, 40)):
        laughs = "  a0: &a0 [x]\n" + "".join(
            f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]\n" for n in range(1, levels)
        )
        yield Text(f"aliases, {width} wide, {levels} levels", f"{HEAD}workload:\n{laughs}{NOOP}".encode())


def _values() -> Iterator[Text]:
    for (place, fill), (name, value) in product(PLACES.items(), VALUES.items()):
        yield Text(f"{name} as {place}", fill(value).encode(errors="surrogatepass"))


def _templates() -> Iterator[Text]:
    for (name, value), place in product(TEMPLATES.items(), ("a template", "a guard")):
        yield Text(f"template with {name} as {place}", PLACES[place](f'"{value}"').encode())


def _parts() -> Iterator[Text]:
    for (name, build), count in product(PARTS.items(), (10, 300, 3_000)):
        yield Text(f"{count} times {name}", (HEAD + "workflow:\n" + build(count)).encode())
