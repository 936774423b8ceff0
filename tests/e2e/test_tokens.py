"""`noetl token`: a new token is shown once, the list does not contain it, and it can be revoked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.processes import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_a_token_is_told_once_and_stands_nowhere(workspace: Workspace) -> None:
    done = workspace.call("token", "create", "ci", "--scope", "read", "--scope", "run")
    assert done.returncode == 0
    found = re.fullmatch(r"noetl_([0-9a-f]{16})_([A-Za-z0-9_-]{43})\n", done.stdout)
    assert found is not None
    assert done.stderr == "ci: store it safely, it is not shown again\n"
    id, secret = found.groups()
    listed = workspace.call("token", "list")
    words = listed.stdout.splitlines()[1].split()
    assert (words[:4], words[-1]) == ([id, "ci", "read", "run"], "never")
    assert secret not in listed.stdout + listed.stderr
    held = b"".join(file.read_bytes() for file in workspace.folder.rglob("*") if file.is_file())
    assert id.encode() in held
    assert secret.encode() not in held


def test_tokens_are_told_as_json_and_taken_back_by_their_ids(workspace: Workspace) -> None:
    code, made = workspace.json("token", "create", "Ann", "--scope", "admin", "--scope", "read", "--expires", "30d")
    assert (code, made["name"], made["scopes"]) == (0, "Ann", ["read", "admin"])
    assert made["token"].startswith(f"noetl_{made['id']}_")
    assert made["expires_at"] > made["created_at"]
    shown = {key: value for key, value in made.items() if key != "token"}
    assert json.loads(workspace.call("token", "list", "--format", "json").stdout) == [shown]
    assert workspace.json("token", "revoke", made["id"]) == (0, {"id": made["id"]})
    assert json.loads(workspace.call("token", "list", "--format", "json").stdout) == []
    code, told = workspace.json("token", "revoke", made["id"])
    assert (code, told["error"]["kind"]) == (1, "not-found")


def test_a_token_with_a_role_shows_its_limits(workspace: Workspace) -> None:
    limits = ("--role", "author", "--path", "orders/*", "--path", "shared/mail", "--pool", "gpu")
    code, made = workspace.json("token", "create", "team", *limits)
    grant = {"role": "author", "paths": ["orders/*", "shared/mail"], "pools": ["gpu"]}
    assert (code, made["scopes"], made["roles"]) == (0, ["run", "write"], [grant])
    assert "author orders/* shared/mail (pools gpu)" in workspace.call("token", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ci",), 2, "give --scope once or more, with read, run, write, admin"),
        (("ci", "--path", "orders/*", "--scope", "read"), 2, "--path and --pool limit a role: give --role as well"),
        (("ci", "--role", "boss"), 1, "unknown role 'boss': use one of viewer, operator, author, admin"),
        (("ci", "--role", "viewer", "--scope", "read"), 1, "either scopes or roles"),
        (("ci", "--role", "viewer", "--path", "ord*"), 1, "write orders/import, orders/* or *"),
        (("ci", "--scope", "root"), 1, "unknown scope 'root'"),
        (("", "--scope", "read"), 1, "a token name has 1 to 100 printable characters"),
        (("ci", "--scope", "read", "--expires", "soon"), 2, "write 12h, 30d or 52w"),
        (("ci", "--scope", "read", "--expires", "0s"), 2, "write 12h, 30d or 52w"),
        (("ci", "--scope", "read", "--expires", "99999999999999999999w"), 2, "up to 100 years"),
    ],
)
def test_what_can_be_no_token_is_refused(
    workspace: Workspace, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = workspace.call("token", "create", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr


def test_without_a_database_there_is_nothing_to_list_or_revoke(workspace: Workspace) -> None:
    done = workspace.call("token", "list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing to list: there is no token here\n")
    assert workspace.call("token", "revoke", "4f1c").returncode == 2
    assert not workspace.db.exists()
