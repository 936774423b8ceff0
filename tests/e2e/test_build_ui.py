"""The build of the UI takes the versions of its lock file and runs no script of a package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.processes import ROOT

INSTALL = """
from build_ui import Node, install
import os, sys
print(install(Node(["node"], [sys.argv[1]], os.environ["PATH"])))
"""


def test_the_ui_is_built_from_its_lock_file_without_scripts_of_packages(tmp_path: Path) -> None:
    npm, ui, scripts = tmp_path / "npm", tmp_path / "ui", tmp_path / "scripts"
    npm.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nexit 1\n')
    npm.chmod(0o755)
    ui.mkdir()
    scripts.mkdir()
    (scripts / "build_ui.py").write_bytes((ROOT / "scripts" / "build_ui.py").read_bytes())
    for name in ("package.json", "package-lock.json"):
        (ui / name).write_bytes((ROOT / "ui" / name).read_bytes())
    done = subprocess.run([sys.executable, "-c", INSTALL, npm], cwd=scripts, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"  # this npm fails
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[0] == "ci"
    assert "--ignore-scripts" in arguments
