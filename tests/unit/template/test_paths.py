"""Names, lookups, and the paths that they read."""

from __future__ import annotations

import pytest

from noetl.template.compile import BadTemplate, Read, TemplateError, compile_template

SCOPE = {
    "ctx": {
        "user": {"name": "Ada", "tags": ["x", "y"]},
        "key": "name",
        "items": 5,
        "n": 1,
        "a b": 3,
        "deep": {"l": [[7]]},
    },
    "word": "hello",
}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("ctx.user.name", "Ada"),
        ("ctx['user']['name']", "Ada"),
        ("ctx.user[ctx.key]", "Ada"),
        ("ctx.user.tags[0]", "x"),
        ("ctx.user.tags.1", "y"),
        ("ctx.user.tags[-1]", "y"),
        ("ctx.user.tags[ctx.n]", "y"),
        ("ctx.user.tags[1:]", ["y"]),
        ("ctx.user.tags[::-1]", ["y", "x"]),
        ("ctx.user.tags[:ctx.n]", ["x"]),
        ("ctx.deep.l[0][0]", 7),
        ("ctx.items", 5),
        ("ctx['a b']", 3),
        ("word[1]", "e"),
        ("word[1:3]", "el"),
        ("{'a': [1, {'b': 2}]}.a[1].b", 2),
        ("ctx.user.tags[ctx.n:][0]", "y"),
    ],
)
def test_a_path_is_looked_up(words: str, value: object) -> None:
    assert compile_template("{{ " + words + " }}")(SCOPE) == value


@pytest.mark.parametrize(
    ("words", "named", "path"),
    [
        ("nothing", "nothing", ("nothing",)),
        ("ctx.user.age", "ctx.user.age", ("ctx", "user", "age")),
        ("ctx.nobody.name.first", "ctx.nobody.name.first", ("ctx", "nobody", "name", "first")),
        ("ctx.user.tags[9]", "ctx.user.tags[9]", ("ctx", "user", "tags", 9)),
        ("ctx['no key']", 'ctx["no key"]', ("ctx", "no key")),
        ("ctx.user[word]", 'ctx.user["hello"]', None),
        ("ctx.user[word].more", "ctx.user[…].more", None),
        ("ctx.n[1:]", "ctx.n[…]", None),
        ("ctx.user.tags[true]", "ctx.user.tags[a boolean]", None),
        ("word.upper", "word.upper", ("word", "upper")),
        ("''.__class__", ".__class__ of the value", None),
        ("[1][0].real", "[0].real of the value", None),
        ("ctx.user.tags.append", "ctx.user.tags.append", ("ctx", "user", "tags", "append")),
    ],
)
def test_a_missing_value_is_named_by_its_path_d14(words: str, named: str, path: object) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert (error.value.message, error.value.path) == (f'"{{{{ {words} }}}}": {named} is undefined', path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ctx[missing]", "missing is undefined"),
        ("word[missing:]", "missing is undefined"),
        ("word['a':]", "the bounds of a slice are whole numbers, not text"),
        ("word[::0]", "the step of a slice must not be 0"),
    ],
)
def test_an_invalid_subscript_is_an_error(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message.endswith(message)


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("{{ output.http.status }}", [Read(("output", "http", "status"), 1, optional=False)]),
        ("{{ a['b'][0].c }}", [Read(("a", "b", 0, "c"), 1, optional=False)]),
        ("{{ a[b.c].d }}", [Read(("a",), 1, optional=False), Read(("b", "c"), 1, optional=False)]),
        ("{{ a.b[1:] }}", [Read(("a", "b"), 1, optional=False)]),
        ("{{ a.b|default(c) }}", [Read(("a", "b"), 1, optional=True), Read(("c",), 1, optional=False)]),
        ("{{ a.b is defined }}", [Read(("a", "b"), 1, optional=True)]),
        ("{{ a is none }}", [Read(("a",), 1, optional=False)]),
        ("{{ a or not b }}", [Read(("a",), 1, optional=True), Read(("b",), 1, optional=True)]),
        (
            "{{ a if b else c }}",
            [
                Read(("b",), 1, optional=True),
                Read(("a",), 1, optional=False),
                Read(("c",), 1, optional=False),
            ],
        ),
        ("x\n{{ a }}\n{{ a }}", [Read(("a",), 2, optional=False), Read(("a",), 3, optional=False)]),
        ("{{ a.items() }}", [Read(("a",), 1, optional=False)]),
        ("{{ 'a.b' }}", []),
    ],
)
def test_a_template_reports_the_paths_that_it_reads(source: str, reads: list[Read]) -> None:
    assert list(compile_template(source).reads) == reads


def test_the_variable_of_a_loop_is_not_read_from_the_scope() -> None:
    template = compile_template("{% for x in a.b %}{{ x.c }}{{ loop.index }}{% endfor %}{{ x }}", statements=True)
    assert template.reads == (Read(("a", "b"), 1, optional=False), Read(("x",), 1, optional=False))


def test_only_a_template_that_is_one_path_has_a_sole_path() -> None:
    paths = [
        compile_template(source).sole_path
        for source in (
            "{{ output.ref }}",
            " {{ a['b'][0] }}\n",
            "{{ a|upper }}",
            "{{ a }}!",
            "{{ a[b] }}",
            "{{ 1 }}",
        )
    ]
    assert paths == [("output", "ref"), ("a", "b", 0), None, None, None, None]


def test_a_path_may_not_be_endless() -> None:
    with pytest.raises(BadTemplate, match="a path is too long"):
        compile_template("{{ a" + ".b" * 65 + " }}")
