"""Playbooks for whole processes, and ways to start, watch and end them: nothing here waits by the clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.playbooks import HEAD

ROOT = Path(__file__).parents[2]
NOETL = Path(sys.executable).with_name("noetl")
PATIENCE_S = 180  # with a process that does not end

# Waits in a process of its own until a file is there; `start` and `after` note that they ran.
SLOW = (
    HEAD
    + """\
workload: {flag: "", log: ""}
workflow:
- step: start
  tool: {kind: python, input: {log: "{{ workload.log }}"}, code: "def main(log): open(log, 'a').write('start ')"}
  next: {arcs: [{step: slow}]}
- step: slow
  tool:
    kind: python
    input: {flag: "{{ workload.flag }}"}
    code: |
      def main(flag):
          import os, time
          while not os.path.exists(flag):
              time.sleep(0.01)
          return {"seen": True}
  next: {arcs: [{step: after}]}
- step: after
  tool: {kind: python, input: {log: "{{ workload.log }}"}, code: "def main(log): open(log, 'a').write('after ')"}
"""
)


class Workspace:
    """A folder with a database of its own, and the command `noetl` on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "noetl.db"
        self.environment = {**os.environ, "NOETL_DB": str(self.db), "TERM": "dumb"}

    def write(self, text: str, name: str = "t.yaml") -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def call(self, *arguments: str | Path, input: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [NOETL, *arguments], capture_output=True, text=True, encoding="utf-8", check=False,
            cwd=self.folder, env=self.environment, input=input, timeout=PATIENCE_S,
        )  # fmt: skip

    def json(self, *arguments: str | Path) -> tuple[int, dict[str, Any]]:
        """The exit code and the one document of a call."""
        done = self.call(*arguments, "--format", "json")
        return done.returncode, json.loads(done.stdout)

    @contextmanager
    def started(self, *arguments: str | Path) -> Iterator[Started]:
        """A process in the background; it is ended with the test."""
        with subprocess.Popen(
            [NOETL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            encoding="utf-8", cwd=self.folder, env=self.environment,
        ) as process:  # fmt: skip
            try:
                yield Started(process)
            finally:
                process.kill()

    def slow(self) -> tuple[list[str | Path], Path, Path]:
        """The arguments that run SLOW, the flag that lets it continue, and what it has done."""
        flag, log = self.folder / "flag", self.folder / "log"
        return ["run", self.write(SLOW), "--set", f"flag={flag}", "--set", f"log={log}"], flag, log


class Started:
    """A process that runs, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def read_until(self, words: str) -> list[str]:
        """The lines up to the one with these words; all there are when they never come."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line.rstrip("\n"))
            if words in line:
                break
        return lines

    def error_line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip("\n")

    def end(self) -> tuple[int, str, str]:
        """Its exit code, and what is left of both streams."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, stdout, stderr
