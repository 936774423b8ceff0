"""The public behaviour of compiled templates."""

from __future__ import annotations

import pytest

from noetl.template.compile import (
    BadTemplate,
    Fault,
    Moment,
    Read,
    TemplateError,
    compile_template,
    compile_value,
    is_template,
)
from noetl.template.limits import FUEL_MAX

SCOPE: dict[str, object] = {
    "ctx": {"n": 5, "s": "x", "l": [1, 2], "no": "false", "evil": "{{ ctx.n }}", "z": None},
    "output": {"status": "error", "http": {"status": 503}},
}


@pytest.mark.parametrize(
    ("source", "value", "typed"),
    [
        ("{{ ctx.n }}", 5, True),
        (" {{ ctx.l }}\n", [1, 2], True),
        ("\n\n{{ ctx.z }}", None, True),
        ("{{- ctx.n -}}", 5, True),
        ("{{ ctx.n }} ", 5, True),
        ("{{ '5' }}", "5", True),
        ("{{ '[1]' }}", "[1]", True),
        ("{{ 'null' }}", "null", True),
        ("{{ ctx.n }}.", "5.", False),
        ("{{ ctx.n }}{{ ctx.n }}", "55", False),
        ("{# a #}{{ ctx.n }}", "5", False),
        ("{{ ctx.n }}{% raw %}{% endraw %}", "5", False),
    ],
)
def test_one_expression_keeps_its_type_and_anything_else_is_text_d12(source: str, value: object, typed: bool) -> None:
    template = compile_template(source)
    found = template(SCOPE)
    assert (found, type(found), template.typed) == (value, type(value), typed)


def test_data_is_never_rendered_again_d12() -> None:
    assert compile_template("{{ ctx.evil }}")(SCOPE) == "{{ ctx.n }}"
    assert compile_template("a {{ ctx.evil }}")(SCOPE) == "a {{ ctx.n }}"


@pytest.mark.parametrize(
    ("source", "holds"),
    [
        ("{{ output.status == 'error' and output.http.status in [429, 500, 502, 503, 504] }}", True),
        ("{{ output.status == 'ok' }}", False),
        ("{{ ctx.no }}", False),
        ("{{ ctx.s }}", True),
        ("{{ ctx.missing }}", False),
        ("{{ ctx.missing.deeper }}", False),
        ("{{ ctx.l }}", True),
        ("{{ ctx.z }}", False),
        ("fal{{ 's' }}e", False),
        ("NO{{ '' }}", False),
        ("{{ 1 }}{{ 0 }}", True),
    ],
)
def test_a_guard_holds_or_not_d15(source: str, holds: bool) -> None:
    assert compile_template(source).holds(SCOPE) is holds


@pytest.mark.parametrize(
    "source", ["{{ ctx.n / 0 }}", "{{ ctx.n < 'x' }}", "{{ ctx.missing > 1 }}", "a{{ ctx.missing }}"]
)
def test_a_guard_that_fails_is_an_error_and_never_silently_false_d16(source: str) -> None:
    with pytest.raises(TemplateError):
        compile_template(source).holds(SCOPE)


def test_an_undefined_result_is_an_error_that_names_its_path_d14() -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ ctx.user.name }}")(SCOPE)
    assert error.value.message == '"{{ ctx.user.name }}": ctx.user.name is undefined'
    assert error.value.path == ("ctx", "user", "name")
    assert str(error.value) == error.value.message


def test_a_long_expression_is_shortened_in_its_error() -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + "ctx.n + " * 40 + "gone }}")(SCOPE)
    words, _, message = error.value.message.partition('": ')
    assert (len(words), words[-1], message) == (81, "…", "gone is undefined")


def test_a_template_reports_its_properties() -> None:
    template = compile_template("{{ ctx.n + 1 }}")
    assert (
        template.source,
        template.typed,
        template.constant,
        template.sole_path,
        template.calls,
        repr(template),
    ) == (
        "{{ ctx.n + 1 }}",
        True,
        False,
        None,
        frozenset(),
        "Template('{{ ctx.n + 1 }}')",
    )


def test_a_template_that_reads_and_calls_nothing_is_constant() -> None:
    sources = ["{{ 1 + 1 }}", "a{# #}", "{{ [1]|first }}", "{{ now() }}", "{{ a }}", "{{ range(3) }}"]
    assert [compile_template(source).constant for source in sources] == [True, True, True, False, False, True]


def test_only_text_with_braces_is_a_template() -> None:
    texts = ["{{ a }}", "{% a %}", "{# a #}", "a", "{ a }", "}}", "{a: {b: 1}}", "${x}"]
    assert [is_template(text) for text in texts] == [True, True, True, False, False, False, False, False]


def test_evaluation_spends_from_a_meter_of_its_own_each_time() -> None:
    template = compile_template("{{ ctx.l|map('string')|join }}")
    assert {template(SCOPE) for _ in range(FUEL_MAX // 10_000)} == {"12"}


def test_a_result_that_is_not_json_is_an_error() -> None:
    for source in ("{{ call }}", "{{ call ~ '' }}", "a{{ call }}"):
        with pytest.raises(TemplateError):
            compile_template(source)({"call": print})


def test_an_error_that_we_did_not_foresee_is_still_ours() -> None:
    class Odd(dict[str, object]):
        def get(self, *_: object) -> object:
            raise ZeroDivisionError("secret text")

    with pytest.raises(TemplateError) as error:
        compile_template("{{ a }}")(Odd())
    assert error.value.message == '"{{ a }}": it cannot be evaluated'


def test_a_value_is_built_with_its_templates_and_the_rest_is_unchanged() -> None:
    fixed = {"deep": [1, {"a": "b"}]}
    value = compile_value(
        {
            "url": "http://x/{{ ctx.n }}",
            "n": "{{ ctx.n }}",
            "list": ["{{ ctx.s }}", 1, None],
            "fixed": fixed,
            "{{ k }}": 1,
        }
    )
    built = value(SCOPE)
    assert built == {"url": "http://x/5", "n": 5, "list": ["x", 1, None], "fixed": fixed, "{{ k }}": 1}
    assert built["fixed"] is fixed
    assert value.reads == (Read(("ctx", "n"), 1, optional=False), Read(("ctx", "s"), 1, optional=False))


def test_a_value_without_templates_is_given_back_as_it_is() -> None:
    data = {"a": [1, 2]}
    value = compile_value(data)
    assert (value({}) is data, value.reads, value.calls) == (True, (), frozenset())


def test_a_value_tells_the_faults_of_all_its_templates() -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_value({"a": "{{ x|nope }}", "b": ["{{", {"c": "{{ open() }}"}]})
    assert [fault.code for fault in bad.value.faults] == ["unknown-filter", "bad-template", "not-allowed"]


def test_a_value_that_is_nested_without_end_is_refused() -> None:
    nested: list[object] = ["{{ a }}"]
    for _ in range(5_000):
        nested = [nested]
    with pytest.raises(BadTemplate, match="the structure is nested too deeply"):
        compile_value(nested)


def test_a_value_allows_statements_on_request() -> None:
    source = {"text": "{% if ctx.n %}yes{% endif %}"}
    assert compile_value(source, statements=True)(SCOPE) == {"text": "yes"}
    with pytest.raises(BadTemplate):
        compile_value(source)


def test_the_calls_of_a_value_are_those_of_its_templates_d17() -> None:
    value = compile_value(["{{ now() }}", "{{ uuid() }}"])
    assert value.calls == {"now", "uuid"}
    assert value({}, Moment("t", "s"))[0] == "t"


def test_a_bad_template_has_the_messages_of_its_faults() -> None:
    with pytest.raises(BadTemplate, match='there is no filter "nope"') as bad:
        compile_template("{{ a|nope }}")
    assert bad.value.faults == (Fault("unknown-filter", 'there is no filter "nope"', 1, "nope"),)
