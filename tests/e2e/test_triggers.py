"""Triggers of a server on one file: registered by the command line, fired by the server, also after kill -9."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.chaos.crash_workspace import image_of
from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

NAMES = ("one", "two", "three")
TEXT = (
    HEAD.replace("path: t", "path: shop/poll")
    + "workload: {at: ''}\ntriggers:\n"
    + "".join(
        f"- {{name: {name}, kind: interval, every_s: 1, catchup: all, workload: {{at: '{{{{ trigger.scheduled_at }}}}'}}}}\n"
        for name in NAMES
    )
    + "- {name: nightly, kind: cron, cron: '0 6 * * 1-5', timezone: Europe/Zurich}\n"
    + "workflow:\n- step: start\n  tool: {kind: noop, input: {at: '{{ workload.at }}'}}\n"
)
KILLS = 4


def fired(workspace: Workspace, name: str) -> int:
    code, found = workspace.json("triggers", "show", f"shop/poll:{name}")
    assert code == 0
    return int(found["trigger"]["fired"])


def test_every_second_starts_one_execution_although_the_server_is_killed(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert workspace.call("register", workspace.write(TEXT)).returncode == 0
    for kill in range(KILLS + 1):
        before = fired(workspace, "one")
        with workspace.started("server", "--port", "0") as server:
            assert "http://" in server.error_line()
            while fired(workspace, "one") < before + 3:
                assert server.process.poll() is None
            if kill == KILLS:
                server.process.terminate()
            else:
                server.process.kill()
            server.end()
    requests = [json.loads(facts[0]) for facts in image_of(workspace.db).facts.values()]
    for name in NAMES:
        times = sorted(each["workload"]["at"] for each in requests if each["by"] == f"trigger shop/poll:{name}")
        first = datetime.fromisoformat(times[0])
        expected = [first + timedelta(seconds=number) for number in range(len(times))]
        assert [datetime.fromisoformat(each) for each in times] == expected
        history = workspace.json("triggers", "show", f"shop/poll:{name}", "--limit", "1000")[1]["history"]
        assert len(history) in (len(times), len(times) - 1)  # the last one was started, and its entry not written
        assert {each["status"] for each in history} == {"started"}
    assert workspace.call("audit").returncode == 0


def test_triggers_are_listed_shown_paused_and_resumed_on_a_file(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.call(
        "register", workspace.write(TEXT.split("triggers:")[0] + "workflow:\n- {step: start, tool: {kind: noop}}\n")
    )
    empty = workspace.call("triggers", "list")
    assert (empty.returncode, "no registered playbook has triggers" in empty.stderr) == (0, True)
    workspace.call("register", workspace.write(TEXT))
    found: Any
    code, found = workspace.json("triggers", "list")
    assert (code, [each["name"] for each in found]) == (0, ["nightly", "one", "three", "two"])
    assert found[0]["schedule"] == "0 6 * * 1-5 Europe/Zurich"
    listed = workspace.call("triggers", "list").stdout
    assert re.search(r"shop/poll:nightly +0 6 \* \* 1-5 Europe/Zurich +next 20", listed)
    times = workspace.json("triggers", "next", "shop/poll:nightly", "--count", "3")[1]
    assert len(times) == 3
    assert workspace.json("triggers", "pause", "shop/poll:nightly")[1]["paused"]
    assert "paused" in workspace.call("triggers", "show", "shop/poll:nightly").stdout
    assert not workspace.json("triggers", "resume", "shop/poll:nightly")[1]["paused"]
    refused = workspace.call("triggers", "fire", "shop/poll:nightly")
    assert (refused.returncode, "only a server fires triggers" in refused.stderr) == (2, True)
    for wrong, words in (("nightly", "is not PATH:NAME"), ("shop/poll:never", "no trigger shop/poll:never")):
        answer = workspace.call("triggers", "show", wrong)
        assert answer.returncode != 0
        assert words in answer.stderr
    assert workspace.call("run", "shop/poll").returncode == 0
    assert fired(workspace, "one") == 0  # `noetl run` ignores triggers
