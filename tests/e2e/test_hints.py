"""What commands say to type next works when it is pasted, also where a file was named by `--db`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

DB = "elsewhere/my runs.db"  # with a blank: hints are quoted
FAILING = HEAD + "workflow: [{step: start, tool: {kind: http, url: 'http://127.0.0.1:1/'}}]\n"
APPROVED = HEAD + "workflow: [{step: start, tool: {kind: wait, input: {signal: 'go on'}}}]\n"
SECRET = HEAD + "keychain: [{name: shop, kind: stored}]\nworkflow: [{step: start, tool: {kind: noop}}]\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A folder in which commands use a different file from the one that hints name."""
    (tmp_path / "elsewhere").mkdir()
    return Workspace(tmp_path)


def hints(words: str) -> Iterator[list[str]]:
    """The commands in what was said: each ends with the file that it works on."""
    for command in re.findall(r"noetl ([a-z]+ .*? --db '.*?')", words):
        yield shlex.split(command)


def test_what_to_do_about_a_failure_finds_the_file(workspace: Workspace) -> None:
    ran = workspace.call("run", workspace.write(FAILING), "--db", DB)
    assert ran.returncode == 1
    explain, retry = hints(ran.stdout)
    assert (explain[0], retry[0], workspace.call(*retry).returncode) == ("explain", "retry", 1)
    assert '"start" ran 2 times' in workspace.call(*explain).stdout


def test_what_a_paused_or_interrupted_execution_waits_for_can_be_given(workspace: Workspace) -> None:
    with workspace.started("run", workspace.write(APPROVED), "--db", DB) as run:
        (signal,) = hints("\n".join(run.read_until("waits for the signal")))
        paused = workspace.call("pause", "last", "--db", DB)
        assert run.end()[0] == 130
    (resume,) = hints(paused.stdout)
    shown = workspace.call("show", "last", "--db", DB)
    assert signal in list(hints(shown.stdout))
    assert workspace.call(*signal).returncode == 0
    assert workspace.call(*resume).returncode == 0


def test_a_secret_that_is_not_stored_is_set_where_it_is_looked_for(workspace: Workspace) -> None:
    file = workspace.write(SECRET)
    ran = workspace.call("run", file, "--db", DB)
    (command,) = hints(ran.stdout)
    assert command[:3] == ["secrets", "set", "shop"]
    assert workspace.call(*command, input="1234").returncode == 0
    assert workspace.call("run", file, "--db", DB).returncode == 0
