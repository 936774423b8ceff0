"""The public Python API: its documented examples run against a file and against a server."""

from __future__ import annotations

import asyncio
import doctest
from pathlib import Path

import pytest

import noetl
from noetl.errors import Rejected
from noetl.session import api
from noetl.session.errors import ExecutionFailed, StartRefused, UsageError
from tests.playbooks import HEAD

ORDERS = (
    HEAD.replace("path: t", "path: orders/daily")
    + """\
workload: {day: ""}
workflow:
- step: start
  tool:
    kind: python
    input: {day: "{{ workload.day }}"}
    code: |
      def main(day):
          if day == "never":
              raise ValueError("there is no such day")
          return {"orders": 3}
  set: {ctx.day: "{{ workload.day }}"}
"""
)
APPROVAL = (
    HEAD.replace("path: t", "path: approval")
    + """\
workload: {day: ""}
workflow:
- step: start
  tool: {kind: wait, signal: approval}
"""
)
BROKEN = HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: nowhere}]}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("orders", ORDERS), ("approval", APPROVAL), ("broken", BROKEN)):
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_DB", str(tmp_path / "default.db"))
    return tmp_path


@pytest.mark.parametrize("name", ["run", "check", "connect"])
def test_the_examples_of_the_documentation_run(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if target.startswith("http"):
        monkeypatch.setenv("NOETL_SERVER", target)
    else:
        monkeypatch.setenv("NOETL_DB", target)
    function = getattr(api, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(function, name, globs={})
    assert example.examples
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    found: list[str] = []
    runner.run(example, out=found.append)
    assert (runner.summarize(verbose=False).failed, found) == (0, [])


def test_the_calls_of_the_redesign_work_in_order(target: str) -> None:
    async def main() -> None:
        async with noetl.connect(target) as session:
            execution = await session.start("orders.yaml", workload={"day": "2026-11-16"}, key="orders-2026-11-16")
            names = [event.name async for event in execution.events(follow=True)]
            assert names[0] == "playbook.execution.requested"
            assert (await execution.state(at=3)).seq == 3
            result = await execution.result(timeout_s=60)
            assert (result.status, result.output, result.error) == ("ok", {"orders": 3}, None)
            again = await session.start("orders.yaml", workload={"day": "2026-11-16"}, key="orders-2026-11-16")
            assert again.id == execution.id
            failed = await session.start("orders.yaml", workload={"day": "never"})
            assert (await failed.result()).status == "error"
            found = [info.id async for info in session.executions(status="error", path="orders/*")]
            assert found[0] == failed.id

    asyncio.run(main())


def test_run_inside_a_running_loop_names_connect() -> None:
    async def main() -> None:
        noetl.run("orders.yaml")

    with pytest.raises(UsageError, match=r"noetl\.connect"):
        asyncio.run(main())


def test_a_failure_is_a_result_and_an_exception_on_request(folder: Path) -> None:
    result = noetl.run("orders.yaml", workload={"day": "never"}, database=folder / "own.db")
    assert result.error is not None
    assert (result.status, result.error.kind) == ("error", "python")
    with pytest.raises(ExecutionFailed) as raised:
        result.raise_for_status()
    assert raised.value.result is result


def test_a_playbook_with_problems_is_refused() -> None:
    with pytest.raises(StartRefused) as raised:
        noetl.run("broken.yaml")
    assert [problem.code for problem in raised.value.problems] == ["unknown-step"]
    (problem,) = noetl.check("broken.yaml")
    assert (problem.code, problem.severity, problem.line, problem.column) == ("unknown-step", "error", 7, 24)


def test_a_token_is_for_a_server() -> None:
    with pytest.raises(UsageError, match="for a server"):
        noetl.connect("x.db", token="noetl_x")


COUNTING = (
    HEAD
    + """\
workflow:
- step: start
  tool: {kind: noop, input: {page: "{{ ctx.page }}"}}
  set: {ctx.page: "{{ ctx.page + 1 }}"}
"""
)


def test_a_start_gives_first_values_of_ctx(folder: Path) -> None:
    (folder / "counting.yaml").write_text(COUNTING)
    first = noetl.run("counting.yaml", ctx={"page": 3}, key="one")
    assert (first.output, first.ctx) == ({"page": 3}, {"page": 4})
    assert noetl.run("counting.yaml", ctx={"page": 3}, key="one").id == first.id
    with pytest.raises(Rejected, match="this key was used for another start"):
        noetl.run("counting.yaml", ctx={"page": 4}, key="one")
    with pytest.raises(Rejected, match="ctx has 70,012 bytes, and a request may give 65,536"):
        noetl.run("counting.yaml", ctx={"page": 1, "t": "x" * 69_995})
