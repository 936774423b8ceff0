"""`noetl test`: exit codes, what it prints, coverage, JUnit, and watching."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from noetl.cli.suite_runner import stamps_of, until_changed
from tests.unit.cli.invoke import noetl
from tests.unit.replay.suites import write_suite

PASSES = """
- name: one page
  stubs: [{call: fetch, output: {items: [1]}}, {call: store, output: {}}]
"""
FAILS = """
- name: it's <wrong>
  stubs: [{call: fetch, output: {items: [1]}}, {call: store, output: {}}]
  expect: {ctx: {total: 2}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_tests_of_the_current_folder_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_suite(folder, PASSES)
    assert noetl("test") == 0
    assert capsys.readouterr().out.splitlines() == ["orders.test.yaml", "  ok    one page", "1 passed"]


def test_a_failed_test_shows_expected_and_actual_and_how_to_see_more(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_suite(folder, PASSES + FAILS)
    assert noetl("test", "orders.test.yaml") == 1
    assert capsys.readouterr().out.splitlines() == [
        "orders.test.yaml",
        "  ok    one page",
        "  FAIL  it's <wrong>  orders.test.yaml:6",
        "        ctx.total: expected 2",
        "                        got 1",
        """        see its calls: noetl test orders.test.yaml --only 'it'"'"'s <wrong>' --verbose""",
        "1 passed, 1 failed",
    ]
    assert noetl("test", "--only", "wrong", "--verbose") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:-1] == [
        "        route: start → fetch → store",
        "        fetch#1 fetch.get_page: stub, ok",
        "        store#1 store.store_task: stub, ok",
    ]


def test_a_file_that_cannot_be_run_is_reported_and_the_others_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_suite(folder, PASSES)
    (folder / "bad.test.yaml").write_text("playbook: orders.yaml\ntests: [{name: a, stub: []}]\n")
    assert noetl("test", ".") == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == "1 passed, 1 file not run"
    assert 'bad.test.yaml:2:19: error: unknown-key: test has no key "stub"; did you mean "stubs"?' in printed.err


@pytest.mark.parametrize(
    "arguments", [("nothing.test.yaml",), (".",), ("--only", "x"), ("--watch", "--junit", "x.xml")]
)
def test_mistakes_of_the_command_line_exit_with_2(folder: Path, arguments: tuple[str, ...]) -> None:
    if "--only" in arguments:
        write_suite(folder, PASSES)
    assert noetl("test", *arguments) == 2


def test_json_has_results_problems_and_coverage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_suite(folder, FAILS)
    assert noetl("test", "--coverage", "--format", "json") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["passed"], document["failed"], document["problems"]) == (0, 1, [])
    [test] = document["tests"]
    assert test["mismatches"] == [{"what": "ctx.total", "expected": "2", "actual": "1"}]
    [covered] = document["coverage"]
    assert covered["file"] == "orders.yaml"
    assert covered["steps"] == {"ran": 3, "of": 4}
    assert covered["arcs"] == {"ran": 2, "of": 2}
    assert covered["rules"] == {"ran": 1, "of": 4}
    assert covered["failure_arcs"] == {"ran": 0, "of": 1}
    assert {"kind": "failure arc", "name": "fetch → alarm", "line": 30} in covered["missed"]


def test_coverage_lists_what_never_ran_with_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_suite(folder, PASSES)
    assert noetl("test", "--coverage") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "orders.yaml: 3 of 4 steps, 2 of 2 arcs, 1 of 4 rules, 0 of 1 failure arc"
    assert "  orders.yaml:34: step alarm never ran" in lines
    assert "  orders.yaml:19: rule fetch.get_page rule 1 never ran" in lines


def test_junit_has_a_case_for_each_test_and_each_file_that_cannot_run(folder: Path) -> None:
    write_suite(folder, PASSES + FAILS)
    (folder / "bad.test.yaml").write_text("[]")
    assert noetl("test", "--junit", "out.xml") == 2
    suites = Xml.fromstring((folder / "out.xml").read_text())
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("3", "1", "1")
    [_, failed, error] = suites.findall("testsuite/testcase")
    assert failed.get("name") == "it's <wrong>"
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == "ctx.total: expected 2, got 1"
    assert error.find("error") is not None


def test_a_change_of_a_file_is_noticed(folder: Path) -> None:
    files = [str(write_suite(folder, PASSES))]

    async def change(name: str) -> None:
        async with asyncio.timeout(30):
            waiting = asyncio.create_task(until_changed(files, stamps_of(files), poll_s=0.001))
            await asyncio.sleep(0)  # noqa: TID251  # the first look
            (folder / name).write_text("other")
            await waiting

    for name in ("orders.yaml", "script.py"):
        asyncio.run(change(name))


def test_a_change_while_the_tests_run_is_noticed(folder: Path) -> None:
    files = [str(write_suite(folder, PASSES))]
    before = stamps_of(files)
    (folder / "orders.yaml").write_text("other")

    async def waits() -> None:
        async with asyncio.timeout(30):
            await until_changed(files, before, poll_s=0.001)

    asyncio.run(waits())
