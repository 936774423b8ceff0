"""The release 0.1.0 from the history of this repository, installed beside the current version."""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from pathlib import Path

import pytest

COMMIT = "3bac0481ce4459536ebc245ecb61a4644e7e6300"  # release: 0.1.0
ROOT = Path(__file__).parents[2]


def install_release(folder: Path) -> list[str]:
    """The command of the release, with the libraries of this environment. Skips the test in a clone without history."""
    packed = subprocess.run(
        ["git", "archive", COMMIT, "src", "pyproject.toml"], cwd=ROOT, capture_output=True, check=False
    )
    if packed.returncode != 0:
        pytest.skip("the history of this repository does not contain the release 0.1.0")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    _describe(folder)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "libraries").mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith(("noetl", "_noetl")):  # neither the current version nor its plugins
            (folder / "libraries" / each.name).symlink_to(each)
    paths = f"{folder / 'src'}\n{folder / 'libraries'}\n"
    (folder / "venv" / "lib" / version / "site-packages" / "release.pth").write_text(paths)
    return [str(folder / "venv" / "bin" / "python"), "-m", "noetl"]


def _describe(folder: Path) -> None:
    """The metadata of the package, without which its tools are not found."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / "src" / "noetl-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noetl\nVersion: 0.1.0\n")
    tools = project["entry-points"]["noetl.tools"]
    (info / "entry_points.txt").write_text(
        "[noetl.tools]\n" + "".join(f"{kind} = {at}\n" for kind, at in tools.items())
    )
