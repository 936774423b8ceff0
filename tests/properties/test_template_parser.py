"""The quick parser gives the trees of Jinja2, or leaves the template to it."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from noetl.template import nodes
from noetl.template.jinja import OversizedTemplate, UnreadableTemplate, read
from noetl.template.parser import parse_common
from tests.sizes import examples

PIECES = st.sampled_from(
    [
        "{{", "}}", "{{ ", " }}", "{", "}", "(", ")", "[", "]", "a", "ctx.a", ".b", "output.data.x", " ", "  ", "\t", "\n",
        "|", " | default(1)", "'x'", '"y"', "'", '"', "'}}'", "\\", "'\\n'", "1", "0", "007", "1.5", ".5", "1_0", "a1", "é",
        "==", "!=", "<=", "//", "**", "+", "-", "~", "*", "%", "not ", " in ", " not in ", " is none", " is not ", " is in ",
        " if a else b", " if ", " else ", " and ", " or ", ",", ":", "=", "k=1", "f(", "{'a': ", "{%", "{#", "-}}", "{{-",
        "none", "true", "not", "\r", "\x1f", ";", "@", "text ",
    ]
)  # fmt: skip
TEMPLATES = st.lists(PIECES, max_size=14).map("".join)
EXPRESSIONS = TEMPLATES.map(lambda inner: f"a{{{{ {inner} }}}}b")

# Expressions that are mostly well-formed.
VALUES = st.sampled_from(["a", "ctx.b.c", "1", "2.5", "'x'", "none", "true", "output.data.x", "[]", "()", "'x' 'y'"])
GROWN = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.tuples(
            inner,
            st.sampled_from(
                ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "and", "or", "in", "not in", "if"]
            ),
            inner,
        ).map(" ".join),
        st.tuples(st.sampled_from(["not ", "-", "+", "- -"]), inner).map("".join),
        inner.map("({})".format),
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        st.lists(inner, max_size=3).map(lambda each: f"({', '.join(each)},)"),
        st.tuples(inner, inner).map(lambda pair: f"{{'k': {pair[0]}, {pair[1]}: 1,}}"),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]} | default({pair[1]}) | join(d={pair[1]},)"),
        st.tuples(inner, st.sampled_from(["is", "is not"]), st.sampled_from(["none", "divisibleby 3", "in [1]"])).map(
            " ".join
        ),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]}[{pair[1]}].d(1, {pair[1]}).e"),
        st.tuples(inner, inner, inner).map(lambda each: f"{each[0]} if {each[1]} else {each[2]}"),
        st.tuples(inner, inner).map(", ".join),
    ),
    max_leaves=8,
).map(lambda inner: f"text\n{{{{ {inner} }}}}\n")


def by_jinja(source: str) -> list[nodes.Node] | None:
    try:
        return read(source)[0]
    except (UnreadableTemplate, OversizedTemplate):
        return None


@given(TEMPLATES | EXPRESSIONS | GROWN)
@example("{{{a}}}")
@example("{{ {'a': {'b': 1}}}}")
@example("{{ (" + "(" * 40 + "1" + ")" * 41 + " }}")
@example("{{ not not not not not a }}{{ none }}{{ a.none }}")
@example("{{ a is defined if b else c }}{{ a is none or b }}{{ a is none is none }}")
@example("{{ a ~ b ~ c }}{{ (a ~ b) ~ c }}{{ a ** b ** c }}{{ -a ** 2 }}{{ -a | abs }}{{ a - b - c }}")
@example("{{ a < b <= c }}{{ a not in b in c }}{{ not a in b }}{{ a.b.0 }}{{ a[1:2] }}{{ a[1, 2] }}{{ 1.5.x }}")
@example("{{ f(*a) }}{{ a | b.c }}{{ a | b(1)(2) }}{{ a.not }}")
@settings(max_examples=examples(3_000), deadline=None)
def test_the_tree_is_that_of_jinja(source: str) -> None:
    made = parse_common(source)
    if made is not None:
        assert made == by_jinja(source)  # the lines, too


def test_common_templates_are_not_left_to_jinja() -> None:
    for source in (
        "plain text",
        "{{ output.data.items | selectattr('id', 'eq', 3) | map(attribute='name') | list | length > 0 }}",
        "SELECT * FROM t\nWHERE a = {{ ctx.a }}\n  AND b IN {{ input.b | default([1, 2.5, -3]) | bind_list }}\n",
        "{{ {'a': [x, 'y', none], 'b': (1 if a is not none and not b else c) } }}",
        "{{ output.status == 'error' and output.http.status in [429, 500] or iter.n not in ctx.seen }}",
        "Bearer {{ keychain.api.token }}\\n",
    ):
        assert parse_common(source) is not None, source
