"""YAML with positions: values, limits, and rejected text."""

from __future__ import annotations

import tracemalloc

import pytest

from noetl.errors import Mark
from noetl.output import JSON
from noetl.playbook.source import Mapping, ParsedDocument, parse, plain


def value(text: str) -> JSON:
    parsed = parse(text)
    assert parsed.problems == []
    return plain(parsed.document.root)


def codes(parsed: ParsedDocument) -> list[tuple[str, int, int]]:
    return [(problem.code, problem.at.line, problem.at.column) for problem in parsed.problems]


def test_quoted_scalars_stay_text() -> None:
    assert value("a: 'true'\nb: \"12\"\nc: |\n  10\n") == {"a": "true", "b": "12", "c": "10\n"}


def test_every_value_and_key_knows_its_line_and_column() -> None:
    document = parse("a:\n  - b: 1\n    ключ: {c: 'x'}\n", "p.yaml").document
    assert document.at(("a", 0, "b")) == Mark("p.yaml", 2, 8)
    assert document.key_at(("a", 0, "ключ", "c")) == Mark("p.yaml", 3, 12)
    assert document.at(("a", 0, "missing", "deeper")) == Mark("p.yaml", 2, 5)


def test_lines_end_at_the_line_breaks_of_yaml() -> None:
    document = parse("a: 1\r\nb: 2\rc: 3\x85d: 4\u2028e: 5\u2029f: |\r\n  x\r\n\r\n  y\ng:").document
    places = [(mark.line, mark.column) for key in "abcdefg" for mark in (document.key_at((key,)),)]
    assert places == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (10, 1)]
    assert document.at(("g",)) == Mark("<playbook>", 10, 3)


def test_a_word_is_found_inside_its_text() -> None:
    document = parse("ü: 'x {{ ctx.y }}'\nt: |\n  one\n  {{ two }} {{ two_more }}\n").document
    assert document.locate(("ü",), "ctx.y") == Mark("<playbook>", 1, 10)
    assert document.locate(("t",), "two_more") == Mark("<playbook>", 4, 16)
    assert document.locate(("t",), "absent") == Mark("<playbook>", 2, 4)


def test_a_duplicate_key_is_reported_with_its_first_position() -> None:
    parsed = parse("a: 1\nb: {c: 1, c: 2}\na: 2\n")
    assert codes(parsed) == [("duplicate-key", 2, 11), ("duplicate-key", 3, 1)]
    assert parsed.problems[1].related[0].at == Mark("<playbook>", 1, 1)
    assert plain(parsed.document.root) == {"a": 1, "b": {"c": 1}}


def test_all_problems_up_to_a_fatal_one_are_reported_at_once() -> None:
    text = "1: a\n? [x]\n: b\n<<: {}\nt: !!str 3\nn: .nan\nbig: 99999999999999999999\nhuge: 1e999\n"
    assert codes(parse(text)) == [
        ("yaml-key", 1, 1),
        ("yaml-key", 2, 3),
        ("yaml-merge", 4, 1),
        ("yaml-tag", 5, 4),
        ("bad-number", 6, 4),
        ("bad-number", 7, 6),
        ("bad-number", 8, 7),
    ]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 100_000, ("yaml-too-deep", 1, 65)),
        ("".join(" " * n + "-\n" for n in range(100)), ("yaml-too-deep", 65, 65)),
        (BOMB, ("yaml-alias-limit", 5, 8)),
        ("&x [*x]", ("yaml-alias-cycle", 1, 5)),
        ("a: &x {b: {c: *x}}", ("yaml-alias-cycle", 1, 15)),
        ("a: *missing", ("yaml-syntax", 1, 4)),
        ("a: 1\n---\nb: 2", ("yaml-documents", 2, 1)),
        ("a: b: c", ("yaml-syntax", 1, 5)),
        ("a: [1, 2\nb: 3", ("yaml-syntax", 2, 2)),
        ("\tx: 1", ("yaml-syntax", 1, 1)),
        ("ab\x00", ("yaml-encoding", 1, 3)),
        ("a: 1\nb: \x07", ("yaml-encoding", 2, 4)),
        ("a: \ud800", ("yaml-encoding", 1, 4)),
        ("x" * (1 << 20) + "y", ("yaml-too-large", 1, 1)),
        ("- [" + "1," * 200_000 + "]", ("yaml-too-many-values", 1, 400_000)),
    ],
)
def test_hostile_text_is_refused_with_a_position_and_little_memory(text: str, told: tuple[str, int, int]) -> None:
    tracemalloc.start()
    parsed = parse(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert codes(parsed) == [told]
    assert parsed.document.root is None
    assert peak < 64 << 20


def test_the_alias_bomb_is_small() -> None:
    assert len(BOMB) < 400


def test_bytes_must_be_utf_8_and_may_begin_with_a_byte_order_mark() -> None:
    assert codes(parse(b"\xff\xfea\x00")) == [("yaml-encoding", 1, 1)]
    assert codes(parse(b"a: 1\nb: \xe9")) == [("yaml-encoding", 2, 1)]
    assert plain(parse(b"\xef\xbb\xbfa: 1").document.root) == {"a": 1}


def test_aliases_within_the_limit_expand_to_their_values() -> None:
    assert value("a: &x {k: [1]}\nb: *x\n") == {"a": {"k": [1]}, "b": {"k": [1]}}


def test_an_alias_counts_with_the_depth_of_its_value() -> None:
    deep = "[" * 40 + "]" * 40
    assert codes(parse(f"a: &d {deep}\nb: {'[' * 30}*d{']' * 30}")) == [("yaml-too-deep", 2, 34)]


def test_an_empty_text_has_no_root() -> None:
    assert parse("").document.root is None
    assert parse("# only a comment\n").problems == []
    assert isinstance(parse("{}").document.root, Mapping)
