"""`noetl tools`: what is installed, and all that there is to know of one kind."""

from __future__ import annotations

import json

import pytest

from noetl.tool import Tools
from tests.playbooks import kinds
from tests.unit.cli.invoke import run_tools


def test_every_kind_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tools(None, "plain") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(Tools.installed().kinds())
    assert ["noop", "Does", "nothing"] in [line.split() for line in lines]


def test_the_list_is_an_array_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    run_tools(None, "json")
    listed = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in listed] == sorted(Tools.installed().kinds())
    assert all(each["doc"] for each in listed)


def test_one_kind_is_told_with_fields_knobs_notes_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tools("shell", "plain") == 0
    text = capsys.readouterr().out
    assert text.startswith("shell\n\nRuns a program. An exit code other than 0 is an error.\n\n`output.data` is")
    assert "\nFields\n  argv  a list of texts or a template\n      program and arguments;" in text
    assert "  parse  one of `json`, `text` or a template, `text` by default\n" in text
    assert "\nOptions under `spec`\n  memory_mb  a whole number of at least 1 or a template\n" in text
    assert "  - Exactly one of `argv` and `sh` is required.\n" in text
    assert text.endswith('\nExample\n  kind: shell\n  argv: [sort, -n]\n  stdin: "10\\n9\\n"\n')


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_every_kind_can_be_told_with_all_its_fields(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_tools(kind, "json")
    told = json.loads(capsys.readouterr().out)
    assert sorted(told) == ["doc", "example", "fields", "kind", "knobs", "notes", "output"]
    assert [each["name"] for each in told["fields"]] == list(kinds()[kind].fields.keys)
    assert [each["name"] for each in told["knobs"]] == list(kinds()[kind].knobs.keys)
    assert [each["name"] for each in told["fields"] + told["knobs"] if not each["meaning"]] == []


def test_the_fields_of_the_own_part_of_the_output_are_listed_d95(capsys: pytest.CaptureFixture[str]) -> None:
    run_tools("python", "plain")
    text = capsys.readouterr().out
    assert (
        "\nIts own part of the output\n  output.py.exception_type  text or null\n      class of the exception," in text
    )
    run_tools("http", "json")
    names = [each["name"] for each in json.loads(capsys.readouterr().out)["output"]]
    assert names == [f"output.http.{name}" for name in ("status", "headers", "request_id", "elapsed_ms", "url")]


def test_required_fields_and_defaults_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    run_tools("http", "plain")
    text = capsys.readouterr().out
    assert (
        '  url (required)  text or a template\n      URL of the request, for example "{{ workload.api_url }}/items"\n'
        in text
    )
    assert "  verify  true, false or a template, true by default\n" in text


def test_lines_fit_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    run_tools("shell", "plain")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("kind", "hint"), [("htp", 'did you mean "http"?'), ("zzzzz", "duckdb, http, mcp, nats, noop,")]
)
def test_an_unknown_kind_is_refused_with_the_installed_ones(
    kind: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tools(kind, "plain") == 1
    error = capsys.readouterr().err
    assert error.startswith(f'noetl: no tool of kind "{kind}" is installed; ')
    assert hint in error
