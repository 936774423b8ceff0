"""NOETL_TOOL_NICE: programs of tasks that compute do not delay the server or worker that started them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from noetl.errors import Rejected
from noetl.output import JSON, Output
from noetl.runtime.local_server import open_local_server
from noetl.runtime.settings import Settings
from noetl.tool import Tools
from noetl.tools.python.tool import PythonInput, PythonTool
from noetl.tools.shell.tool import ShellInput, ShellTool
from tests.unit.tools.calls import call

SESSIONS = Path("/proc/self/autogroup")  # where Linux groups processes by session
grouped = pytest.mark.skipif(not SESSIONS.exists(), reason="this system does not group processes by session")
SANDBOXES: list[dict[str, JSON]] = [{}, {"sandbox": {"network": False}}]


def ran(code: str, nice: int, spec: dict[str, JSON]) -> Output:
    async def go() -> Output:
        tool = PythonTool(1, nice=nice)
        try:
            return await tool.run(PythonInput(code=code), call(spec=spec))
        finally:
            await tool.close()

    return asyncio.run(go())


@pytest.mark.parametrize("spec", SANDBOXES)
@pytest.mark.parametrize("nice", [0, 7])
def test_a_program_has_a_lower_priority(nice: int, spec: dict[str, JSON]) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    found = ran("import os\nresult = [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)]", nice, spec)
    assert found.data == [min(19, own + nice), os.SCHED_OTHER]


@grouped
@pytest.mark.parametrize("spec", SANDBOXES)
def test_so_does_its_session(spec: dict[str, JSON]) -> None:
    wait = """\
import pathlib, time
def main():
    while not (text := pathlib.Path("/proc/self/autogroup").read_text()).endswith("nice 7\\n"):
        time.sleep(0.01)
    return text
"""
    assert str(ran(wait, 7, spec).data).endswith("nice 7\n")


def test_a_command_has_a_lower_priority(tmp_path: Path) -> None:
    async def go() -> Output:
        tool = ShellTool(1, nice=7)
        try:
            return await tool.run(ShellInput(argv=["nice"]), call(folder=str(tmp_path)))
        finally:
            await tool.close()

    assert asyncio.run(go()).data == str(min(19, os.getpriority(os.PRIO_PROCESS, 0) + 7))


PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: priority, path: priority}
workflow:
- step: start
  tool: {kind: shell, argv: [nice]}
"""


@pytest.mark.parametrize(("served", "lower"), [(True, 3), (False, 0)], ids=["noetl server", "noetl ui"])
def test_a_server_lowers_it_and_a_command_does_not(
    served: bool, lower: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_TOOL_NICE", "3")

    async def go() -> JSON:
        async with open_local_server(tmp_path / "noetl.db", served=served) as server:
            runtime = server.runtime
            state = await runtime.wait_until_idle(await runtime.start(await runtime.playbooks.add(PLAYBOOK, None), {}))
            assert state.end_output is not None
            return state.end_output.data

    assert asyncio.run(go()) == str(min(19, os.getpriority(os.PRIO_PROCESS, 0) + lower))


@pytest.mark.parametrize("kind", ["python", "shell", "quantum", "mcp"])
def test_all_tools_that_run_programs_take_it(kind: str) -> None:
    assert Tools.installed(nice=7).make(kind) is not None


@pytest.mark.parametrize("text", ["-1", "20", "much"])
def test_a_wrong_setting_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="NOETL_TOOL_NICE must be a number from 0 to 19"):
        _ = Settings(tool_nice=text).tool_nice_level
