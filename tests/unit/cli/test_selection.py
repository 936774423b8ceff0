"""`noetl cancel`, `retry` and `delete` on all executions that options choose."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from noetl.session.api import connect
from tests.playbooks import HEAD
from tests.unit.cli.invoke import noetl

WAITING = HEAD.replace("path: t", "path: shop/waiting") + "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n"
FLAKY = HEAD.replace("path: t", "path: shop/flaky") + (
    "workload: {file: ''}\n"
    "workflow:\n- step: start\n  tool: {kind: python, input: {file: '{{ workload.file }}'},"
    ' code: "def main(file): return open(file).read()"}\n'
)


class Place:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.db = str(folder / "n.db")
        (folder / "waiting.yaml").write_text(WAITING)
        (folder / "flaky.yaml").write_text(FLAKY)

    def leave_running(self, count: int) -> None:
        """Executions that no process runs."""

        async def work() -> None:
            async with connect(self.db) as session:
                for _ in range(count):
                    await session.start(self.folder / "waiting.yaml")
                await session.drain(0)

        asyncio.run(work())

    def fail(self) -> None:
        async def work() -> None:
            async with connect(self.db) as session:
                values = {"file": str(self.folder / "missing")}
                started = await session.start(self.folder / "flaky.yaml", workload=values)
                await session.rest(started.id)

        asyncio.run(work())

    def json(self, *arguments: str, code: int = 0) -> Any:
        assert noetl(*arguments, "--db", self.db, "--format", "json") == code
        return json.loads(self.capsys.readouterr().out)

    def text(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        assert noetl(*arguments, "--db", self.db, "--format", "plain") == code
        return self.capsys.readouterr()

    def statuses(self) -> list[str]:
        return sorted(each["status"] for each in self.json("list"))


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, capsys)


def test_a_plan_is_printed_and_carried_out_only_with_yes(place: Place) -> None:
    place.leave_running(2)
    place.fail()
    plan, hint = place.text("cancel", "--path", "shop/*")
    assert plan.startswith("2 executions will be cancelled\n")
    assert plan.endswith("1 execution stays as it is: already ended: error\n")
    assert "--yes carries it out" in hint
    assert place.statuses() == ["error", "interrupted", "interrupted"]
    result = place.json("cancel", "--path", "shop/*", "--yes")
    assert result["action"] == "cancel"
    assert sorted(each["result"] for each in result["executions"]) == ["done", "done", "unchanged"]
    assert place.statuses() == ["cancelled", "cancelled", "error"]
    gone, _ = place.text("delete", "--status", "cancelled", "--yes")
    assert gone.endswith("deleted 2 executions\n")
    assert place.statuses() == ["error"]
    assert place.text("delete", "--search", "nothing like this")[0] == "no execution matches\n"


def test_failed_executions_are_retried_to_their_end(place: Place) -> None:
    place.fail()
    text, _ = place.text("retry", "--status", "error", "--yes", code=1)
    assert (text.splitlines()[-2], text.endswith(": error\n")) == ("retried 1 execution", True)
    (place.folder / "missing").write_text("found")
    text, _ = place.text("retry", "--status", "error", "--yes")
    assert text.endswith(": ok\n")
    assert place.statuses() == ["ok"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cancel",), "name an execution, or choose several"),
        (("cancel", "last", "--status", "running"), "not both"),
        (("delete", "last", "--path", "x"), "not both"),
        (("retry", "--status", "error", "--from-start"), "for one execution"),
        (("cancel", "--status", "slow"), 'status "slow" is unknown'),
    ],
)
def test_a_wrong_choice_is_refused(place: Place, arguments: tuple[str, ...], message: str) -> None:
    place.leave_running(1)
    assert message in place.text(*arguments, code=2)[1]
