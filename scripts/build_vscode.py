"""Check, test and package the extension for Visual Studio Code, with the Node.js of the virtual environment."""

from __future__ import annotations

import shutil
import subprocess
import sys

from scripts.build_ui import INSTALL_S, ROOT, UNREACHABLE, Node, environment, find_node

FOLDER = ROOT / "editors" / "vscode"
INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1")  # no script of a package runs


def main() -> int:
    node = find_node()
    if node is None:
        print("vscode: Node.js is missing: `make setup` installs it into .venv", file=sys.stderr)
        return 1
    shutil.copy(ROOT / "LICENSE", FOLDER / "LICENSE")
    if npm(node, *INSTALL):
        print("vscode: npm cannot install the packages; is its registry reachable?", file=sys.stderr)
        return UNREACHABLE
    for script in ("package", "test"):
        if code := npm(node, "run", script):
            return code
    print(f"{FOLDER.relative_to(ROOT)}/noetl.vsix: install it with code --install-extension")
    return 0


def npm(node: Node, *arguments: str) -> int:
    own = {**environment(node), "NOETL": str(ROOT / ".venv" / "bin" / "noetl")}
    return subprocess.run([*node.npm, *arguments], cwd=FOLDER, env=own, check=False, timeout=INSTALL_S).returncode


if __name__ == "__main__":
    raise SystemExit(main())
