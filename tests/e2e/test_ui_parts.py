"""The parts of the web UI, by tests of their own in ui/src, and the types that it has of the API."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.e2e.processes import NOETL, ROOT
from tests.e2e.test_wheel import AWAY


def run_script(*script: str) -> None:
    """A script of ui/package.json. Skips the test where its packages cannot be installed."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "build_ui.py", "--npm", *script],
        capture_output=True, text=True, check=False, timeout=600, cwd=ROOT,
        env={**os.environ, "NOETL": str(NOETL), "NO_COLOR": "1"},
    )  # fmt: skip
    if done.returncode and AWAY.search(done.stderr):
        pytest.skip("the packages of ui/ are not installed, and npm's registry cannot be reached: make ui, online")
    assert done.returncode == 0, (done.stdout + done.stderr)[-6_000:]


def test_the_parts_of_the_ui_do_what_they_say_and_its_types_are_those_of_the_api() -> None:
    # One after the other: both may install the packages first, into the same folder.
    run_script("test")
    run_script("types", "--check")
