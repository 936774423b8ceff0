"""`noetl logs`: what tasks have printed, while they run, after a cancel, and after `kill -9` of their process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from noetl.clock import SystemClock
from tests.e2e.processes import NOETL, PATIENCE_S, Workspace
from tests.measured_process import run_measured
from tests.playbooks import HEAD

# It prints every 100 ms, and notes beside the log what it has printed.
TICKING = (
    HEAD
    + """\
workload: {seen: ""}
workflow:
- step: start
  tool:
    kind: python
    input: {seen: "{{ workload.seen }}"}
    code: |
      import time
      def main(seen):
          for number in range(10_000):
              print("tick", number)
              with open(seen, "a") as file:
                  file.write(f"{time.time()}\\n")
              time.sleep(0.1)
"""
)
PRINTING = (
    HEAD
    + """\
keychain: [{name: key, kind: env, variable: NOETL_SECRET_KEY}]
workflow:
- step: start
  tool:
  - name: first
    kind: python
    input: {key: "{{ keychain.key }}"}
    code: |
      import logging, sys
      def main(key):
          logging.warning("careful")
          print("the key is", key)
          print("no newline", end="")
  - {name: quiet, kind: python, code: "def main(): return 1"}
  next: {arcs: [{step: each}]}
- step: each
  loop: {in: [1, 2], iterator: n}
  tool: {kind: shell, sh: "echo item {{ iter.n }}; test {{ iter.n }} != 2"}
"""
)


def wait_for(holds: Callable[[], bool]) -> None:
    clock = SystemClock()
    until = clock.monotonic() + PATIENCE_S
    while not holds():
        assert clock.monotonic() < until, "it did not happen in time"


def printed(own: Workspace, *arguments: str) -> list[str]:
    done = own.call("logs", "last", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_lines_of_python_and_shell_with_their_calls_and_without_secrets(tmp_path: Path) -> None:
    own = Workspace(tmp_path)
    own.environment["NOETL_SECRET_KEY"] = "correct-horse-battery"
    assert own.call("run", own.write(PRINTING)).returncode == 1
    assert printed(own) == [
        "start#1/1 err | WARNING:root:careful",
        "start#1/1 out | the key is ***",
        "start#1/1 out | no newline",
        "each#1[0]/1 out | item 1",
        "each#1[1]/1 out | item 2",
    ]
    assert printed(own, "--failed") == ["each#1[1]/1 out | item 2"]
    assert printed(own, "each#1[0]") == ["each#1[0]/1 out | item 1"]
    line = json.loads(printed(own, "each", "--format", "jsonl")[0])
    assert re.fullmatch(r"2\d{3}-\d\d-\d\dT[\d:.]+Z", line.pop("at"))
    assert line == {"run": "each#1", "call": "each#1[0]/1", "stream": "out", "text": "item 1"}
    wrong = own.call("logs", "last", "nowhere")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert '"nowhere" has not run: the steps that have run are start, each' in wrong.stderr
    assert own.call("logs", "last", "--failed", "--follow").returncode == 2


def test_a_call_is_limited_and_a_limit_of_0_keeps_nothing(tmp_path: Path) -> None:
    own = Workspace(tmp_path)
    text = HEAD + "workflow:\n- step: start\n  tool: {kind: shell, sh: 'seq 1 100000'}\n"
    own.environment["NOETL_LOG_CALL_BYTES"] = "5000"
    assert own.call("run", own.write(text)).returncode == 0
    lines = printed(own)
    assert lines[-1] == "start#1/1 note | the rest is left out: a call keeps 5,000 bytes of what it prints"
    assert 40 <= len(lines) <= 50
    own.environment["NOETL_LOG_CALL_BYTES"] = "0"
    assert own.call("run", own.write(text)).returncode == 0
    assert printed(own) == []
    own.environment["NOETL_LOG_CALL_BYTES"] = "many"
    assert "NOETL_LOG_CALL_BYTES must be a number of bytes" in own.call("run", own.write(text)).stderr


def peak_mib(own: Workspace, size: int) -> float:
    """The peak memory of `noetl run` while a task prints this many bytes."""
    text = HEAD + f"workflow:\n- step: start\n  tool: {{kind: shell, sh: 'yes {'x' * 79} | head -c {size}'}}\n"
    found = run_measured([NOETL, "run", own.write(text)], own.folder, own.environment, stderr=subprocess.DEVNULL)
    assert found.code == 0
    return found.peak_mib


def test_100_mb_of_output_need_no_more_memory_than_a_little(tmp_path: Path) -> None:
    own = Workspace(tmp_path)
    little, much = peak_mib(own, 100_000), peak_mib(own, 100_000_000)
    assert much - little < 30
    assert "the rest is left out" in printed(own)[-1]


def ticks(lines: list[str]) -> list[int]:
    found = [re.fullmatch(r"start#1/\d out \| tick (\d+)", line) for line in lines]
    return [int(each[1]) for each in found if each is not None]


def test_lines_survive_kill_9_of_the_process_up_to_the_last_second(tmp_path: Path) -> None:
    own, seen = Workspace(tmp_path), tmp_path / "seen"
    seen.touch()
    process = subprocess.Popen(
        [NOETL, "run", own.write(TICKING), "--set", f"seen={seen}"], cwd=tmp_path, env=own.environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: len(seen.read_text().splitlines()) >= 30)
        process.send_signal(signal.SIGKILL)
        killed_at = SystemClock().now().timestamp()
    finally:
        process.kill()
        process.wait()
    expected = sum(1 for at in seen.read_text().split() if float(at) < killed_at - 1)
    kept = ticks(printed(own))
    assert expected >= 15
    assert kept == list(range(len(kept)))
    assert len(kept) >= expected


def test_lines_are_followed_while_the_call_runs_and_survive_a_cancel(tmp_path: Path) -> None:
    own, seen = Workspace(tmp_path), tmp_path / "seen"
    running = subprocess.Popen(
        [NOETL, "run", own.write(TICKING), "--set", f"seen={seen}"], cwd=tmp_path, env=own.environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: seen.exists() and len(seen.read_text().splitlines()) >= 3)
        command = [str(NOETL), "logs", "last", "--follow"]
        with subprocess.Popen(
            command, cwd=tmp_path, env=own.environment, stdout=subprocess.PIPE, text=True
        ) as following:
            assert following.stdout is not None
            first = [following.stdout.readline().rstrip("\n") for _ in range(12)]
            assert running.poll() is None, "lines arrive while the call runs"
            assert own.call("cancel", "last").returncode == 0
            rest = following.stdout.read().splitlines()
            assert following.wait(PATIENCE_S) == 0
    finally:
        running.kill()
        running.wait()
    shown = ticks([*first, *rest])
    assert shown == list(range(len(shown))) == ticks(printed(own))
    assert len(shown) >= 12
