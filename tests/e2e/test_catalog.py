"""`noetl register` and `noetl playbooks`: versions of playbooks, from files to executions and back."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import NOETL, Workspace
from tests.playbooks import HEAD


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def says(words: str, path: str = "t") -> str:
    """A playbook whose output is these words."""
    head = HEAD.replace("path: t", f"path: {path}")
    return f"{head}workflow:\n- {{step: start, tool: {{kind: noop, input: {{says: {words}}}}}}}\n"


def calls(path: str, more: str = "") -> str:
    """A playbook that calls another one."""
    head = HEAD.replace("path: t", "path: caller")
    return f"{head}workflow:\n- step: start\n  tool: {{kind: playbook, path: {path}{more}}}\n"


def documents(workspace: Workspace, *arguments: str | Path) -> Any:
    done = workspace.call(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def said_by(workspace: Workspace, *arguments: str | Path) -> Any:
    code, document = workspace.json("run", *arguments)
    assert code == 0, document
    return document["output"]["data"]


# Registering


def test_each_new_text_is_the_next_version_and_the_same_text_is_not(workspace: Workspace) -> None:
    told = []
    for words in ("one", "two", "two", "one"):
        done = workspace.call("register", workspace.write(says(words)))
        assert (done.returncode, done.stderr) == (0, "")
        told.append(done.stdout.split(maxsplit=3))
    assert told == [
        ["t", "version", "1", "new\n"],
        ["t", "version", "2", "new\n"],
        ["t", "version", "2", "known\n"],
        ["t", "version", "1", "current again\n"],
    ]
    found = documents(workspace, "playbooks", "versions", "t")
    assert [(each["version"], each["current"], each["archived"]) for each in found] == [
        (2, False, False),
        (1, True, False),
    ]
    assert found[1]["digest"] == hashlib.sha256(says("one").encode()).hexdigest()
    assert (workspace.db.stat().st_mode & 0o777) == 0o600


def test_what_is_registered_is_told_as_json(workspace: Workspace) -> None:
    file = workspace.write(says("one"))
    (first,), (again,) = (documents(workspace, "register", file) for _ in range(2))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert first == {"file": str(file), "path": "t", "version": 1, "digest": digest, "created": True}
    assert again == {**first, "created": False}


def test_of_a_folder_all_playbooks_are_registered_in_order_and_others_are_skipped(
    workspace: Workspace,
) -> None:
    for name, text in {
        "books/b.yaml": says("b", "b"),
        "books/a.yml": says("a", "a"),
        "books/deep/C.YAML": says("c", "c"),
        "books/values.yaml": "a: 1\n",
        "books/list.yml": "[1, 2]\n",
        "books/torn.yaml": "a: [1\n",
        "books/.hidden.yaml": says("hidden", "hidden"),
        "books/.git/x.yaml": says("git", "git"),
        "books/notes.txt": "kind: Playbook\n",
    }.items():
        workspace.write(text, name)
    done = workspace.call("register", "books")
    assert (done.returncode, [line.split()[0] for line in done.stdout.splitlines()]) == (0, ["a", "b", "c"])
    assert done.stderr.splitlines() == [
        f"noetl: books/{name}: skipped: this is not a playbook" for name in ("list.yml", "torn.yaml", "values.yaml")
    ]
    assert [each["path"] for each in documents(workspace, "playbooks")] == ["a", "b", "c"]


def test_when_one_has_problems_none_is_registered(workspace: Workspace) -> None:
    workspace.write(says("a", "a"), "books/a.yaml")
    workspace.write(says("b", "b").replace("noop", "nope"), "books/b.yaml")
    workspace.write(HEAD + "workflow: [\n", "books/c.yaml")
    done = workspace.call("register", "books")
    assert (done.returncode, done.stdout) == (2, "")
    assert "books/b.yaml:5:" in done.stderr
    assert "books/c.yaml:" in done.stderr
    assert "nothing is registered: 2 playbooks of 3 cannot run" in done.stderr
    code, document = workspace.json("register", "books")
    assert (code, document["status"], document["error"]["kind"]) == (2, "error", "problems")
    assert {Path(each["file"]).name for each in document["problems"]} == {"b.yaml", "c.yaml"}
    assert not workspace.db.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.yaml",), "none.yaml: there is no such file"),
        (("empty",), "empty: there is no playbook in this folder"),
        (("a.yaml", "b.yaml"), 'a.yaml and b.yaml are different playbooks with the path "t"'),
        (("-", "-"), "standard input can be read only once"),
    ],
)
def test_what_can_not_be_meant_is_told(workspace: Workspace, arguments: tuple[str, ...], words: str) -> None:
    (workspace.folder / "empty").mkdir()
    workspace.write(says("a"), "a.yaml")
    workspace.write(says("b"), "b.yaml")
    done = workspace.call("register", *arguments, input=says("c"))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert not workspace.db.exists()


def test_a_playbook_may_come_from_standard_input_and_from_an_older_dialect(workspace: Workspace) -> None:
    done = workspace.call("register", "-", input=says("typed"))
    assert (done.returncode, done.stdout.split()[0]) == (0, "t")
    old = says("old").replace("input: {says", "args: {says")
    assert workspace.call("register", workspace.write(old)).returncode == 2
    (told,) = documents(workspace, "register", workspace.write(old), "--dialect", "auto")
    assert (told["version"], told["created"]) == (2, True)
    assert "input: {says" in workspace.call("playbooks", "show", "t").stdout


# Looking


def test_a_catalog_that_is_empty_or_not_there_lists_nothing(workspace: Workspace) -> None:
    done = workspace.call("playbooks")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no playbook is registered here" in done.stderr
    assert documents(workspace, "playbooks") == []
    assert not workspace.db.exists()
    done = workspace.call("playbooks", "show", "t")
    assert (done.returncode, done.stdout) == (2, "")


def test_many_playbooks_are_listed_by_path(workspace: Workspace) -> None:
    for number in range(250):
        workspace.write(says("x", f"p{number:03}"), f"books/{number}.yaml")
    assert workspace.call("register", "books").returncode == 0
    assert [each["path"] for each in documents(workspace, "playbooks")] == [f"p{n:03}" for n in range(250)]
    lines = workspace.call("playbooks", "--limit", "101").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["PATH", "VERSION"],
        *([f"p{number:03}", "1"] for number in range(101)),
    ]


def test_a_text_is_shown_to_the_byte_whatever_its_version(workspace: Workspace) -> None:
    texts = [says("one") + "# ü\r\n", says("two") + "# no line break at the end"]
    for text in texts:
        (workspace.folder / "t.yaml").write_bytes(text.encode())
        assert workspace.call("register", "t.yaml").returncode == 0
    for arguments, text in (((), texts[1]), (("--version", "1"), texts[0])):
        command: list[str | Path] = [NOETL, "playbooks", "show", "t", *arguments]
        raw = subprocess.run(command, capture_output=True, check=True, env=workspace.environment)
        assert raw.stdout == text.encode()
    told = documents(workspace, "playbooks", "show", "t")
    assert (told["version"], told["current"], told["text"]) == (2, True, texts[1])
    done = workspace.call("playbooks", "show", "t", "--version", "3")
    assert (done.returncode, done.stdout) == (1, "")
    assert "its versions are 1 to 2" in done.stderr


def test_versions_are_compared(workspace: Workspace) -> None:
    for words in ("one", "two", "three"):
        workspace.call("register", workspace.write(says(words)))
    lines = workspace.call("playbooks", "diff", "t").stdout.splitlines()
    assert lines[:2] == ["--- t@2", "+++ t@3"]
    assert [line[:1] for line in lines[2:] if "says" in line] == ["-", "+"]
    told = documents(workspace, "playbooks", "diff", "t", "--from", "3", "--to", "1")
    assert (told["path"], told["from"], told["to"]) == ("t", 3, 1)
    assert "\n-- {step: start, tool: {kind: noop, input: {says: three}}}\n" in told["diff"]
    assert documents(workspace, "playbooks", "diff", "t", "--from", "2", "--to", "2")["diff"] == ""
    done = workspace.call("playbooks", "diff", "t", "--to", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no version before version 1" in done.stderr


def test_a_text_can_not_turn_the_letters_of_a_terminal_around(workspace: Workspace) -> None:
    assert workspace.call("register", workspace.write(says("one") + "# \u202egnp.exe\n")).returncode == 0
    leader, follower = pty.openpty()
    command: list[str | Path] = [NOETL, "playbooks", "show", "t"]
    subprocess.run(command, stdout=follower, check=True, env={**workspace.environment, "TERM": "xterm"})
    os.close(follower)
    shown = ""
    # Reading at the end of a terminal raises OSError.
    with suppress(OSError), os.fdopen(leader, "rb", buffering=0) as terminal:
        while part := terminal.read(4_096):
            shown += part.decode()
    assert "gnp.exe" in shown
    assert "\u202e" not in shown


def test_options_before_the_command_are_refused_and_not_passed_over(workspace: Workspace) -> None:
    workspace.call("register", workspace.write(says("one")))
    done = workspace.call("playbooks", "--db", workspace.db, "show", "t")
    assert (done.returncode, done.stdout) == (2, "")
    assert "after it" in done.stderr


# Archiving


def test_what_is_archived_is_not_run_until_it_is_registered_again(workspace: Workspace) -> None:
    file = workspace.write(says("one"), "elsewhere/one.yaml")
    workspace.call("register", file)
    assert said_by(workspace, "t") == {"says": "one"}
    assert documents(workspace, "playbooks", "archive", "t") == {"path": "t", "archived": True}
    done = workspace.call("run", "t")
    assert (done.returncode, done.stdout) == (1, "")
    assert '"t" is archived' in done.stderr
    assert documents(workspace, "playbooks") == []
    (told,) = documents(workspace, "playbooks", "--archived")
    assert (told["path"], told["archived"]) == ("t", True)
    assert "archived" in workspace.call("playbooks", "versions", "t").stdout
    assert workspace.call("playbooks", "show", "t").stdout == says("one")
    done = workspace.call("playbooks", "archive", "none")
    assert (done.returncode, 'registered under "none"' in done.stderr) == (1, True)
    assert workspace.call("register", file).stdout.split()[-1] == "known"
    assert said_by(workspace, "t") == {"says": "one"}


# Running


def test_what_is_registered_is_run_by_its_path_and_version(workspace: Workspace) -> None:
    for words in ("one", "two"):
        workspace.call("register", workspace.write(says(words, "team/hello"), "h.yaml"))
    assert said_by(workspace, "team/hello") == {"says": "two"}
    assert said_by(workspace, "team/hello@1") == {"says": "one"}
    assert said_by(workspace, "team/hello") == {"says": "two"}, "to run an old one does not make it the current one"
    done = workspace.call("run", "team/hello@3")
    assert (done.returncode, "no version 3" in done.stderr) == (1, True)
    done = workspace.call("run", "team/none")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such file, and no playbook is registered" in done.stderr


def test_a_file_beats_what_is_registered_under_its_name(workspace: Workspace) -> None:
    workspace.call("register", workspace.write(says("registered")))
    workspace.write(says("a file", "other"), "t")
    assert said_by(workspace, "t") == {"says": "a file"}


def test_a_registered_playbook_finds_the_files_beside_it(workspace: Workspace) -> None:
    workspace.write(says("beside", "child"), "books/child.yaml")
    workspace.call("register", workspace.write(calls("child.yaml"), "books/caller.yaml"))
    assert said_by(workspace, "caller") == {"says": "beside"}


def test_a_child_is_the_version_that_its_caller_asks_for(workspace: Workspace) -> None:
    """D83."""
    for words in ("one", "two"):
        workspace.call("register", workspace.write(says(words, "lib/child"), "child.yaml"))
    for more, words in (
        ("", "two"),
        (", version: 1", "one"),
        (", version: '1'", "one"),
        (", version: latest", "two"),
    ):
        assert said_by(workspace, workspace.write(calls("lib/child", more), "c.yaml")) == {"says": words}
    for more, words in (
        (", version: 7", "has no version 7"),
        (", version: new", "is not a playbook version"),
    ):
        code, document = workspace.json("run", workspace.write(calls("lib/child", more), "c.yaml"))
        assert (code, document["error"]["kind"]) == (1, "playbook")
        assert words in document["error"]["message"]
