"""The public names of the package, and the cost of importing it."""

from __future__ import annotations

import subprocess
import sys

import noetl


def test_the_public_names_exist() -> None:
    assert noetl.__all__ == [
        "Call", "Failure", "Output", "Problem", "Result", "Session", "Tool", "__version__", "check", "connect", "run",
    ]  # fmt: skip
    assert dir(noetl) == sorted(noetl.__all__)
    for name in noetl.__all__:
        assert getattr(noetl, name) is not None
    assert callable(noetl.check)
    assert callable(noetl.run)
    assert not hasattr(noetl, "nothing")


def test_importing_noetl_imports_no_tool_and_no_library() -> None:
    program = (
        "import sys, noetl; print([n for n in ('yaml', 'jinja2', 'msgspec', 'typer', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
