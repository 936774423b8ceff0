"""`noetl output`, on a real file and real result files."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from noetl.runtime.embedded import open_embedded
from tests.playbooks import HEAD
from tests.unit.cli.executed import CALLING, ENDED, LARGE, LEFT, calling_file, large_file, mixed_file, started
from tests.unit.cli.invoke import run_output

ECHO = (
    HEAD
    + """
workload: {text: ""}
workflow:
- step: start
  tool: {kind: python, input: {text: "{{ workload.text }}"}, code: "def main(text):\\n    return text\\n"}
"""
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return mixed_file(tmp_path_factory.mktemp("outputs"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    return large_file(tmp_path_factory.mktemp("outputs"))


def test_what_a_playbook_gave_back_is_json(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run_output(CALLING, None, calling_file(tmp_path), raw=False) == 0
    assert capsysbinary.readouterr().out == b'{\n  "text": "hello, you"\n}\n'


def test_a_failure_is_told_beside_and_its_data_is_given(mixed: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_output(ENDED, None, mixed, raw=False) == 1
    said = capfd.readouterr()
    assert (json.loads(said.out), said.err) == (
        {"by": "hi"},
        'error: rule: rule else of task "flaky_task" says fail\n',
    )


@pytest.mark.parametrize(
    ("step", "data"),
    [
        ("start", {"n": 2, "word": "hi"}),
        ("each", [{"double": 0}, {"double": 2}]),
        ("each#1", [{"double": 0}, {"double": 2}]),
        ("ask", {"ok": True}),
    ],
)
def test_a_step_or_a_run_is_given_by_its_name(
    mixed: str, step: str, data: object, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_output(ENDED, step, mixed, raw=False) == 0
    assert json.loads(capfd.readouterr().out) == data


def test_what_lies_in_the_result_store_is_fetched(large: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_output(LARGE, None, large, raw=False) == 0
    assert json.loads(capfd.readouterr().out) == {"text": "a" * 70_000}


def test_the_results_of_a_loop_are_gathered_from_the_log_and_the_store(
    large: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """D30."""
    assert run_output(LARGE, "start", large, raw=False) == 0
    assert json.loads(capfd.readouterr().out) == [{"text": "a" * 70_000}, {"text": "b" * 70_000}]


def test_text_is_given_as_it_is_when_it_is_asked_for_raw(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = "a line\nand ü \x1b[31m"

    async def fill() -> None:
        async with open_embedded(tmp_path / "raw.db") as runtime:
            await started(runtime, ECHO, LEFT, {"text": text})
            await runtime.wait_until_idle(LEFT)

    asyncio.run(fill())
    db = str(tmp_path / "raw.db")
    assert run_output(LEFT, None, db, raw=True) == 0
    assert capsysbinary.readouterr().out == text.encode()
    assert run_output(LEFT, None, db, raw=False) == 0
    assert capsysbinary.readouterr().out == b'"a line\\nand \xc3\xbc \\u001b[31m"\n'


@pytest.mark.parametrize(
    ("id", "step", "why"),
    [
        (LEFT, None, f"{LEFT} has not ended"),
        (LEFT, "ask", '"ask" has not ended'),
        (LEFT, "gate", '"gate" has not run; these steps ran: start, each, ask$'),
        (ENDED, "missing", '"missing" has not run; these steps ran: start, each, ask, flaky$'),
    ],
)
def test_where_there_is_no_output_it_is_said_why(
    mixed: str, id: str, step: str | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_output(id, step, mixed, raw=False) == 1
    assert re.search(why, capsys.readouterr().err)


def test_a_result_that_is_damaged_or_gone_is_not_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = large_file(tmp_path)
    stored = sorted((tmp_path / "large.db-results" / LARGE).iterdir())
    for file in stored:
        file.write_bytes(b"[]")
    assert run_output(LARGE, None, db, raw=False) == 3
    assert re.search("has changed since it was stored", capsys.readouterr().err)
    for file in stored:
        file.unlink()
    assert run_output(LARGE, "start", db, raw=False) == 3
    assert re.search("its file is missing", capsys.readouterr().err)
