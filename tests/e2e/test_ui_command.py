"""`noetl ui`: one line says where the page is, and behind it is the user's own database."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD


def test_the_page_is_where_it_says_and_shows_what_ran_before(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    _, ran = workspace.json("run", workspace.write(HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n"))
    with workspace.started("ui", "--no-browser") as started:
        (page,) = started.read_until("http://")
        assert page.startswith("http://127.0.0.1:")
        assert page.endswith("/ui/")
        with urllib.request.urlopen(page.replace("/ui/", "/executions"), timeout=60) as answer:
            assert [each["execution_id"] for each in json.load(answer)["items"]] == [ran["execution_id"]]
        started.process.send_signal(signal.SIGTERM)
        code, out, _ = started.end()
    assert (code, out) == (0, "")


NEEDS_TOKEN = (
    HEAD
    + """\
keychain: [{name: token, kind: env, variable: MY_TOKEN}]
workflow:
- step: start
  tool: {kind: shell, argv: [sh, -c, 'test -e flag || exec sleep 600'], env: {T: "{{ keychain.token }}"}}
"""
)


def asked(page: str, route: str, *, post: bool = False) -> Any:
    request = urllib.request.Request(page.replace("/ui/", route), method="POST" if post else "GET")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_whoever_only_looks_sets_nothing_going_and_resume_goes_on_with_the_rights_of_run(
    tmp_path: Path,
) -> None:
    workspace = Workspace(tmp_path)
    workspace.environment["MY_TOKEN"] = "t0ken"
    with workspace.started("run", workspace.write(NEEDS_TOKEN)) as run:
        id = run.read_until("▶ start")[0].split()[-1]
        run.process.kill()
    (tmp_path / "flag").touch()
    with workspace.started("ui", "--no-browser") as started:
        (page,) = started.read_until("http://")
        [head] = asked(page, "/executions")["items"]
        assert (head["status"], head["owner_alive"], head["execution_id"][-6:]) == ("running", False, id[-6:])
        asked(page, f"/executions/{head['execution_id']}/resume", post=True)
        until = time.monotonic() + 60
        while (now := asked(page, f"/executions/{head['execution_id']}"))["status"] == "running":
            assert time.monotonic() < until
        assert now["status"] == "ok"
        started.process.send_signal(signal.SIGTERM)
        started.end()


def test_a_postgresql_is_looked_at_through_its_servers(tmp_path: Path) -> None:
    done = Workspace(tmp_path).call("ui", "--no-browser", "--db", "postgresql://db/noetl")
    assert (done.returncode, done.stdout) == (2, "")
    assert "open the address of a server in the browser" in done.stderr
