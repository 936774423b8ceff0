"""The JSON Schema accepts what the reader accepts, and rejects what a schema can reject."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from noetl.output import JSON
from noetl.playbook.json_schema import json_schema
from noetl.playbook.problems import CODES
from noetl.playbook.reader import read
from noetl.playbook.source import parse, plain
from tests.playbooks import HEAD, kinds

ROOT = Path(__file__).parents[3]
GOOD = [
    *sorted((ROOT / "examples").glob("*.yaml")),
    *sorted((ROOT / "tests/fixtures/seeds").glob("004*.yaml")),
]
REJECTS = sorted((ROOT / "tests/fixtures/rejects").glob("*.yaml"))
PROBLEMS = [
    ROOT / f"tests/fixtures/problems/{name}.yaml"
    for name, code in CODES.items()
    # A schema also detects these two, although they belong to other levels.
    if code.level != "L1" and name not in ("not-a-guard", "unknown-reducer")
]
BYTES_MAX = 250_000  # an editor reads it at every start

# Errors of the shape that a schema cannot detect, and why.
BEYOND_A_SCHEMA = {
    "duplicate-step": "a name is compared with other names",
    "duplicate-task": "a name is compared with other names",
    "duplicate-name": "a name is compared with other names",
    "duplicate-field": "two places are compared",
    "conflicting-values": "two places are compared",
    "misplaced-key": "it depends on another key",
    "rule-order": "it depends on the place in the list",
    "else-skip": "it depends on what stands around it",
}


@cache
def schema() -> dict[str, JSON]:
    return json_schema(kinds())


def complaints(text: str) -> list[str]:
    document, problems = parse(text)
    assert not problems
    validator = Draft202012Validator(schema())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(plain(document.root))]


def of(body: str) -> list[str]:
    return complaints(HEAD + "workflow:\n" + body)


def refused(text: str) -> bool:
    """Does the reader report an error of level L2 that a schema can detect?"""
    found = {each.code for each in read(text, kinds()).problems if each.severity == "error"}
    return any(CODES[code].level == "L2" and code not in BEYOND_A_SCHEMA for code in found)


def test_it_is_a_schema_of_draft_2020_12() -> None:
    Draft202012Validator.check_schema(schema())
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert list(schema())[:3] == ["$schema", "$id", "title"]


def test_it_is_small_enough_for_an_editor() -> None:
    assert len(json.dumps(schema())) < BYTES_MAX


def test_a_key_of_several_records_is_defined_once() -> None:
    definitions = schema()["$defs"]
    assert definitions["http-task"]["properties"]["headers"] == definitions["input-of-http"]["properties"]["headers"]
    assert definitions["http-task"]["properties"]["headers"] == {"$ref": "#/$defs/key.headers"}
    assert definitions["key.headers"]["description"]


def test_every_reference_leads_to_a_definition_and_every_definition_is_used() -> None:
    used = {each["$ref"] for each in objects(schema()) if "$ref" in each}
    assert used == {f"#/$defs/{name}" for name in schema()["$defs"]}


def test_every_record_refuses_unknown_keys_d4() -> None:
    closed = [each for each in objects(schema()) if "properties" in each and "additionalProperties" in each]
    assert {each["additionalProperties"] for each in closed} == {False}
    assert len(closed) > 60


def test_every_key_has_a_description() -> None:
    definitions = schema()["$defs"]
    shared = {f"#/$defs/{name}": definition for name, definition in definitions.items()}
    silent = [
        f"{name}.{key}"
        for name, definition in definitions.items()
        for key, value in definition.get("properties", {}).items()
        if not shared.get(value.get("$ref"), value).get("description")
    ]
    assert silent == []


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_a_valid_playbook_matches_the_schema(file: Path) -> None:
    assert complaints(file.read_text()) == []


@pytest.mark.parametrize("file", [*REJECTS, *PROBLEMS], ids=lambda file: file.stem)
def test_the_schema_rejects_what_the_reader_rejects_and_accepts_the_rest(file: Path) -> None:
    text = file.read_text()
    found = complaints(text)
    assert bool(found) == refused(text), found


def test_a_templated_number_is_a_number_or_a_template() -> None:
    task = (
        "- step: start\n  tool: {kind: noop, spec: {policy: {rules:"
        " [{when: '{{ ctx.a }}', then: {do: retry, attempts: %s}}]}}}"
    )
    assert of(task % 3) == []
    assert of(task % "'{{ workload.n }}'") == []
    assert len(of(task % "three")) == 1
    assert len(of(task % 0)) == 1


def test_a_guard_is_a_template_or_a_boolean_d15() -> None:
    arc = "- step: start\n  next: {arcs: [{step: end, when: %s}]}"
    assert of(arc % "'{{ ctx.a }}'") == []
    assert of(arc % "true") == []
    assert len(of(arc % "ctx.a")) == 1


def test_a_key_without_a_value_counts_as_left_out() -> None:
    assert of("- step: start\n  desc:\n  loop:\n  input:\n  tool:\n  next:") == []
    assert len(of("- step:\n  tool: {kind: noop}")) == 1


def test_the_fields_of_a_tool_may_be_beside_kind_or_under_input_d9() -> None:
    assert of("- step: start\n  tool: {kind: http, url: x}") == []
    assert of("- step: start\n  tool: {kind: http, input: {url: x}}") == []
    assert len(of("- step: start\n  tool: {kind: http, input: {method: GET}}")) == 1
    assert of("- step: start\n  tool: {kind: postgres, auth: pg, query: select 1}") == []
    assert len(of("- step: start\n  tool: {kind: postgres, auth: pg}")) == 1
    assert len(of("- step: start\n  tool: {kind: python, input: {code: x}}")) == 1


def test_the_name_that_secrets_asks_for_is_not_the_name_of_the_task() -> None:
    assert of("- step: start\n  tool: {kind: secrets, name: ask, input: {name: pg}}") == []
    assert len(of("- step: start\n  tool: {kind: secrets, name: ask}")) == 1


def test_each_kind_has_its_own_keys() -> None:
    assert len(of("- step: start\n  tool: {kind: noop, url: x}")) == 1
    task = schema()["$defs"]["task"]
    assert task["properties"]["kind"]["enum"] == sorted(kinds())
    assert len(task["properties"]["kind"]["markdownEnumDescriptions"]) == len(kinds())


def test_reserved_keys_are_marked_d64() -> None:
    assert "deprecationMessage" in schema()["$defs"]["arc"]["properties"]["spec"]


def test_the_snippets_form_a_valid_playbook() -> None:
    snippets = {
        name: part["defaultSnippets"][0]["body"]
        for name, part in {"playbook": schema(), **schema()["$defs"]}.items()
        if "defaultSnippets" in part
    }
    assert sorted(snippets) == ["arc", "loop", "playbook", "rule", "step"]
    whole = json.dumps(snippets["playbook"])
    for placeholder, value in {"${1:name}": "n", "${2:folder/name}": "p", "${3:noop}": "noop"}.items():
        whole = whole.replace(placeholder, value)
    assert complaints(whole) == []


def objects(value: JSON) -> Iterator[dict[str, JSON]]:
    """Every mapping inside a schema, itself included."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(each)


@pytest.mark.parametrize(
    ("item", "good"),
    [
        ("{while: {when: true, tool: {kind: noop}}, name: w, desc: d}", True),
        ("{until: {when: '{{ x }}', tool: [{kind: noop}, {choose: [{else: {then: {kind: noop}}}]}]}}", True),
        ("{choose: [{when: '{{ x }}', then: [{kind: noop}]}, {else: {then: {kind: noop}}}]}", True),
        ("{while: {tool: {kind: noop}}}", False),
        ("{until: {when: true}}", False),
        ("{choose: [{when: true}]}", False),
        ("{choose: [{when: true, then: {kind: nop}}]}", False),
        ("{choose: [{else: {kind: noop}}]}", False),
        ("{choose: [], set: {ctx.x: 1}}", False),
        ("{desc: neither}", False),
    ],
)
def test_choose_while_and_until_are_known(item: str, good: bool) -> None:
    assert (of(f"- step: start\n  tool: [{item}]\n") == []) == good
