"""Harmful code and programs fail only their own call, leave no process behind, and other calls continue (test 17)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.output import JSON

ROOT = Path(__file__).parents[2]
WHOLE_S = 15.0  # until the tool has all its slots again, also on a busy machine
ENDS_S = 120.0  # until a harmful call ends by itself or by a limit, also on a busy machine
GIVE_UP_S = 300

FORKS = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
SESSIONS = "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass"
SHELLS = "sh -c 'while :; do sleep 60 & done'; exec sleep 60"  # a shell ends when it cannot fork; its children stay
DAEMON = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        time.sleep(1000)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
)
CROWD = "the program had more than 256 processes at once (limit PROCESSES_MAX); all were killed"


def poisoned(kind: str, text: str, timeout_s: float = ENDS_S) -> dict[str, JSON]:
    """Run in a process namespace if possible: the kernel ends all its processes with the first one."""
    command = [sys.executable, "-m", "tests.chaos.harmful_calls", kind, text, str(timeout_s)]
    if os.getuid() == 0 and shutil.which("unshare"):
        command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=GIVE_UP_S)
    assert done.returncode == 0, done.stderr[-2_000:]
    found: dict[str, JSON] = json.loads(done.stdout)
    assert found.pop("whole"), found
    assert found.pop("left") == [], "a process survived"
    assert found.pop("whole_s") <= WHOLE_S
    assert found.pop("others") >= 1, "no other call ran at the same time"
    assert found.pop("slowest_s") <= WHOLE_S
    return found


@pytest.mark.parametrize(
    ("kind", "text"),
    [("python", FORKS), ("python", SESSIONS), ("shell", SHELLS)],
    ids=["python", "python with sessions", "shell"],
)
def test_a_fork_bomb_is_killed_with_all_its_processes(kind: str, text: str) -> None:
    found = poisoned(kind, text)
    assert found.pop("took_s") <= ENDS_S
    assert found == {"ended": True, "data": None, "kind": "limit", "message": CROWD}


@pytest.mark.parametrize(
    ("kind", "text", "data"),
    [
        ("python", DAEMON + "result = 1", 1),
        ("shell", "setsid sh -c 'setsid sleep 1000 & sleep 1000' & echo done", "done"),
        ("shell", "(setsid sleep 1000 >/dev/null 2>&1 &); exec echo done", "done"),
    ],
)
def test_a_daemon_in_another_session_ends_with_its_call(kind: str, text: str, data: JSON) -> None:
    found = poisoned(kind, text)
    assert (found["ended"], found["data"], found["kind"]) == (True, data, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DAEMON + "os._exit(3)", "the child process exited with code 3 before it returned a result"),
        (
            DAEMON + "import signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "the child process was killed by SIGSEGV",
        ),
        (DAEMON + "os.closerange(0, 100)", "the child process"),
        ("x = bytearray(8 * 1024**3)", "MemoryError (the limit is spec.memory_mb)"),
    ],
    ids=["exit", "segfault", "closed descriptors", "8 GB"],
)
def test_code_that_ends_its_child_process_leaves_no_daemon(text: str, message: str) -> None:
    found = poisoned("python", text)
    assert found["kind"] == "python"
    assert str(found["message"]).startswith(message)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("python", DAEMON + "while True: pass"),
        ("shell", "setsid sleep 1000 & while :; do :; done"),
    ],
)
def test_an_endless_loop_ends_at_its_timeout(kind: str, text: str) -> None:
    found = poisoned(kind, text, timeout_s=0.5)
    assert found["ended"] is False
    assert found["took_s"] <= 0.5 + WHOLE_S


def test_a_gigabyte_of_output_is_truncated_at_once() -> None:
    code = "import os\nfor _ in range(16_384): os.write(1, b'x' * 65_536)\nresult = 1"
    found = poisoned("python", code)
    assert (found["data"], found["kind"]) == (1, None)
    found = poisoned("shell", "head -c 1073741824 /dev/zero")
    assert found["kind"] == "payload-too-large"
