"""Secret inputs on the command line: no form of a value is found anywhere, and it is kept as long as it is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.processes import Workspace
from tests.e2e.test_secrets import MARKER, echoing
from tests.playbooks import HEAD
from tests.secret_inputs import COUNT, SECRETS, found_in, playbook


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "work").mkdir()
    made = Workspace(tmp_path / "work")
    made.environment |= {f"VALUE_{name}": value for name, value in SECRETS.items()}
    return made


def contents(workspace: Workspace) -> list[bytes]:
    files = [each for each in workspace.folder.rglob("*") if each.is_file() and each.suffix != ".yaml"]
    return [each.read_bytes() for each in files]


def test_no_form_of_a_secret_input_is_found_anywhere(workspace: Workspace, tmp_path: Path) -> None:
    options = [part for name in SECRETS for part in ("--secret", f"{name}=env:VALUE_{name}")]
    with echoing() as echo:
        file = workspace.write(playbook(echo))
        done = workspace.call("run", file, "--set", "open=visible", *options)
        assert done.returncode == 1
        id = done.stdout.partition("\n")[0]
        retried = workspace.call("retry", id)
        forked = workspace.call("fork", id, "--from", "start", "--yes")
    said = [part for each in (done, retried, forked) for part in (each.stdout, each.stderr)]
    tape = tmp_path / "tape" / "x.cassette.yaml"
    for command in (
        ("events", id, "--format", "jsonl"),
        ("show", id, "--format", "json"),
        ("state", id, "--format", "json"),
        ("explain", id, "t1"),
        ("logs", id),
        ("output", id),
        ("list", "--format", "json"),
        ("record", id, "-o", str(tape), "--yes"),
        ("diff", id, "last"),
        ("audit", id),
    ):
        answer = workspace.call(*command)
        assert "keychain entry" not in answer.stderr, answer
        said += [answer.stdout, answer.stderr]
    for which in (id, "last"):
        shown = json.loads(workspace.call("show", which, "--format", "json").stdout)
        failed = {step["step"] for step in shown["steps"] if step["status"] != "ok"}
        assert failed == {"t1", "t5", "t6", "t9"}, shown
    taped = [each.read_bytes() for each in tape.parent.rglob("*") if each.is_file()]
    kept = contents(workspace)
    assert found_in(*kept, *taped, *said) == []
    assert b"visible" in b"".join(kept)
    assert MARKER in "".join(said)
    assert "".join(said).count("***") > COUNT


SHORT = HEAD + (
    "input: {pw: {type: string, secret: true}, fail: {type: string, default: never}}\n"
    'workflow:\n- step: start\n  tool: {kind: shell, env: {PW: "{{ keychain.pw }}"},'
    ' argv: [sh, -c, \'echo $PW | tr a-z A-Z; test "$0" = never\', "{{ workload.fail }}"]}\n'
)


def test_how_long_a_secret_input_is_kept(workspace: Workspace, tmp_path: Path) -> None:
    file = workspace.write(SHORT)
    (tmp_path / "pw").write_text("swordfish\n")
    given = ("--secret", f"pw=@{tmp_path / 'pw'}")
    assert workspace.call("run", file).returncode == 2
    assert workspace.call("run", file, *given).returncode == 0
    assert "SWORDFISH" in workspace.call("output", "last").stdout
    refused = workspace.call("fork", "last", "--from", "start", "--yes")
    assert refused.returncode == 2
    assert "secrets.pw: missing" in refused.stderr
    assert workspace.call("fork", "last", "--from", "start", "--yes", *given).returncode == 0

    assert workspace.call("run", file, "--set", "fail=now", *given).returncode == 1
    assert workspace.call("secrets", "rotate").returncode == 0
    taken = workspace.call("fork", "last", "--from", "start", "--set", "fail=never", "--yes")
    assert (taken.returncode, "SWORDFISH" in taken.stdout) == (0, True), taken


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("pw=swordfish", "--secret pw: other users and your shell's history see a value on the command line"),
        ("pw", "--secret pw: there is no terminal to ask for the value"),
        ("pw=env:NOT_SET", '--secret pw: the environment variable "NOT_SET" is not set'),
        ("pw=@/no/such/file", '--secret pw: "/no/such/file" cannot be read: No such file or directory'),
    ],
)
def test_where_a_value_can_come_from(workspace: Workspace, option: str, message: str) -> None:
    done = workspace.call("run", workspace.write(SHORT), "--secret", option)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_playbook_with_problems_leaves_no_secret_in_the_log(workspace: Workspace) -> None:
    file = workspace.write(SHORT.replace("kind: shell", "kind: shel"))
    done = workspace.call("run", file, "--set", "pw=swordfish", "--set", "fail=now")
    assert done.returncode == 2
    assert "the request is logged" in done.stderr
    assert all(b"swordfish" not in each for each in contents(workspace))
