"""The parts of a template that a worker evaluates, and what is recorded of them (D52)."""

from __future__ import annotations

import pytest

from noetl.output import JSON
from noetl.template.compile import TemplateError, compile_template, compile_value
from noetl.template.projection import ALL_DATA, PROJECTED, error_entry, evaluate_parts


def keys(text: str, *, asks: bool = False) -> list[str]:
    return [part.key for part in compile_template(text).projected(truth_only=asks).parts]


@pytest.mark.parametrize("text", ["{{ ctx.n }}", "{{ output.status }}", "{{ input.data }}", "text", "{{ uuid() }}"])
def test_a_template_that_reads_no_data_is_lean_as_it_is_d52(text: str) -> None:
    template = compile_template(text)
    assert template.projected() is template
    value = compile_value({"a": text})
    assert value.projected() is value


def test_a_lean_template_is_compiled_once() -> None:
    template = compile_template("{{ output.data.n }}")
    assert template.projected() is template.projected()
    assert template.projected(truth_only=True) is not template.projected()


def test_the_same_expression_has_the_same_key_at_any_position() -> None:
    [key] = keys("{{ output.data.n + 1 }}")
    assert keys("{{ ctx.m * (output.data.n   + 1) }}") == [key]
    assert [part.key for part in compile_value({"a": ["n: {{ output.data.n + 1 }}"]}).projected().parts] == [key]
    assert keys("{{ output.data.n + 2 }}") != [key]
    assert keys("{{ output.data['n + 1'] }}") != [key]


def test_a_part_used_only_for_its_truth_has_a_key_of_its_own() -> None:
    [value], [truth] = keys("{{ output.data.rows }}"), keys("{{ output.data.rows }}", asks=True)
    assert truth == f"?{value}"


@pytest.mark.parametrize(
    ("text", "asks", "kept"),
    [
        ("{{ output.data.rows }}", True, [True]),
        ("{{ output.data.rows or ctx.n }}", True, [True]),
        ("{{ output.data.rows or ctx.n }}", False, [[1, 2]]),
        ("{{ output.data.rows and ctx.n }}", False, [True]),
        ("{{ ctx.n and output.data.rows }}", False, [[1, 2]]),
        ("{{ ctx.n and output.data.rows }}", True, [True]),
        ("{{ ctx.n if output.data.rows else output.data.rows }}", False, [True, [1, 2]]),
        ("{{ [not output.data.none, ctx.n] }}", False, [True]),
        ("{{ output.data.empty and ctx.n }}", False, [""]),
        ("{{ output[ctx.n] }}", False, [{"rows": [1, 2], "empty": "", "none": None}]),
    ],
)
def test_a_true_value_is_stored_only_if_its_value_is_used_d52(text: str, asks: bool, kept: list[JSON]) -> None:
    scope = {"output": {"data": {"rows": [1, 2], "empty": "", "none": None}}}
    parts = compile_template(text).projected(truth_only=asks).parts
    assert [entry["is"] for _, entry in evaluate_parts(parts, scope)] == kept


def test_output_itself_is_everything_with_the_data_in_it_d52() -> None:
    projected = compile_template("{{ output }}").projected()
    picked = dict(evaluate_parts(projected.parts, {"output": {"data": [1]}}))
    assert picked == {ALL_DATA: {"is": [1]}}
    assert projected({"output": {"status": "ok", "data": None}, PROJECTED: picked}) == {
        "status": "ok",
        "data": [1],
    }


def test_an_error_entry_raises_an_error_of_its_kind_that_quotes_the_expression() -> None:
    projected = compile_template("{{ output.data.rows }}").projected()
    picked = {part.key: error_entry("payload-too-large", "it is large") for part in projected.parts}
    with pytest.raises(TemplateError) as caught:
        projected({"output": {}, PROJECTED: picked})
    assert caught.value.kind == "payload-too-large"
    assert caught.value.message == '"{{ output.data.rows }}": it is large'


def test_after_the_fuel_is_used_up_all_further_parts_are_errors() -> None:
    scope = {"output": {"data": list(range(10_000))}}
    values = [f"{{{{ output.data | map('string') | join('{n}') | length }}}}" for n in range(9)]
    found = [entry for _, entry in evaluate_parts(compile_value(values).projected().parts, scope)]
    assert "is" in found[0]
    assert "needs too much work" in found[-1]["error"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{{ output.data.n + 1 }}", "4afcab77165d6d8a"),
        (
            "{{ output.data.l | selectattr('id', 'eq', workload.id) | map(attribute='name') | list }}",
            "edde061aa39597ff",
        ),
        ("{{ output.data['a'][1:3] not in [(1, 2), {'k': -3}] and output.data is not none }}", "c80b1b3478c2689d"),
    ],
)
def test_keys_stay_the_same_because_logs_contain_them(text: str, key: str) -> None:
    assert keys(text) == [key]
