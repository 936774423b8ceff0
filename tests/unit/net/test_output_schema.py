"""`spec.validate`: JSON Schemas for outputs, compared with an independent validator."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.net.output_schema import CHECKS_MAX, KEYWORDS, PROBLEMS_MAX, compile_schema
from noetl.output import JSON, Failure, Output, failed
from tests.playbooks import checked, problem_places, task


def problems(schema: JSON, data: JSON) -> list[str]:
    compiled, faults = compile_schema(schema)
    assert compiled is not None, faults
    return compiled.problems(data)


ORDERS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["id", "price"],
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": "number", "minimum": 0},
            "tags": {"$ref": "#/$defs/tags"},
        },
        "additionalProperties": False,
    },
    "$defs": {"tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}}},
}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([], []),
        ([{"id": 1, "price": 2.5, "tags": ["a"]}], []),
        ([{"id": 1.0, "price": 2}], []),
        ({"id": 1}, ["output.data: expected a list, got a mapping"]),
        ([{"id": "1", "price": 2}], ["output.data[0].id: expected an integer, got text"]),
        ([{"id": True, "price": -1}],
         ["output.data[0].id: expected an integer, got a boolean", "output.data[0].price: it is not at least 0"]),
        ([{"id": 1}], ["output.data[0].price: it is missing"]),
        ([{"id": 1, "price": 1, "x": 2}], ["output.data[0].x: the schema does not allow it"]),
        ([{"id": 1, "price": 1, "tags": ["A b"]}], ["output.data[0].tags[0]: it does not match the pattern"]),
    ],
)  # fmt: skip
def test_problems_name_the_place_and_not_the_value(data: JSON, expected: list[str]) -> None:
    assert problems(ORDERS, data) == expected


def test_an_output_that_does_not_fit_is_an_error_that_keeps_its_data() -> None:
    compiled, _ = compile_schema({"type": "object", "required": ["a", "b"]})
    assert compiled is not None
    output = Output(data={"c": 1}, own={"http": {"status": 200}})
    found = ["output.data.a: it is missing", "output.data.b: it is missing"]
    message = "the output does not fit spec.validate: output.data.a: it is missing (and 1 more)"
    assert compiled.applied(output) == Output(
        status="error",
        data={"c": 1},
        own={"http": {"status": 200}},
        error=Failure(kind="validation", message=message, details={"problems": found}),
    )
    for kept in (Output(data={"a": 1, "b": 2}), failed("http", "no answer")):
        assert compiled.applied(kept) is kept


def test_only_the_first_problems_are_listed() -> None:
    assert len(problems({"items": {"type": "string"}}, list(range(100)))) == PROBLEMS_MAX


def test_the_number_of_checks_is_limited() -> None:
    found = problems({"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}, list(range(CHECKS_MAX // 2)))
    assert [each.partition(": ")[2] for each in found] == [
        f"there is too much data to check (limit CHECKS_MAX: {CHECKS_MAX:,})"
    ]


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert problems({"$ref": "#"}, 1) == ["the schema refers to itself without end"]
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "required": ["n"]}
    assert problems(tree, {"n": 1, "left": {"n": 2, "right": {}}}) == ["output.data.left.right.n: it is missing"]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2026-01-31", "2026-13-01"),
        ("time", "12:00:00Z", "25:00:00Z"),
        ("date-time", "2026-01-31T12:00:00.5+01:00", "2026-01-31"),
        ("uuid", "0199b3c2-0000-7000-8000-000000000000", "0199b3c2"),
        ("email", "a@example.com", "example.com"),
        ("uri", "https://example.com/x?y=1", "/x"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
    ],
)
def test_formats_are_checked(name: str, good: str, bad: str) -> None:
    assert problems({"format": name}, good) == []
    assert problems({"format": name}, bad) == [f"output.data: it is not of the format {name}"]
    assert problems({"format": name}, 3) == []


@pytest.mark.parametrize(
    ("schema", "path", "fix"),
    [
        ({"type": "strin"}, ("type",), None),
        ({"requried": ["a"]}, ("requried",), "required"),
        ({"properties": {"a": {"typ": "string"}}}, ("properties", "a", "typ"), "type"),
        ({"items": [{}]}, ("items",), None),
        ({"anyOf": []}, ("anyOf",), None),
        ({"pattern": "(a"}, ("pattern",), None),
        ({"pattern": "(?=a)"}, ("pattern",), None),
        ({"patternProperties": {"(": {}}}, ("patternProperties", "("), None),
        ({"$ref": "#/$defs/no"}, ("$ref",), None),
        ({"$ref": "https://example.com/schema"}, ("$ref",), None),
        ({"$defs": {"a": {"minimum": "1"}}}, ("$defs", "a", "minimum"), None),
        ({"minLength": -1}, ("minLength",), None),
        ({"format": "hostname"}, ("format",), None),
        ({"then": {}}, ("then",), None),
        ({"allOf": [{"x": 1}]}, ("allOf", 0, "x"), None),
        (3, (), None),
    ],
)  # fmt: skip
def test_faults_of_a_schema_are_found_before_the_run(schema: JSON, path: tuple[str, ...], fix: str | None) -> None:
    compiled, faults = compile_schema(schema)
    assert compiled is None
    assert [(fault.path, fault.fix) for fault in faults] == [(path, fix)]


def test_the_check_points_at_the_keyword() -> None:
    body = task("kind: noop\nspec:\n  validate:\n    type: object\n    requried: [a]\n")
    (found,) = checked(body).problems
    assert problem_places([found]) == [("bad-schema", 11, 11)]
    assert found.message == '"requried" is not a keyword of JSON Schema that can be used here; did you mean "required"?'
    assert checked(task("kind: noop\nspec: {validate: {type: object, required: [a]}}")).problems == ()


@pytest.mark.parametrize("body", ["executor: {spec: {validate: {}}}\n", "", "loop"])
def test_validate_belongs_to_a_task(body: str) -> None:
    steps = "workflow:\n- step: start\n  %s\n  tool: {kind: noop}\n"
    inside = {"": "spec: {validate: {}}", "loop": "loop: {in: [1], iterator: i, spec: {validate: {}}}"}.get(
        body, "desc: x"
    )
    found = checked((body if body.startswith("executor") else "") + steps % inside).errors
    assert [(each.code, '"validate" belongs under the "spec" of a task' in each.message) for each in found] == [
        ("unknown-key", True)
    ]


names = st.sampled_from(["a", "b", "c"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([0.5, 1.0, 2.5, -1.5]),
    st.sampled_from(["", "a", "ab", "c1"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=3)),
    max_leaves=8,
)
types = st.sampled_from(["null", "boolean", "string", "integer", "number", "array", "object"])
counts = st.integers(0, 3)
bounds = st.one_of(st.integers(-2, 4), st.sampled_from([0.5, 1.5]))


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(names, inner, max_size=2)
    many = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(types, st.lists(types, min_size=1, max_size=2, unique=True)),
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": values,
            "minimum": bounds, "maximum": bounds, "exclusiveMinimum": bounds, "exclusiveMaximum": bounds,
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": counts, "maxLength": counts, "minItems": counts, "maxItems": counts,
            "minProperties": counts, "maxProperties": counts,
            "pattern": st.sampled_from(["^a", "b$", "[0-9]"]),
            "properties": named, "additionalProperties": inner, "propertyNames": inner, "dependentSchemas": named,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "[bc]"]), inner, max_size=2),
            "required": st.lists(names, max_size=2, unique=True),
            "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=2),
            "prefixItems": many, "items": inner, "contains": inner, "uniqueItems": st.booleans(),
            "allOf": many, "anyOf": many, "oneOf": many, "not": inner, "if": inner,
        },
    )  # fmt: skip


schemas = st.recursive(st.booleans(), keywords, max_leaves=6)


@settings(max_examples=400)
@given(schema=schemas, data=values, then=schemas, most=counts)
def test_it_agrees_with_an_independent_validator(schema: Any, data: Any, then: Any, most: int) -> None:
    if isinstance(schema, dict):
        schema = {**schema, "$defs": {"then": then}}
        if "if" in schema:
            schema |= {"then": {"$ref": "#/$defs/then"}, "else": {"not": {"$ref": "#/$defs/then"}}}
        if "contains" in schema:
            schema |= {"minContains": 0, "maxContains": most}
    validator = jsonschema.Draft202012Validator(schema)
    assert (problems(schema, data) == []) == validator.is_valid(data)


def test_every_keyword_of_the_generated_schemas_is_supported() -> None:
    assert {"then", "else", "minContains", "maxContains", "$ref", "$defs", "format"} <= set(KEYWORDS)
