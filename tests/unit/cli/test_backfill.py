"""`noetl backfill` from the plan to the end, on a file and on a server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from noetl.session.backfill import find_playbook, parse_every, parse_instant, parse_zone, start_backfill, succeeded
from noetl.session.backfill import windows_between as between
from noetl.session.remote import RemoteSession
from noetl.session.sources import read_source
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD
from tests.unit.cli.invoke import noetl

DAILY = HEAD.replace("path: t", "path: t/daily") + (
    "workload: {window: {start: '', end: ''}}\n"
    "workflow:\n- step: start\n  tool:\n    kind: python\n"
    '    input: {start: "{{ workload.window.start }}", folder: FOLDER}\n'
    "    code: |\n"
    "      import os\n"
    "      def main(start, folder):\n"
    "          assert not (os.path.exists(folder + '/fail') and start.startswith('2026-01-02'))\n"
    "          return start\n"
)


class Place:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.db, self.capsys = folder, str(folder / "n.db"), capsys
        self.file = folder / "daily.yaml"
        self.file.write_text(DAILY.replace("FOLDER", str(folder)))

    def backfill(self, *options: str, code: int = 0, name: str = "") -> Any:
        arguments = ("--from", "2026-01-01", "--to", "2026-01-04", *options, "--db", self.db, "--format", "json")
        assert noetl("backfill", name or str(self.file), *arguments) == code
        return json.loads(self.capsys.readouterr().out)

    def list(self, *options: str) -> Any:
        assert noetl("list", *options, "--db", self.db, "--format", "json") == 0
        return json.loads(self.capsys.readouterr().out)


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, capsys)


def test_without_yes_the_plan_is_printed_and_nothing_is_done(place: Place) -> None:
    document = place.backfill("--every", "1d", "--reverse")
    assert (document["status"], [each["start"][:10] for each in document["windows"]]) == (
        "planned", ["2026-01-03", "2026-01-02", "2026-01-01"]
    )  # fmt: skip
    assert not Path(place.db).exists()


def test_every_window_is_a_child_and_missing_runs_only_those_that_failed(place: Place) -> None:
    (place.folder / "fail").touch()
    document = place.backfill("--yes", "--in-flight", "1", code=1)
    assert document["status"] == "error"
    assert document["error"]["message"].startswith("1 of 3 windows failed")
    children = [each for each in place.list() if each["called_by"] == document["execution_id"]]
    assert sorted((each["path"], each["status"]) for each in children) == [
        ("t/daily", "error"), ("t/daily", "ok"), ("t/daily", "ok")
    ]  # fmt: skip
    assert len(place.list("--label", "backfill=t/daily", "--roots")) == 1
    (place.folder / "fail").unlink()
    plan = place.backfill("--missing", "--timezone", "Etc/GMT")
    assert [each["start"] for each in plan["windows"]] == ["2026-01-02T00:00:00Z"]
    done = place.backfill("--missing", "--yes", name="t/daily")
    assert (done["status"], done["output"]["data"]) == ("ok", ["2026-01-02T00:00:00Z"])
    assert place.backfill("--missing", "--yes")["windows"] == []
    place.capsys.readouterr()
    assert noetl("backfill", "t/daily", "--from", "2026-01-01", "--to", "2026-01-04", "--db", place.db) == 0
    assert "t/daily: 3 windows, 4 at a time" in place.capsys.readouterr().err


def test_a_playbook_that_refuses_or_ignores_windows(place: Place) -> None:
    head = HEAD.replace("path: t", "path: t/other")
    steps = "workflow:\n- step: start\n  tool: {kind: noop}\n"
    place.file.write_text(head + "input: {day: {type: date}}\n" + steps)
    assert place.backfill(code=2)["error"]["message"].endswith("with start and end")
    place.file.write_text(head + steps)
    assert len(place.backfill()["windows"]) == 3
    assert noetl("backfill", str(place.file), "--from", "2026-01-01", "--to", "2026-01-02", "--db", place.db) == 0
    assert "t/other does not read workload.window" in place.capsys.readouterr().err
    place.file.write_text(head + "workflow: []\n")
    assert noetl("backfill", str(place.file), "--from", "2026-01-01", "--to", "2026-01-02", "--db", place.db) == 2


def test_the_same_on_a_server(tmp_path: Path) -> None:
    file = tmp_path / "daily.yaml"
    file.write_text(DAILY.replace("FOLDER", str(tmp_path)))
    zone = parse_zone("Europe/Zurich")
    windows = between(
        parse_instant("2026-03-28", zone, "--from"), parse_instant("2026-03-31", zone, "--to"), parse_every("1d")
    )

    async def work(server: ApiServer) -> None:
        async with RemoteSession(server.api.url) as session:
            playbook = await find_playbook(session, read_source(str(file)))
            assert await succeeded(session, playbook.path) == set()
            execution = await start_backfill(session, playbook, windows, 2)
            async with asyncio.timeout(60):
                assert await session.rest(execution.id) == "ok"
            assert await execution.output() == [
                "2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"
            ]  # fmt: skip
            assert await succeeded(session, playbook.path) == {each.key for each in windows}

    serve(tmp_path, work)
