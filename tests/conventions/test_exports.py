"""The public names of the package, and the cost of importing it."""

from __future__ import annotations

import subprocess
import sys

import noetl


def test_noetl_exports_its_public_names() -> None:
    assert noetl.__all__ == ["__version__"]


def test_importing_noetl_imports_no_tool_and_no_library() -> None:
    program = "import sys, noetl; print([n for n in ('yaml', 'jinja2', 'msgspec', 'typer', 'rich') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
