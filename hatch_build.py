"""Builds the web UI into the package, so that whoever installs it needs no Node.js of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Before a wheel or an sdist is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        script = Path(self.root, "scripts", "build_ui.py")
        # In an editable install the UI is built when someone wants it: `make ui`.
        if version != "editable" and script.exists():
            # What npm says goes where the words of builds go, not into what build tools read.
            subprocess.run([sys.executable, script], check=True, stdout=sys.stderr)
