"""`spec.retry` for a user: an API that fails at first, a stop between two tries, and what is shown of them (D92)."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import Workspace
from tests.e2e.serving import Api, serving
from tests.playbooks import HEAD

CALL = (
    HEAD
    + """\
executor: {spec: {http: {retry: {delay: 0.02, backoff: exponential}}}}
workload: {url: "", name: a, fails: 2}
workflow:
- step: start
  tool:
    name: fetch
    kind: http
    method: POST
    url: "{{ workload.url }}/flaky/{{ workload.name }}?fails={{ workload.fails }}"
    json: {}
    spec: {retry: {attempts: 4}}
"""
)


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as made:
        yield made


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def task_done(workspace: Workspace, id: str) -> dict[str, Any]:
    lines = workspace.call("events", id, "--format", "jsonl").stdout.splitlines()
    [found] = [each for each in map(json.loads, lines) if each["name"] == "task.done"]
    return dict(found["data"])


def test_a_call_that_fails_twice_succeeds_at_the_third_try(workspace: Workspace, api: Api) -> None:
    file = workspace.write(CALL)
    assert "no problems" in workspace.call("check", file).stdout
    assert "up to 4 tries, exponential from 0.02 s, after retryable errors" in workspace.call("explain", file).stdout
    ran = workspace.call("run", file, "--set", f"url={api.url}")
    assert (ran.returncode, "turn: 3" in ran.stdout) == (0, True)
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines() if " try " in line]
    assert [line.split(": ")[0] for line in lines] == ["start try 2 of 4 in 0.02 s", "start try 3 of 4 in 0.04 s"]
    assert "http: HTTP 500" in lines[0]
    data = task_done(workspace, "last")
    assert [(each["try"], each.get("kind")) for each in data["output"]["meta"]["tries"]] == [
        (1, "http"), (2, "http"), (3, None),
    ]  # fmt: skip
    assert "2 retries" in workspace.call("show", "last").stdout
    assert "3 tries" in workspace.call("events", "last").stdout
    assert len({each["Idempotency-Key"] for each in api.headers["/flaky/a"]}) == 1
    assert workspace.call("replay", "last").returncode == 0
    assert workspace.call("audit").returncode == 0


def test_a_call_that_never_succeeds_fails_with_its_last_error(workspace: Workspace, api: Api) -> None:
    code, document = workspace.json("run", workspace.write(CALL), "--set", f"url={api.url}", "--set", "fails=9")
    assert (code, document["status"], document["error"]["kind"], len(api.calls)) == (1, "error", "http", 4)
    assert (document["steps"][0]["calls"], document["steps"][0]["retries"]) == (1, 3)
    assert "4 tries" in workspace.call("explain", "last", "start").stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_ends_between_two_tries_is_continued(
    number: signal.Signals, workspace: Workspace, api: Api
) -> None:
    """After Ctrl-C with the next try, after a kill with the first one."""
    file = workspace.write(CALL.replace("delay: 0.02", "delay: 4"))
    with workspace.started("run", file, "--set", f"url={api.url}", "--set", "fails=1") as run:
        assert run.read_until("try 2 of 4")[-1].split()[:5] == ["start", "try", "2", "of", "4"]
        run.process.send_signal(number)
        assert run.end()[0] == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert len(api.calls) == 1
    code, document = workspace.json("resume", "last")
    assert (code, document["status"], len(api.calls)) == (0, "ok", 2)
    tries = 2 if number == signal.SIGINT else 1
    assert len(task_done(workspace, "last")["output"].get("meta", {}).get("tries", [{}])) == tries
    assert len({each["Idempotency-Key"] for each in api.headers["/flaky/a"]}) == 1
    assert workspace.call("audit").returncode == 0
