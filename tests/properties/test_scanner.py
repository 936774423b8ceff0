"""The quick scanner gives the trees of Jinja2's lexer, or leaves the template to it."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from jinja2 import TemplateSyntaxError, nodes
from jinja2.lexer import TokenStream

from noetl.template import syntax
from noetl.template.scanner import paths_only, scan
from noetl.template.syntax import BadTemplate
from tests.sizes import examples

PIECES = st.sampled_from(
    [
        "{{", "}}", "{{ ", " }}", "{", "}", "(", ")", "[", "]", "a", "ctx.a", ".b", "output.data.x", " ", "  ", "\t", "\n",
        "|", " | default(1)", "'x'", '"y"', "'", '"', "'}}'", "\\", "1", "0", "007", "1.5", "1_0", "a1", "é", "==", "!=",
        "<=", "//", "**", "+", "-", "~", "not ", " in ", " is none", " if a else b", " and ", ",", ":", "{%", "{#", "-}}",
        "{{-", "none", "true", "not", "\r", "\x1f", "=", ";", "@", "text ",
    ]
)  # fmt: skip
TEMPLATES = st.lists(PIECES, max_size=14).map("".join)
EXPRESSIONS = TEMPLATES.map(lambda inner: f"a{{{{ {inner} }}}}b")


def by_jinja(source: str) -> list[nodes.Node] | None:
    reader = syntax._Reader("")
    lexer = syntax._LEXER
    try:
        reader.stream = TokenStream(syntax._counted(lexer.wrap(lexer.tokeniter(source, None))), None, None)
        return reader.subparse()
    except (TemplateSyntaxError, syntax._LimitExceeded, ValueError, SyntaxError):
        return None


def lines(body: list[nodes.Node]) -> list[tuple[str, int]]:
    return [(type(node).__name__, node.lineno) for each in body for node in (each, *each.find_all(nodes.Node))]


@given(TEMPLATES | EXPRESSIONS)
@example("{{{a}}}")
@example("{{ {'a': {'b': 1}}}}")
@example("{{ (" + "(" * 40 + "1" + ")" * 41 + " }}")
@example("{{ not not not not not a }}{{ none }}{{ a.none }}")
@settings(max_examples=examples(3_000), deadline=None)
def test_the_tree_is_that_of_jinja(source: str) -> None:
    expected = by_jinja(source)
    if scan(source) is None and paths_only(source) is None:
        return
    try:
        made = syntax.parse(source).body
    except BadTemplate:
        assert expected is None
        return
    assert made == expected
    assert expected is not None
    assert lines(made) == lines(expected)
