"""If the optional library of a tool is missing, the error says how to install it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from noetl.errors import install_hint

ROOT = Path(__file__).parents[3]
PROGRAM = """
import asyncio, sys
sys.modules["{library}"] = None
import msgspec
from noetl.testing.contracts.tools import call_of
from noetl.tool import Tools
tool = Tools.installed().make("{kind}")
print(asyncio.run(tool.run(msgspec.convert({fields}, tool.Input), call_of())).error.message)
"""


@pytest.mark.parametrize(
    ("kind", "library", "fields", "message"),
    [
        (
            "duckdb",
            "duckdb",
            {"query": {"text": ["SELECT 1"]}},
            "DuckDB is not installed on this worker: run `pip install '.[duckdb]'` in a checkout of NoETL",
        ),
        (
            "quantum",
            "qiskit",
            {"op": "poll"},
            "qiskit is not installed on this worker: run `pip install '.[quantum]'` in a checkout of NoETL",
        ),
        (
            "mcp",
            "mcp",
            {"tool": "search", "url": "http://127.0.0.1:9/mcp"},
            "the package mcp is not installed on this worker: run `pip install '.[mcp]'` in a checkout of NoETL",
        ),
    ],
)
def test_a_missing_library_is_named_with_its_install_command(
    kind: str, library: str, fields: object, message: str
) -> None:
    program = PROGRAM.format(kind=kind, library=library, fields=fields)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (message, "")


def test_one_function_makes_every_install_hint() -> None:
    assert install_hint("postgres", "nats") == "run `pip install '.[postgres,nats]'` in a checkout of NoETL"
    sources = sorted((ROOT / "src" / "noetl").rglob("*.py"))
    # The package index has no release of ours, so no text may name one.
    assert [str(each) for each in sources if "noetl[" in each.read_text("utf-8")] == []
