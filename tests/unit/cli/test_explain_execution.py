"""`noetl explain ID STEP`, on a real file."""

from __future__ import annotations

import json
import re

import pytest

from tests.unit.cli.executed import ENDED, LEFT, mixed_file
from tests.unit.cli.invoke import run_explain_execution


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return mixed_file(tmp_path_factory.mktemp("reasons"))


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (
            "gate",
            [
                '"gate" did not run: 1 token arrived, but none started a run',
                "token start#1>1, which start#1 created",
                "  arc 2 to gate: no guard",
                "  admission: admit when ctx.open: false",
                "    ctx.open is undefined",
                "  no rule is true, so the token waits",
            ],
        ),
        (
            "never",
            [
                '"never" did not run: no token reached it',
                "after start#1, arc 3 of start when ctx.n > 100: its guard was false",
                "  ctx.n = 2",
            ],
        ),
    ],
)
def test_why_a_step_did_not_run_is_told_with_what_its_guards_read(
    mixed: str, step: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_explain_execution(ENDED, step, mixed, "plain") == 0
    assert capsys.readouterr().out.splitlines() == told


def test_json_is_the_same_as_data(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain_execution(LEFT, "ask", mixed, "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["step"], document["ran"], document["runs"][0]["waits_for"]) == (
        "ask",
        1,
        "for the signal approve",
    )


@pytest.mark.parametrize(
    ("step", "said"), [(None, "name the step to explain"), ("gat", 'the playbook has no step "gat"')]
)
def test_a_step_must_be_one_of_the_playbook(
    mixed: str, step: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_explain_execution(ENDED, step, mixed, "plain") == 2
    assert re.search(f"{said}; its steps are start, each, gate, ask, flaky, never", capsys.readouterr().err)
