"""`noetl import openapi`: a document becomes a playbook that passes the check, or a note says what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noetl.checks.checker import check
from noetl.editor.formatting import format_playbook
from noetl.importers.openapi.document import DocumentError
from noetl.importers.openapi.importer import ImportedPlaybook, ImportOptions, import_openapi, is_untouched
from noetl.playbook.write import emit
from noetl.tool import Tools
from tests.unit.cli.invoke import noetl
from tests.unit.importers.shop_api import RESOURCES, document

KINDS = Tools.installed().kinds()


def imported(source: dict[str, Any], **options: Any) -> ImportedPlaybook:
    made = import_openapi(json.dumps(source).encode(), "api.json", KINDS, ImportOptions(**options))
    assert {problem.code for problem in made.checked.problems} <= {"unused-block"}
    assert format_playbook(made.playbook, KINDS).text == made.playbook
    return made


def small(operation: dict[str, Any], path: str = "/x", **more: Any) -> dict[str, Any]:
    responses = {"responses": {"200": {"description": "ok"}}}
    info = {"title": "Small", "version": "1"}
    paths = {path: {"get": {**responses, **operation}}, "/ok": {"get": responses}}
    return {"openapi": "3.0.3", "info": info, "paths": paths, **more}


def test_each_operation_is_a_block_and_pages_have_another_one() -> None:
    made = imported(document())
    assert (made.name, made.operations, made.blocks) == ("shop_api", 62, 62 + len(RESOURCES))
    playbook = made.checked.playbook
    assert playbook is not None
    assert {"list_orders", "list_orders_all", "get_orders", "create_orders", "upload"} <= {
        b.name for b in playbook.blocks
    }
    assert [entry.name for entry in playbook.keychain] == ["token", "basic", "key"]
    assert [step.tasks[0].fields["block"] for step in playbook.steps] == ["list_orders"]
    assert "POST /files/{path} body: the input `parts` is a list" in made.readme


def test_yaml_and_json_give_the_same_playbook() -> None:
    only = ImportOptions(only=("orders",))
    made = import_openapi(emit(document()).encode(), "api.json", KINDS, only)
    assert made.playbook == imported(document(), only=("orders",)).playbook


def test_bounds_beyond_64_bits_are_left_out() -> None:
    schema = {"type": "integer", "minimum": -9223372036854776000, "maximum": 9223372036854776000}
    source = small({"parameters": [{"name": "seed", "in": "query", "schema": schema}]})
    made = imported(source)
    assert "9223372036854776000" not in made.playbook
    by_yaml = import_openapi(b"# YAML\n" + json.dumps(source).encode(), "api.json", KINDS, ImportOptions())
    assert by_yaml.playbook == made.playbook


def test_an_edited_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "api.json").write_text(json.dumps(small({})))
    arguments = ("import", "openapi", f"{tmp_path}/api.json", "-o", f"{tmp_path}/out")
    assert noetl(*arguments) == 0
    assert noetl(*arguments) == 0
    file = tmp_path / "out" / "small.yaml"
    assert is_untouched(file.read_text())
    file.write_text(file.read_text() + "# mine\n")
    readme = (tmp_path / "out" / "README.md").read_text()
    assert noetl(*arguments, "--only", "/x") == 2
    assert "was edited since the import" in capsys.readouterr().err
    assert file.read_text().endswith("# mine\n")
    assert (tmp_path / "out" / "README.md").read_text() == readme
    assert noetl(*arguments, "--force") == 0
    assert is_untouched(file.read_text())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "its root is not a mapping"),
        ('{"swagger": "2.0"}', "convert the document to OpenAPI 3"),
        ('{"openapi": "4.0", "paths": {}}', "expected"),
        ('{"openapi": "3.0.0", "paths": {}}', "there are no operations"),
        ('{"openapi": "3.0.0", "paths": {"/x": {}}}', "there is no operation"),
        ("{", "not valid JSON"),
        ("openapi: [", "api.json:"),
        ('{"a":' * 5_000 + "1" + "}" * 5_000, "not valid JSON"),
        ("a: &a [x]\n" + "b: [" + "*a, " * 20_000 + "]", "values"),
    ],
)
def test_what_cannot_be_imported_is_refused(text: str, words: str) -> None:
    with pytest.raises(DocumentError, match=words):
        import_openapi(text.encode(), "api.json", KINDS, ImportOptions())


EVIL = "{{ keychain.token }}{% x %}{# \"' #}\n- a: &x !!python |"


@pytest.mark.parametrize(
    "source",
    [
        small({"summary": EVIL, "description": EVIL, "operationId": EVIL, "tags": [EVIL]}),
        small({"parameters": [{"name": EVIL, "in": each, "schema": {}} for each in ("query", "header", "path", "cookie")]}),
        small({"parameters": [{"name": "a", "in": "query", "description": EVIL, "example": EVIL, "required": True,
                               "schema": {"type": "string", "default": EVIL, "enum": [EVIL], "pattern": EVIL}}]}),
        small({}, f"/{EVIL}"),
        small({}, "/{{a}}"),
        small({}, "/{a b}/{c'd}/{e\"f}"),
        small({}, servers=[{"url": EVIL}]),
        small({"servers": [{"url": EVIL}]}),
        small({"security": [{"k": []}]}, components={"securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": EVIL}}}),
        small({"security": [{EVIL: []}]}, components={"securitySchemes": {EVIL: {"type": "http", "scheme": "bearer", "description": EVIL}}}),
        small({"requestBody": {"content": {EVIL: {"schema": {"properties": {EVIL: {"enum": [EVIL]}}, "required": [EVIL]}}}}}),
        small({"responses": {"200": {"content": {"application/json": {"schema": {"type": "array"}}},
                                     "headers": {"Link": {}}}, EVIL: {}}}),
        small({"parameters": [{"$ref": "#/x"}, {"$ref": "other.json#/x"}, {"$ref": 1}, 7, None], "requestBody": 3,
               "responses": []}),
        small({"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/x/loop"}}}}},
              x={"loop": {"$ref": "#/x/loop"}}),
        small({"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/x/a"}}}}},
              x={"a": {"allOf": [{"$ref": "#/x/a"}, {"$ref": "#/x/b"}]},
                 "b": {"type": "object", "properties": {str(n): {"$ref": "#/x/b"} for n in range(200)}}}),
        {**small({}), "info": {"title": EVIL}},
        {**small({}), "info": 7, "components": [], "security": {}, "servers": 7},
    ],
)  # fmt: skip
def test_a_hostile_document_gives_a_sound_playbook_or_a_note(source: dict[str, Any]) -> None:
    made = import_openapi(json.dumps(source).encode(), "api.json", KINDS, ImportOptions())
    assert made.checked.errors == ()
    program = made.checked.program
    assert program is not None
    assert not any(read.path[0] == "keychain" for use in program.templates for read in use.template.reads)
    assert check(made.playbook, KINDS).errors == ()


@pytest.mark.parametrize(
    ("source", "note"),
    [
        (small({}, "/{{a}}"), "the path is not valid"),
        (small({"callbacks": {"x": {}}}), "its callbacks are not imported"),
        (
            small({"security": [{"k": []}]}, components={"securitySchemes": {"k": {"type": "mutualTLS"}}}),
            "mutualTLS cannot be",
        ),
        (small({"parameters": [{"$ref": "other.json#/x"}]}), "leads to another document"),
        (small({"requestBody": {"content": {"image/png": {}}}}), "binary data cannot be sent"),
        (small({"responses": {}}), "no successful response"),
        (small({}), "names no complete address"),
    ],
)
def test_what_cannot_be_expressed_is_in_the_notes(source: dict[str, Any], note: str) -> None:
    made = imported(source)
    assert any(note in each for each in made.notes), made.notes
    assert note in made.readme
