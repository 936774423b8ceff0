"""`noetl events`, on a real file; following it is in tests/e2e."""

from __future__ import annotations

import json
import re

import pytest

from noetl.ids import trace_id
from tests.unit.cli.executed import ENDED, LEFT, mixed_file
from tests.unit.cli.invoke import run_events


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return mixed_file(tmp_path_factory.mktemp("following"))


def test_a_line_has_number_time_name_what_it_is_about_and_some_data(
    mixed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_events(ENDED, "plain", 18, mixed) == 0
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "18 +0.000 s next.evaluated each#1 arcs 1 true tokens ask",
        "18.1 +0.000 s token.enqueued each#1>0 ask",
        "19 +0.000 s step.scheduled ask#1 tokens each#1>0",
        "20 +0.000 s step.started ask#1",
        "21 +0.000 s frame.parked ask#1 for the signal approve",
        "22 +0.000 s frame.resumed ask#1 data={ok}",
        "23 +0.000 s task.done ask#1/1 ask_task continue data={ok} 0 ms",
        "24 +0.000 s step.done ask#1",
        "25 +0.000 s next.evaluated ask#1 arcs 1 true tokens flaky",
        "25.1 +0.000 s token.enqueued ask#1>0 flaky",
        "26 +0.000 s step.scheduled flaky#1 tokens ask#1>0",
        "27 +0.000 s step.started flaky#1",
        "28.1 +0.000 s task.started flaky#1/1 flaky_task",
        "28 +0.000 s task.done flaky#1/1 flaky_task retry rule 1 data={by} 0 ms",
        "29.1 +0.000 s task.started flaky#1/2 flaky_task attempt 2",
        "29 +0.000 s task.done flaky#1/2 flaky_task attempt 2 fail rule else data={by}"
        ' rule: rule else of task "flaky_task" says fail 0 ms',
        '30 +0.000 s step.failed flaky#1 rule: rule else of task "flaky_task" says fail',
        "31 +0.000 s next.evaluated flaky#1",
        '32 +0.000 s workflow.finished error rule: rule else of task "flaky_task" says fail waiting start#1>1',
        "33 +0.000 s playbook.processed error",
    ]


def test_columns_stand_below_each_other(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_events(ENDED, "plain", 24, mixed) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "24          +0.000 s  step.done                     ask#1"
    assert second == (
        "25          +0.000 s  next.evaluated                ask#1                     arcs 1 true  tokens flaky"
    )


def test_jsonl_is_one_envelope_a_line(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """D75."""
    assert run_events(LEFT, "jsonl", 1, mixed) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[3] == {
        "event_id": f"{LEFT}/3.1",
        "execution_id": LEFT,
        "trace_id": trace_id(LEFT),
        "seq": 3,
        "part": 1,
        "timestamp": "2024-01-02T03:04:05Z",
        "source": "server",
        "name": "token.enqueued",
        "alias": "TokenEnqueued",
        "entity": "token",
        "entity_id": ">0",
        "status": "in_progress",
        "data": {"id": ">0", "step": "start", "playbook": told[0]["data"]["digest"]},
    }
    assert [each["seq"] for each in told if "part" not in each] == list(range(1, 22))
    assert told[-1]["name"] == "frame.parked"


def test_json_is_one_array(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_events(ENDED, "json", 32, mixed) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [
        "workflow.finished",
        "playbook.processed",
    ]
    assert run_events(ENDED, "json", 99, mixed) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_an_array_can_not_be_followed(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_events(ENDED, "json", 1, mixed, "--follow") == 2
    assert re.search("use --format jsonl", capsys.readouterr().err)
