"""`make run`: the main example, with a mock shop API that fails intermittently, reports every order once."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

from examples.shop import PAGES, fault, orders
from tests.e2e.processes import ROOT, Workspace

ALL = [(city, page) for city, pages in PAGES.items() for page in range(1, pages + 1)]
ROWS = [row for city, page in ALL for row in orders(city, page)]
FAULTS = Counter(fault(city, page) for city, page in ALL)


def scripts_run(folder: Path, *options: str) -> str:
    command = ["sh", str(ROOT / "scripts" / "run"), "--folder", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows_of(workspace: Workspace) -> list[dict[str, object]]:
    """What came in by `fetch`: of each city its pages, of each page its orders."""
    fetched = json.loads(workspace.call("output", "last", "fetch").stdout)
    return [row for city in fetched for page in city for row in page["orders"]]


def retries_of(workspace: Workspace) -> int:
    log = json.loads(workspace.call("events", "last", "--format", "json").stdout)
    return json.dumps(log).count('"directive": "retry"')


def test_the_main_run_reads_every_order_once_through_all_faults(tmp_path: Path) -> None:
    told = scripts_run(tmp_path)
    report = (tmp_path / "report.md").read_text("utf-8")
    assert report in told
    assert "| Zurich    |  9,763.50 | ██████████████████████████████ |" in report
    assert f"{len(ROWS):,} orders on {len(ALL)} pages, each of them once." in report

    workspace = Workspace(tmp_path)
    assert rows_of(workspace) == ROWS
    faults = json.loads(workspace.call("output", "last").stdout)["faults"]
    assert faults == retries_of(workspace)
    assert f"{faults} requests failed ({FAULTS['rate_limit']} × 429, {FAULTS['busy']} × 503, " in report
    assert faults >= FAULTS.total() - FAULTS["none"]

    # What it says to try next works on what it left behind.
    assert f'export NOETL_DB="{tmp_path / "noetl.db"}"' in told
    for command in re.findall(r"^  noetl ((?:show|events|explain) .*?) +#", told, re.MULTILINE):
        assert workspace.call(*command.split()).returncode == 0, command


def test_killed_half_way_it_goes_on_and_still_has_every_order_once(tmp_path: Path) -> None:
    told = scripts_run(tmp_path, "--kill")
    assert "kill -9" in told
    assert f"{len(ROWS):,} orders on {len(ALL)} pages, each of them once." in told
    assert rows_of(Workspace(tmp_path)) == ROWS
