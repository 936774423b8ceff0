"""The SQL tokenizer: quotes, comments, words, parameters, ends of statements."""

from __future__ import annotations

import pytest

from noetl.template.sql import StatementEnds, tokens


def cut(text: str) -> list[tuple[str, str]]:
    return [(token.kind + ("…" if token.open else ""), text[token.start : token.end]) for token in tokens(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a 'b''c' d", [("word", "a"), ("quoted", "'b''c'"), ("word", "d")]),
        ("'a' 'b", [("quoted", "'a'"), ("quoted…", "'b")]),
        ("'a''", [("quoted…", "'a''")]),
        (r"E'a\'b' c", [("quoted", r"E'a\'b'"), ("word", "c")]),
        (r"'a\' b", [("quoted", r"'a\'"), ("word", "b")]),
        (r"me'a\' b", [("word", "me"), ("quoted", r"'a\'"), ("word", "b")]),
        ('"a""b" `c`', [("quoted", '"a""b"'), ("quoted", "`c`")]),
        ("$$ ' $$ $x$ $$ ; $x$", [("quoted", "$$ ' $$"), ("quoted", "$x$ $$ ; $x$")]),
        ("$x$ a $y$", [("quoted…", "$x$ a $y$")]),
        ("$1 a$b $12", [("place", "$1"), ("word", "a$b"), ("place", "$12")]),
        ("a -- b '\nc", [("word", "a"), ("comment", "-- b '\n"), ("word", "c")]),
        ("-- b", [("comment…", "-- b")]),
        ("/* a /* b */ c */ d", [("comment", "/* a /* b */ c */"), ("word", "d")]),
        ("/* a", [("comment…", "/* a")]),
        ("x = :a AND y = :b_1", [("word", "x"), ("name", ":a"), ("word", "AND"), ("word", "y"), ("name", ":b_1")]),
        ("x::int :a::int", [("word", "x"), ("word", "int"), ("name", ":a"), ("word", "int")]),
        ("l[1:n] (x):y", [("word", "l"), ("sign", "["), ("number", "1"), ("word", "n"), ("sign", "]"),
                          ("sign", "("), ("word", "x"), ("sign", ")"), ("word", "y")]),
        ("a ? b", [("word", "a"), ("mark", "?"), ("word", "b")]),
        ("größe 1e5", [("word", "größe"), ("number", "1e5")]),
    ],
)  # fmt: skip
def test_a_text_is_cut_into_its_parts(text: str, found: list[tuple[str, str]]) -> None:
    assert cut(text) == found


def statements(text: str) -> list[str]:
    ends, made, begun = StatementEnds(), [], 0
    for token in tokens(text):
        if ends.at(token, text):
            made.append(text[begun : token.start].strip())
            begun = token.end
    return [*made, text[begun:].strip()]


@pytest.mark.parametrize(
    "parts",
    [
        ["SELECT 1", "SELECT ';'", "SELECT 2 -- ;\n", "DO $$ BEGIN; END $$"],
        [
            "CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; SELECT CASE WHEN 1 THEN 2 END; END",
            "SELECT 1",
        ],
        ["CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END", "SELECT 1"],
        ["CREATE RULE r AS ON INSERT TO a DO (DELETE FROM b; DELETE FROM c)", "SELECT 1"],
        ["CREATE TABLE begin_end (a int)", "SELECT CASE WHEN 1 THEN 2 END", "SELECT 1"],
    ],
)
def test_a_statement_ends_at_its_own_semicolon(parts: list[str]) -> None:
    assert statements(";".join(parts)) == [part.strip() for part in parts]


@pytest.mark.parametrize("bad", ["'", "/*", "$a$", "E'\\", '"', "--", "'" * 3, ":", "$", "/*/"])
def test_hostile_text_is_read_in_one_go(bad: str) -> None:
    text = bad * 20_000
    ends = [token.end for token in tokens(text)]
    assert ends == sorted(ends)
    assert ends == [] or ends[-1] <= len(text)
