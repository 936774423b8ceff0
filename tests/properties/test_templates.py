"""Any template: it does not crash, it returns only JSON, and its reads are known."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.template.compile import (
    FILTERS,
    METHODS,
    TESTS,
    BadTemplate,
    Moment,
    ScopePath,
    Template,
    TemplateError,
    compile_template,
    json_text,
)
from noetl.template.projection import PROJECTED, evaluate_parts
from noetl.template.values import PLAIN
from tests.sizes import examples

MOMENT = Moment("2026-01-31T12:00:00Z", "seed")
PIECES = [
    *(
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{{-",
        "-%}",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "|",
        ".",
        ",",
        ":",
        "~",
    ),
    *(
        "==",
        "<",
        "in ",
        "not ",
        "is ",
        "if ",
        "else ",
        "elif ",
        "endif ",
        "for ",
        "endfor ",
        "raw ",
        "endraw ",
    ),
    *(
        "set ",
        "a",
        "b",
        "1",
        "1.5",
        "'x'",
        '"',
        "'",
        "\\",
        "\r",
        "\n",
        " ",
        "+",
        "-",
        "*",
        "**",
        "%",
        "é",
        "\x1f",
    ),
    *(f"|{name}" for name in FILTERS),
    *(f" is {name} " for name in TESTS),
    *(f".{name}()" for name in METHODS),
]
NAMES = ["a", "b", "c", "missing"]
KEYS = ["x", "y", "items", "gone"]
LITERALS = ["0", "1", "-3", "2.5", "''", "'abc'", "'x'", "true", "none", "[]", "[1, 'x']", "{'x': 1}"]
SIGNS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"]

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | texts, inner, max_size=4),
    max_leaves=12,
)
scopes = st.fixed_dictionaries({"a": values, "b": values, "c": values})


def paths(names: list[str]) -> st.SearchStrategy[str]:
    steps = st.sampled_from([*(f".{key}" for key in KEYS), *(f"['{key}']" for key in KEYS), "[0]", "[-1]", "[1:]"])
    return st.builds(lambda name, rest: name + "".join(rest), st.sampled_from(names), st.lists(steps, max_size=3))


def calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arguments = st.lists(inner, max_size=2).map(", ".join)
    return st.one_of(
        st.builds("({})|{}({})".format, inner, st.sampled_from(list(FILTERS)), arguments),
        st.builds("({})|{}".format, inner, st.sampled_from(list(FILTERS))),
        st.builds("({}) is {}".format, inner, st.sampled_from([name for name in TESTS if name.isalpha()])),
        st.builds("({}).{}({})".format, inner, st.sampled_from(list(METHODS)), arguments),
        st.builds("({})|map('{}')".format, inner, st.sampled_from(list(FILTERS))),
        st.builds("({})|map(attribute='{}', default=0)".format, inner, st.sampled_from(KEYS)),
        st.builds("({})|selectattr('{}')".format, inner, st.sampled_from(KEYS)),
    )


def expressions(names: list[str] = NAMES) -> st.SearchStrategy[str]:
    return st.recursive(
        paths(names) | st.sampled_from(LITERALS),
        lambda inner: st.one_of(
            st.builds("({}) {} ({})".format, inner, st.sampled_from(SIGNS), inner),
            st.builds("not ({})".format, inner),
            st.builds("({}) if ({}) else ({})".format, inner, inner, inner),
            st.builds("[{}, {}]".format, inner, inner),
            st.builds("{{'k': {}}}".format, inner),
            calls(inner),
        ),
        max_leaves=6,
    )


def answer(source: str, scope: dict[str, object]) -> tuple[str, object]:
    """The value, or the error as comparable text."""
    try:
        return "value", compile_template(source, statements=True)(scope, MOMENT)
    except BadTemplate as bad:
        return "bad", bad.faults
    except TemplateError as error:
        # An unexpected exception, which is a bug, is the cause of the general error.
        if error.__cause__ is not None:
            raise
        return "error", error.message


def is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return type(value) in PLAIN


def only(scope: dict[str, object], reads: Iterable[ScopePath]) -> dict[str, object]:
    """The part of a scope that a template reads; lists are complete."""
    kept: dict[str, object] = {}
    for path in reads:
        source: object = scope
        target: dict[str, object] = kept
        for place, key in enumerate(path):
            if not isinstance(source, dict) or key not in source:
                break
            source = source[key]
            if place == len(path) - 1 or not isinstance(source, dict):
                target[str(key)] = source
                break
            inner = target.setdefault(str(key), {})
            if inner is source or not isinstance(inner, dict):
                break
            target = inner
    return kept


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=60))
@settings(max_examples=examples(1_000), deadline=None)
def test_no_text_crashes_the_compiler(source: str) -> None:
    word, found = answer(source, {"a": "x", "b": [1, {"x": 2}]})
    if word == "value":
        assert is_plain(found)
    else:
        assert word in ("bad", "error")
        assert found, "the error has no message"


@given(expressions(), scopes)
@settings(max_examples=examples(1_000), deadline=None)
def test_an_expression_always_gives_the_same_plain_json_or_error(words: str, scope: dict[str, object]) -> None:
    source = "{{ " + words + " }}"
    found = answer(source, scope)
    assert found == answer(source, scope)
    if found[0] == "value":
        assert is_plain(found[1])


@given(expressions(), scopes)
@settings(max_examples=examples(700), deadline=None)
def test_a_template_needs_only_the_paths_that_it_reads(words: str, scope: dict[str, object]) -> None:
    source = "{{ " + words + " }}"
    try:
        reads = compile_template(source).reads
    except BadTemplate:
        return
    # The longest paths first, so that a complete value replaces its parts.
    needed = only(scope, sorted({read.path for read in reads}, key=len, reverse=True))
    assert answer(source, needed) == answer(source, scope)


@given(
    expressions(["output.data", "output.data", "ctx", "input", "output", "output.gone"]),
    scopes,
    st.booleans(),
)
@settings(max_examples=examples(1_500), deadline=None)
def test_a_template_gives_the_same_over_picked_parts_as_over_the_data_d52(
    words: str, given: dict[str, object], asks: bool
) -> None:
    """Control does not have the data, and reads the parts that the worker put into the log."""
    source = "{{ " + words + " }}"
    scope = {"ctx": given["b"], "input": given["c"], "output": {"status": "ok", "data": given["a"]}}
    try:
        whole = compile_template(source)
    except BadTemplate:
        return
    lean = whole.projected(truth_only=asks)
    picked = msgspec.json.decode(msgspec.json.encode(dict(evaluate_parts(lean.parts, scope))))
    bare = {**scope, "output": {"status": "ok", "data": None}, PROJECTED: picked}
    assert said(lean, bare, asks=asks) == said(whole, scope, asks=asks)


def said(template: Template, scope: dict[str, object], *, asks: bool) -> object:
    try:
        return template.holds(scope, MOMENT) if asks else template(scope, MOMENT)
    except TemplateError as error:
        return "error", error.kind, error.message, error.path


@given(values)
@settings(max_examples=examples(300), deadline=None)
def test_a_value_in_a_text_is_json_again(value: object) -> None:
    if not isinstance(value, str):
        assert msgspec.json.decode(json_text(value)) == value
