"""Install the other engines with pinned versions, each into a virtual environment below .bench.

An existing environment with the same pins is used again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scripts.build_ui import SYSTEM_CERTIFICATES, find_node

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BENCH = ROOT / ".bench"
RESTATE_SERVER = "1.7.12"
INSTALL_S = 600


class Missing(Exception):
    """An engine cannot be installed; the message gives the reason."""


def python_of(peer: str) -> Path:
    return BENCH / peer / "venv" / "bin" / "python"


def restate_server() -> Path:
    """Raises Missing."""
    found = list((BENCH / "restate" / "npm").glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    if not found:
        raise Missing("npm has no server of Restate for this machine")
    return found[0]


def install(peer: str) -> None:
    """Raises Missing."""
    pins = (HERE / f"{peer}.txt").read_text("utf-8") + (RESTATE_SERVER if peer == "restate" else "")
    stamp = BENCH / peer / "installed"
    if stamp.exists() and stamp.read_text("utf-8") == pins:
        return
    print(f"installing {peer} into .bench/{peer}", file=sys.stderr)
    uv = str(Path(sys.executable).with_name("uv"))
    venv = str(BENCH / peer / "venv")
    _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, venv], f"an environment for {peer}")
    options = ["--quiet", "--system-certs", "--compile-bytecode", "--python", str(python_of(peer))]
    _run([uv, "pip", "install", *options, "-r", str(HERE / f"{peer}.txt")], f"{peer} from PyPI")
    if peer == "restate":
        _install_restate_server()
    stamp.write_text(pins, "utf-8")


def _install_restate_server() -> None:
    node = find_node()
    if node is None:
        raise Missing("the server of Restate needs npm, and Node.js is missing: make setup")
    folder = BENCH / "restate" / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    trusted = {"NODE_EXTRA_CA_CERTS": str(SYSTEM_CERTIFICATES)} if SYSTEM_CERTIFICATES.exists() else {}
    # Its install script only sends a report about the installation.
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--prefix", str(folder)]
    command = [*node.npm, "install", *options, f"@restatedev/restate-server@{RESTATE_SERVER}"]
    _run(command, "the server of Restate from npm", {**trusted, **os.environ, "PATH": node.path})
    restate_server()


def _run(command: list[str], what: str, environment: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{what}: not finished within {INSTALL_S} s") from error
    if done.returncode:
        last = (done.stderr.strip() or "no output").splitlines()[-1].rstrip(".")
        raise Missing(f"{what}: {last}")
