"""A failpoint kills the process at the configured place, and at no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from noetl.failpoints import FAILPOINTS, VARIABLE, failpoint

SCRIPT = """
from noetl.failpoints import failpoint
for number in range(1, 4):
    failpoint("sqlite.after-commit")
    print(number, flush=True)
"""


def run(setting: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, VARIABLE: setting}
    return subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    ("setting", "code", "said"),
    [
        ("", 0, ["1", "2", "3"]),
        ("sqlite.before-commit", 0, ["1", "2", "3"]),
        ("sqlite.after-commit", -signal.SIGKILL, []),
        ("sqlite.after-commit:3", -signal.SIGKILL, ["1", "2"]),
        ("sqlite.after-commit:4", 0, ["1", "2", "3"]),
    ],
)
def test_the_process_dies_at_the_hit_that_was_asked_for(setting: str, code: int, said: list[str]) -> None:
    done = run(setting)
    assert (done.returncode, done.stdout.split()) == (code, said)


@pytest.mark.parametrize("setting", ["sqlite.afterwards", "sqlite.after-commit:0"])
def test_a_setting_that_could_never_kill_is_loud(setting: str) -> None:
    done = run(setting)
    assert done.returncode == 1
    assert VARIABLE in done.stderr


def test_a_name_that_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="not in the table"):
        failpoint("sqlite.afterwards")


def test_every_failpoint_says_what_stands_before_and_after_it() -> None:
    assert [name for name, words in FAILPOINTS.items() if len(words.split()) < 4] == []
