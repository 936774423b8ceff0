"""Output of a process is shown while it runs: complete lines, the last of many, and none after the call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.output import Output
from noetl.tool import Tool
from noetl.tools.process_guard.lines import LINES_MAX, LineForwarder
from noetl.tools.python.tool import PythonInput, PythonTool
from noetl.tools.shell.tool import ShellInput, ShellTool
from tests.unit.tools.calls import call


class Listener:
    """Records lines; a test can wait for them."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._news = asyncio.Event()

    def hear(self, line: str) -> None:
        self.heard.append(line)
        self._news.set()

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(60):
            while len(self.heard) < count:
                self._news.clear()
                await self._news.wait()
        return self.heard


def test_lines_are_sent_complete_and_empty_ones_are_skipped() -> None:
    async def go() -> None:
        listener = Listener()
        with LineForwarder(listener.hear) as lines:
            lines.add(b"one\n\n  \ntw")
            assert await listener.until(1) == ["one"]
            lines.add(b"o\r\nthr\xc3")
            lines.add(b"\xa9e\n")
            assert await listener.until(3) == ["one", "two", "thr\u00e9e"]

    asyncio.run(go())


def test_of_many_lines_only_the_last_are_sent_with_a_count_of_the_others() -> None:
    async def go() -> None:
        listener = Listener()
        with LineForwarder(listener.hear) as lines:
            lines.add(b"".join(b"%d\n" % number for number in range(1_000)))
            first, *last = await listener.until(1 + LINES_MAX)
        assert first == f"… {1_000 - LINES_MAX:,} more lines"
        assert last == [str(number) for number in range(1_000 - LINES_MAX, 1_000)]

    asyncio.run(go())


def test_a_short_call_sends_no_lines() -> None:
    async def go() -> None:
        quick, slow = Listener(), Listener()
        with LineForwarder(slow.hear) as lines:
            with LineForwarder(quick.hear) as ended_soon:
                ended_soon.add(b"one\n")
            lines.add(b"two\n")
            await slow.until(1)
        assert quick.heard == []

    asyncio.run(go())


CODE = "print('working')\nopen({gate!r}).read()\nresult = 1"


@pytest.mark.parametrize(
    ("make", "input"),
    [
        (PythonTool, lambda gate: PythonInput(code=CODE.format(gate=gate))),
        (ShellTool, lambda gate: ShellInput(sh=f"echo working; cat {gate}")),
        (ShellTool, lambda gate: ShellInput(sh=f"echo working >&2; cat {gate}; echo '{{}}'", parse="json")),
    ],
    ids=["python", "shell", "shell-json"],
)
def test_a_line_is_received_while_the_call_still_runs(
    make: Callable[[], Tool], input: Callable[[str], Any], tmp_path: Path
) -> None:
    """The program continues only after its line was received."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    heard: list[str] = []

    def hear(line: str) -> None:
        heard.append(line)
        gate.open("w").close()

    async def go() -> Output:
        tool = make()
        try:
            async with asyncio.timeout(60):
                return await tool.run(input(str(gate)), call()._replace(say=hear))
        finally:
            await tool.close()

    output = asyncio.run(go())
    assert output.status == "ok"
    assert heard == ["working"]
