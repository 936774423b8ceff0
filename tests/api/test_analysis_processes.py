"""Large texts are analysed in a process of its own: the answers are the same, and it has no credentials."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from noetl.server.analysis_process import NICE
from noetl.server.analysis_processes import AnalysisProcesses
from noetl.server.playbook_body import TEXT_CHARS_HERE_MAX
from noetl.server.services import ServerSettings
from tests.api.servers import Answer, Api, ApiServer, serve
from tests.playbooks import HEAD
from tests.sizes import FULL

VALID = HEAD + "workflow:\n" + "".join(
    f"- step: {f's{n}' if n else 'start'}\n  tool: {{kind: noop}}\n  next: {{arcs: [{{step: s{n + 1}}}]}}\n" for n in range(150)
) + "- step: s150\n  tool: {kind: noop}\n"  # fmt: skip
INVALID = VALID.replace("kind: noop", "kind: nop")
MANY_PROBLEMS = HEAD + "workflow:\n" + "- {step: a, tool: {kind: nop}}\n" * (1_500 if FULL else 400)
WIDE = (
    HEAD + "workflow:\n" + "".join(f"- {{step: s{n}, tool: {{kind: noop}}}}\n" for n in range(1_200 if FULL else 400))
)
TEXTS = (VALID, INVALID, MANY_PROBLEMS, WIDE)
ROUTES = (
    ("/playbooks/check", {}),
    ("/playbooks/explain", {}),
    *(("/playbooks/graph", {"format": form}) for form in ("json", "svg", "mermaid", "dot")),
    ("/playbooks", {}),
    ("/playbooks/check", {}),
)


def children() -> list[int]:
    """The processes of this process that analyse texts."""
    lists = Path("/proc/self/task").glob("*/children")
    found = [int(each) for file in lists for each in file.read_text().split()]
    return [each for each in found if b"analysis_process" in _command(each)]


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended since


async def ask_all(api: Api) -> list[Answer]:
    found = []
    for text in TEXTS:
        assert len(text) > TEXT_CHARS_HERE_MAX
        for route, params in ROUTES:
            body = text.encode()
            found.append(await api.ask("POST", route, body, headers={"Content-Type": "text/yaml"}, **params))
    return found


def test_the_answers_are_those_of_a_thread(tmp_path: Path) -> None:
    found: list[list[tuple[int, bytes]]] = []

    async def test(server: ApiServer) -> None:
        found.append([(answer.status, answer.body) for answer in await ask_all(server.api)])

    for name, analyses in (("process", AnalysisProcesses()), ("thread", None)):
        (tmp_path / name).mkdir()
        serve(tmp_path / name, test, ServerSettings(open=True, analyses=analyses))
    assert found[0] == found[1]
    assert {status for status, _ in found[0]} == {200, 201, 422}


def test_a_process_is_used_again_and_ends_with_the_server(tmp_path: Path) -> None:
    async def test(server: ApiServer) -> None:
        seen = set()
        for _ in range(3):
            await server.api.post("/playbooks/check", {"text": VALID})
            seen.update(children())
        assert len(seen) == 1
        (process,) = seen
        assert os.getpriority(os.PRIO_PROCESS, process) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
        assert b"NOETL" not in Path(f"/proc/{process}/environ").read_bytes()

    os.environ["NOETL_TEST_PASSWORD"] = "secret"
    try:
        serve(tmp_path, test, ServerSettings(open=True, analyses=AnalysisProcesses()))
    finally:
        del os.environ["NOETL_TEST_PASSWORD"]
    assert children() == []


def test_a_process_that_has_died_is_replaced(tmp_path: Path) -> None:
    async def test(server: ApiServer) -> None:
        await server.api.post("/playbooks/check", {"text": VALID})
        (process,) = children()
        os.kill(process, signal.SIGKILL)
        while children():
            await asyncio.to_thread(Path("/proc/self/stat").read_bytes)
        assert (await server.api.post("/playbooks/check", {"text": VALID}))["ok"]

    serve(tmp_path, test, ServerSettings(open=True, analyses=AnalysisProcesses()))


@pytest.mark.parametrize("route", ["/playbooks/check", "/playbooks"])
def test_an_analysis_that_takes_too_long_is_refused(route: str, tmp_path: Path) -> None:
    async def test(server: ApiServer) -> None:
        answer = await server.api.ask("POST", route, {"text": VALID})
        assert (answer.status, answer.json["code"]) == (413, "too-large")
        assert children() == []
        assert (await server.api.post("/playbooks/check", {"text": HEAD}))["ok"] is False  # a small one needs none

    serve(tmp_path, test, ServerSettings(open=True, analyses=AnalysisProcesses(analysis_s=0.001)))


def test_a_process_without_work_is_ended(tmp_path: Path) -> None:
    async def test(server: ApiServer) -> None:
        await server.api.post("/playbooks/check", {"text": VALID})
        while children():
            await asyncio.to_thread(Path("/proc/self/stat").read_bytes)

    serve(tmp_path, test, ServerSettings(open=True, analyses=AnalysisProcesses(idle_s=0.05)))
