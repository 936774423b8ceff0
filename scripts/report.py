"""The main run: examples/report.yaml on a shop that has its moods; `make run` and scripts/run call it.

It starts the shop, runs the playbook, shows the report and says what to try next. With --kill the run is
ended by SIGKILL half way, and goes on where it was. The shop ends with it; the database and the report stay.
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
    """Its address. It is ended, whatever happens."""
    command = [sys.executable, str(ROOT / "examples" / "shop.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit("the shop, examples/shop.py, did not start; what it said stands above")
            yield url
        finally:
            process.terminate()
            process.wait(SHOP_END_S)


def run(url: str, folder: Path, environment: Mapping[str, str], *, kill: bool) -> int:
    """The exit code of the playbook's last process."""
    command = [str(NOETL), "run", str(PLAYBOOK), "--set", f"shop={url}", "--set", f"folder={folder}"]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        if not kill:
            return process.wait()
        with urllib.request.urlopen(f"{url}/given?pages={PAGES_BEFORE_KILL}"):
            process.kill()
    if process.returncode >= 0:
        return process.returncode  # it was over before that
    print(f"\nkill -9 after {PAGES_BEFORE_KILL} pages. Now: noetl resume last\n", flush=True)
    return subprocess.run([NOETL, "resume", "last"], check=False, cwd=ROOT, env=environment).returncode


def tell(folder: Path) -> None:
    """What came of it, and what one may look at now."""
    ui = "noetl ui" if BUNDLE.exists() else "make ui && noetl ui"
    report = folder / "report.md"
    print(f"\n{report.read_text('utf-8')}")
    place = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    print(f"The report is {place / report.name}, the log of it all {place / 'noetl.db'}. Try next:\n")
    print(f'  export NOETL_DB="{folder / "noetl.db"}" PATH="{NOETL.parent}:$PATH"')
    for command, meaning in (
        ("noetl show last", "what ran, as a tree with times"),
        ("noetl events last", "every fact of it; noetl state last --at 40 is where it stood after one"),
        ("noetl explain last fetch", "why a step ran, and with what"),
        (ui, "all of this in the browser: drag the cursor through its time"),
        ("sh scripts/run --kill", "the same, ended by kill -9 half way: it goes on at the page where it was"),
    ):
        print(f"  {command:<24}  # {meaning}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the main example, on a shop of its own.")
    parser.add_argument("--kill", action="store_true", help="kill -9 it half way, and resume")
    parser.add_argument("--folder", type=Path, default=ROOT / ".noetl", help="where report and log stay")
    asked = parser.parse_args()
    folder: Path = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").unlink(missing_ok=True)  # an older one would pass for this one
    environment = {**os.environ, "NOETL_DB": str(folder / "noetl.db"), "NOETL_SERVER": "local"}
    with shop() as url:
        print(f"A shop answers at {url}; now: noetl run {PLAYBOOK}\n", flush=True)
        code = run(url, folder, environment, kill=asked.kill)
    if code == 0:
        tell(folder)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
