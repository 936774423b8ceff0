"""Build the web UI into the package, so that users of the wheel need no Node.js; and add the examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Runs before hatchling builds a wheel or an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        script = Path(self.root, "scripts", "build_ui.py")
        # An editable install leaves the UI to `make ui`.
        if version != "editable" and script.exists():
            # Build tools parse our stdout, so the output of npm goes to stderr.
            subprocess.run([sys.executable, script], check=True, stdout=sys.stderr)
        if version != "editable" and self.target_name == "wheel":
            # `noetl mcp` offers them to agents.
            for example in sorted(Path(self.root, "examples").glob("*.yaml")):
                build_data["force_include"][str(example)] = f"noetl/examples/{example.name}"
