"""Runs examples/report.yaml with a mock shop API; `make run` and scripts/run call this script.

It starts the shop, runs the playbook, prints the report and suggests next commands. With --kill it kills the
run with SIGKILL half way and resumes it. The shop stops at the end; the database and the report stay.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
NOETL: Final = Path(sys.executable).with_name("noetl")
PLAYBOOK: Final = Path("examples", "report.yaml")
BUNDLE: Final = ROOT / "src" / "noetl" / "server" / "static" / "index.html"
PAGES_BEFORE_KILL: Final = 15  # of 45
SHOP_END_S: Final = 10


@contextmanager
def shop() -> Iterator[str]:
    """Yields the address of the shop, and always stops it afterwards."""
    command = [sys.executable, str(ROOT / "examples" / "shop.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit("examples/shop.py did not start; its output is above")
            yield url
        finally:
            process.terminate()
            process.wait(SHOP_END_S)


def run(url: str, folder: Path, environment: Mapping[str, str], *, kill: bool) -> int:
    """Return the exit code of the last process that ran the playbook."""
    command = [str(NOETL), "run", str(PLAYBOOK), "--set", f"shop={url}", "--set", f"folder={folder}"]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        if not kill:
            return process.wait()
        with urllib.request.urlopen(f"{url}/given?pages={PAGES_BEFORE_KILL}"):
            process.kill()
    if process.returncode >= 0:
        return process.returncode  # it ended before the kill
    print(f"\nkill -9 after {PAGES_BEFORE_KILL} pages. Now: noetl resume last\n", flush=True)
    return subprocess.run([NOETL, "resume", "last"], check=False, cwd=ROOT, env=environment).returncode


def print_report(folder: Path) -> None:
    """Print the report, and suggest what to look at."""
    ui = "noetl ui" if BUNDLE.exists() else "make ui && noetl ui"
    report = folder / "report.md"
    print(f"\n{report.read_text('utf-8')}")
    place = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    print(f"Report: {place / report.name}. Log: {place / 'noetl.db'}. Try next:\n")
    print(f'  export NOETL_DB="{folder / "noetl.db"}" PATH="{NOETL.parent}:$PATH"')
    for command, meaning in (
        ("noetl show last", "the steps that ran, as a tree with times"),
        ("noetl events last", "every fact; noetl state last --at 40 shows the state after fact 40"),
        ("noetl explain last fetch", "why a step ran, and with which values"),
        (ui, "the same in the browser: drag the cursor through time"),
        ("sh scripts/run --kill", "run it again, kill it half way, and resume at the same page"),
    ):
        print(f"  {command:<24}  # {meaning}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the main example with a mock shop API.")
    parser.add_argument("--kill", action="store_true", help="kill the run with SIGKILL half way, then resume it")
    parser.add_argument("--folder", type=Path, default=ROOT / ".noetl", help="directory for the report and the log")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").unlink(missing_ok=True)  # an old report must not be mistaken for the new one
    environment = {**os.environ, "NOETL_DB": str(folder / "noetl.db"), "NOETL_SERVER": "local"}
    with shop() as url:
        print(f"The mock shop API is at {url}. Running: noetl run {PLAYBOOK}\n", flush=True)
        code = run(url, folder, environment, kill=options.kill)
    if code == 0:
        print_report(folder)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
