"""`noetl state`, on a real file."""

from __future__ import annotations

import json
import re

import pytest

from tests.unit.cli.executed import ENDED, mixed_file
from tests.unit.cli.invoke import run_state


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return mixed_file(tmp_path_factory.mktemp("states"))


def test_json_is_the_state_after_that_fact(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """D76."""
    assert run_state(ENDED, 14, "json", mixed) == 0
    assert json.loads(capsys.readouterr().out) == {
        "seq": 14,
        "status": "running",
        "workload": {"n": 2, "word": "hi"},
        "ctx": {"n": 2},
        "tokens": [{"id": "start#1>1", "step": "gate", "waiting": True}],
        "runs": [
            {
                "id": "each#1",
                "step": "each",
                "status": "running",
                "iterations": {"count": 2, "succeeded": 1, "failed": 0},
            },
            {"id": "start#1", "step": "start", "status": "ok"},
        ],
    }


def test_without_a_place_it_is_the_newest(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_state(ENDED, None, "plain", mixed) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{ENDED}  demo/mixed",
        "error after fact 33 of 33, 0.00 s after the start, at 2024-01-02T03:04:05Z",
        "workload",
        "  n: 2",
        "  word: hi",
        "ctx",
        "  n: 2",
        "tokens",
        "  start#1>1  to gate  waits",
        "runs",
        "  start#1  ok",
        "  each#1   ok     2 of 2 iterations",
        "  ask#1    ok",
        "  flaky#1  error",
    ]


def test_before_anything_runs_there_are_no_runs(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_state(ENDED, 1, "plain", mixed) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "running after fact 1 of 33, 0.00 s after the start, at 2024-01-02T03:04:05Z",
        "workload none",
        "ctx none",
        "tokens none",
        "runs none",
    ]


@pytest.mark.parametrize("at", [-1, 0, 34])
def test_a_fact_that_is_not_there_is_refused_with_those_that_are(
    mixed: str, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_state(ENDED, at, "plain", mixed) == 2
    assert re.search(f"--at {at}: there is no such fact: the log of {ENDED} has 1 to 33", capsys.readouterr().err)
