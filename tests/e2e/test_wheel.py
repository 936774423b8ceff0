"""What people install: an sdist, a wheel made of it, in a fresh environment, on a machine without Node.js.

They are built as `pip install .` builds: the packages come from the registries of Python and of npm.
Where those cannot be reached, the test says so and is skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tarfile import TarFile
from zipfile import ZipFile

import pytest

import noetl
from tests.e2e.processes import ROOT

UV = Path(sys.executable).with_name("uv")
PARTS = (
    "pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore", "docs",
    "examples", "scripts", "src", "ui",
)  # fmt: skip
NODE = {"node", "nodejs", "npm", "npx", "corepack"}
BUILD_S = 900
AWAY = re.compile(r"ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|dns error|error sending request|NewConnectionError")


def sources(folder: Path) -> Path:
    """A clean checkout: nothing that was built, nothing that was installed."""
    folder.mkdir()
    for part in PARTS:
        place = ROOT / part
        if place.is_dir():
            left_out = shutil.ignore_patterns("node_modules", "static", "__pycache__")
            shutil.copytree(place, folder / part, ignore=left_out)
        else:
            shutil.copy(place, folder / part)
    return folder


def path_without_node(folder: Path) -> str:
    """All commands of this machine but Node.js."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for command in place.iterdir() if place.is_dir() else ():
            link = folder / command.name
            if command.name not in NODE and not link.is_symlink():
                link.symlink_to(command)
    return str(folder)


def call(*command: str | Path, path: str) -> str:
    """What it said. Skips the test when no registry answers."""
    environment = {**os.environ, "PATH": path, "UV_SYSTEM_CERTS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=BUILD_S)
    if done.returncode and AWAY.search(done.stderr):
        pytest.skip("the registries of Python and npm, from which the wheel is built, cannot be reached: run it online")
    assert done.returncode == 0, done.stderr[-4_000:]
    return done.stdout


@contextmanager
def ui(noetl: Path, folder: Path, path: str) -> Iterator[str]:
    """`noetl ui --no-browser`, and where it is."""
    environment = {**os.environ, "PATH": path, "NOETL_DB": str(folder / "noetl.db")}
    with subprocess.Popen(
        [noetl, "ui", "--no-browser"], stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(180) == 0


def get(url: str) -> tuple[str, bytes]:
    """Its type and itself."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.headers["content-type"], answer.read()


def names_in_sdist(file: Path) -> set[str]:
    """Without the folder that all of them are in."""
    with TarFile.open(file) as packed:
        return {name.partition("/")[2] for name in packed.getnames()}


def test_what_is_installed_without_node_runs_and_has_a_ui_that_works(tmp_path: Path) -> None:
    path = path_without_node(tmp_path / "bin")
    assert all(shutil.which(each, path=path) is None for each in NODE)
    project = sources(tmp_path / "noetl")
    call(UV, "build", project, "--out-dir", tmp_path / "dist", path=path)  # the wheel out of the sdist
    (wheel,) = (tmp_path / "dist").glob(f"noetl-{noetl.__version__}-*.whl")
    names = ZipFile(wheel).namelist()
    assert "noetl/server/static/index.html" in names
    assert not [each for each in names if "node_modules" in each or each.startswith("ui/")]
    packed = names_in_sdist(tmp_path / "dist" / f"noetl-{noetl.__version__}.tar.gz")
    assert {"PKG-INFO", "CHANGELOG.md", "examples/report.yaml", "ui/package-lock.json"} <= packed
    assert "src/noetl/server/static/index.html" in packed
    assert not [each for each in packed if "node_modules" in each or "__pycache__" in each]

    fresh = tmp_path / "fresh"
    call(UV, "venv", "--python", sys.executable, fresh, path=path)
    call(UV, "pip", "install", "--python", fresh, wheel, path=path)
    command = fresh / "bin" / "noetl"
    assert call(command, "--version", path=path).strip() == f"noetl {noetl.__version__}"
    hello = project / "examples" / "hello.yaml"
    done = call(command, "run", hello, "--db", tmp_path / "hello.db", "--format", "json", path=path)
    assert json.loads(done)["status"] == "ok"
    with ui(command, tmp_path, path) as url:
        kind, page = get(url)
        assert kind == "text/html; charset=utf-8"
        assets = re.findall(r'(?:src|href)="/ui/([^"]+)"', page.decode())
        assert any(each.endswith(".js") for each in assets)
        assert any(each.endswith(".css") for each in assets)
        for each in assets:
            assert get(url + each)[1], each
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(url + "assets/no-such-file.js")
        assert b'"open":true' in get(url.replace("/ui/", "/whoami"))[1]


def test_where_only_the_built_ui_is_it_is_taken_as_it_is(tmp_path: Path) -> None:
    project = sources(tmp_path / "noetl")
    static = project / "src" / "noetl" / "server" / "static"
    shutil.rmtree(project / "ui")
    static.mkdir()
    (static / "index.html").write_text("built before")
    path = path_without_node(tmp_path / "bin")
    call(UV, "build", "--wheel", project, "--out-dir", tmp_path / "dist", path=path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with ZipFile(wheel) as found:
        assert found.read("noetl/server/static/index.html") == b"built before"
