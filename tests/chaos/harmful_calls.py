"""Run a harmful call beside healthy ones, in a process with a limit on processes, so that a fork bomb stays small.

Usage: `python -m tests.chaos.harmful_calls TOOL TEXT TIMEOUT_S`. It prints the results as JSON.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from noetl.output import JSON, Output
from noetl.tools.process_guard.child import descendants_of
from noetl.tools.python.tool import PythonInput, PythonTool
from noetl.tools.shell.tool import ShellInput, ShellTool
from tests.unit.tools.calls import call

PROCESSES = 450  # limit of this test: more than the tools allow, and few enough for any machine
UNUSED_UID = 54_321  # a user without processes, so that the limit counts only ours
LIMITED = "NOETL_TEST_LIMITED"
CAPABILITIES = {
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_NICE": 23,
    "CAP_SYS_RESOURCE": 24,
}  # capabilities that lift limits
PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 24, 36


def prctl(option: int, value: int) -> None:
    assert ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0, ctypes.get_errno()


def limit() -> None:
    """Set the limit. It does not apply to root, so the process changes its user and drops capabilities."""
    if os.environ.get(LIMITED):
        return
    used = 0
    if os.getuid() == 0:
        for capability in CAPABILITIES.values():
            prctl(PR_CAPBSET_DROP, capability)
        os.setresuid(UNUSED_UID, 0, 0)
    else:
        used = sum(len(list(each.glob("task/*"))) for each in Path("/proc").glob("[0-9]*") if _is_ours(each))
    resource.setrlimit(resource.RLIMIT_NPROC, (used + PROCESSES, used + PROCESSES))
    os.environ[LIMITED] = "yes"
    os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.harmful_calls", *sys.argv[1:]])


def _is_ours(process: Path) -> bool:
    try:
        return process.stat().st_uid == os.getuid()
    except OSError:
        return False


def prove_the_limit() -> None:
    """Check that the limit works before a fork bomb runs."""
    sleepers: list[int] = []
    try:
        while len(sleepers) <= PROCESSES:
            pid = os.fork()
            if not pid:
                signal.pause()
                os._exit(0)
            sleepers.append(pid)
        raise AssertionError("the limit on processes has no effect")
    except BlockingIOError:
        pass
    finally:
        for pid in sleepers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class Tried:
    """One tool with two slots."""

    def __init__(self, kind: str) -> None:
        self.tool: PythonTool | ShellTool = PythonTool(2) if kind == "python" else ShellTool(2)

    async def run(self, text: str) -> Output:
        if isinstance(self.tool, PythonTool):
            return await self.tool.run(PythonInput(code=text), call())
        return await self.tool.run(ShellInput(sh=text), call())

    async def healthy(self) -> bool:
        text = "result = 6 * 7" if isinstance(self.tool, PythonTool) else "echo 42"
        output = await self.run(text)
        assert str(output.data) == "42", output
        return True

    async def beside(self, over: asyncio.Event) -> list[float]:
        """The durations of healthy calls while the harmful call runs."""
        took: list[float] = []
        while not over.is_set():
            begun = time.perf_counter()
            await self.healthy()
            took.append(time.perf_counter() - begun)
        return took


async def poisoned(kind: str, text: str, timeout_s: float) -> dict[str, JSON]:
    tried, over = Tried(kind), asyncio.Event()
    await asyncio.gather(tried.healthy(), tried.healthy())
    others = asyncio.ensure_future(tried.beside(over))
    output: Output | None = None
    began = time.perf_counter()
    try:
        async with asyncio.timeout(timeout_s):
            output = await tried.run(text)
    except TimeoutError:
        pass
    begun = time.perf_counter()
    over.set()
    took = await others
    whole = await asyncio.gather(tried.healthy(), tried.healthy())
    whole_s = time.perf_counter() - begun
    await tried.tool.close()
    error = output.error if output is not None else None
    return {
        "ended": output is not None,
        "took_s": begun - began,
        "data": output.data if output is not None else None,
        "kind": error.kind if error is not None else None,
        "message": error.message if error is not None else None,
        "others": len(took),
        "slowest_s": max(took, default=0.0),
        "whole": all(whole),
        "whole_s": whole_s,
        "left": Path(f"/proc/self/task/{os.getpid()}/children").read_text().split(),
    }


def main() -> None:
    limit()
    prove_the_limit()
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # Processes that escape from a tool become our children, and are found.
    kind, text, timeout_s = sys.argv[1:]
    try:
        found = asyncio.run(poisoned(kind, text, float(timeout_s)))
    finally:
        end_all()
    print(json.dumps(found))


def end_all() -> None:
    """Kill all remaining processes."""
    try:
        while True:
            for each in descendants_of(os.getpid(), PROCESSES):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
