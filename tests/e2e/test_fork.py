"""`noetl fork` for a user: a run of hours is killed, its file is corrected, and only what is missing is fetched (D114)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.e2e.processes import ROOT, Workspace
from tests.e2e.serving import Api, serving_as

PAGES = 10
EXAMPLE = (ROOT / "examples" / "nested_loops.yaml").read_text("utf-8")
MISTAKE = EXAMPLE.replace('sum(hotel["rooms"] for', 'sum(hotel["room"] for')  # found after the last page only


class Travel(Api):
    """Three cities with two hotels, each with ten pages of rooms. `stops_at`: after so many pages it does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.stops_at: int | None = None
        self.pages: list[str] = []
        self.stopped = threading.Event()

    async def on_cities(self, request: web.Request, rest: list[str]) -> web.Response:
        if rest[-1] != "rooms":
            return web.json_response({"hotels": [{"id": f"{rest[0]}-{place}"} for place in (1, 2)]})
        page = int(request.query["page"])
        if self.stops_at is not None and len(self.pages) >= self.stops_at:
            self.stopped.set()
            raise web.HTTPServiceUnavailable
        self.pages.append(f"{rest[2]}/{page}")
        rooms = [{"room": page * 10 + each, "beds": 2} for each in range(3)]
        return web.json_response({"rooms": rooms, "page": page, "pages": PAGES})


def workload(api: Api, workspace: Workspace) -> list[str]:
    return ["--set", f"api_url={api.url}", "--set", f"database={workspace.folder / 'rooms.db'}"]


def done_pages(workspace: Workspace, id: str) -> int:
    events = workspace.call("events", id, "--format", "jsonl").stdout
    return events.count('"task":"fetch_rooms"') if events else 0


def test_a_killed_run_continues_on_the_exact_page_after_its_file_was_corrected(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with serving_as(Travel) as api:
        api.stops_at = 25
        with workspace.started("run", workspace.write(MISTAKE), *workload(api, workspace)) as running:
            assert api.stopped.wait(180)
            running.process.kill()
            running.end()
        fetched = list(api.pages)
        api.stops_at = None
        fixed = workspace.write(EXAMPLE, "fixed.yaml")
        code, planned = workspace.json("fork", "last", "--playbook", fixed)
        assert code == 0
        assert planned["plan"]["kept"] == ["start#1"]
        assert [each["run"] for each in planned["plan"]["redone"]] == ["crawl#1"]
        code, forked = workspace.json("fork", "last", "--playbook", fixed, "--yes")
        assert (code, forked["status"]) == (0, "ok")
        rooms = forked["output"]["data"]
        # A page whose answer had arrived when the process died, but was not in the log, is fetched again.
        again = len(api.pages) - len(set(api.pages))
        assert again <= 6, "at most one page of each hotel"
        assert len(set(api.pages)) == 6 * PAGES
        assert set(api.pages) >= set(fetched)
        api.pages.clear()
        code, fresh = workspace.json("run", fixed, *workload(api, workspace))
        assert (code, fresh["output"]["data"]) == (0, rooms)
    assert workspace.call("audit", forked["execution_id"]).returncode == 0


def test_a_mistake_in_the_last_step_costs_only_that_step(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with serving_as(Travel) as api:
        code, failed = workspace.json("run", workspace.write(MISTAKE), *workload(api, workspace))
        assert (code, failed["error"]["step"]) == (1, "summarise")
        assert len(api.pages) == 6 * PAGES
        api.calls.clear()
        fixed = workspace.write(EXAMPLE, "fixed.yaml")
        done = workspace.call("fork", "last", "--playbook", fixed, "--yes")
        assert done.returncode == 0, done.stderr
        assert "kept: 2 runs and 9 iterations" in done.stderr
        assert "summarise#1: its tasks have changed" in done.stderr
        assert api.calls == [], "nothing is fetched again"
        shown = workspace.call("show", "last").stdout
        assert f"fork of {failed['execution_id']}" in shown
        assert "kept" in shown
        # The original keeps the results of its fork.
        kept = workspace.call("delete", failed["execution_id"], "--yes")
        assert kept.returncode == 1
        assert "is a fork of it" in kept.stderr


def test_a_fork_without_yes_only_shows_its_plan(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    hello = workspace.write((ROOT / "examples" / "hello.yaml").read_text("utf-8"))
    workspace.json("run", hello)
    code, plan = workspace.json("fork", "last", "--set", "name=Ada")
    assert code == 0
    assert "execution_id" not in plan
    assert plan["plan"]["redone"] == [{"run": "start#1", "why": "its input has changed: workload.name"}]
    code, listed = workspace.json("list")
    assert len(items(listed)) == 1
    code, forked = workspace.json("fork", "last", "--set", "name=Ada", "--yes")
    assert (code, forked["output"]["data"]) == (0, {"text": "hello, Ada"})


def items(listed: Any) -> list[Any]:
    found: list[Any] = listed if isinstance(listed, list) else listed["items"]
    return found


def test_wrong_requests_are_explained(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.json("run", workspace.write((ROOT / "examples" / "hello.yaml").read_text("utf-8")))
    for arguments, code, words in (
        (["--at", "99"], 2, "there is no such fact"),
        (["--from", "nowhere"], 1, 'no step "nowhere"'),
        (["--playbook", "nothing.yaml"], 2, "nothing.yaml"),
    ):
        done = workspace.call("fork", "last", *arguments)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    broken = workspace.write("workflow: []", "broken.yaml")
    assert workspace.call("fork", "last", "--playbook", broken).returncode == 2
