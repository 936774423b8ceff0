"""The README keeps its word: all of its commands are run, and print what it shows.

`make test` is not run, since it would run this test in turn: `scripts/fresh` makes it in a bare clone.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

import noetl
from tests.documents import Save, read, reading
from tests.documents_shell import fresh_environment
from tests.e2e.processes import ROOT
from tests.e2e.test_wheel import UV, call, sources

README = ROOT / "README.md"
NOT_RUN = "make test"
INSTALLS = ("pip install .", "pip install '.[all]'")
DISTRIBUTED = ("noetl up", "noetl server", "noetl worker", "noetl run")
PATIENCE_S = 120
TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)


def commands() -> list[str]:
    """The commands in `sh` fences, without their comments, and the `pip install` commands in the text."""
    text = README.read_text("utf-8")
    fences = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    lines = [line.partition("  #")[0].strip() for line in fences.splitlines()]
    return lines + re.findall(r"`(pip install [^`]+)`", text)


def command(beginning: str) -> str:
    """The one of the README that begins so."""
    (found,) = (each for each in commands() if each.startswith(beginning))
    return found


def test_who_follows_it_in_a_clone_sees_what_it_shows() -> None:
    with reading(README) as reader:
        (reader.folder / "examples").symlink_to(ROOT / "examples")
        reader.follow()


def test_every_other_command_of_it_is_run_below() -> None:
    known = ("make run", NOT_RUN, *INSTALLS, *DISTRIBUTED)
    assert len(known) == len(commands())
    assert [each for each in known if not command(each)] == []


def test_everything_that_it_tells_to_make_is_a_target() -> None:
    told = re.findall(r"\bmake ((?:[a-z]+ ?)+)(?=[`$\n]| +#)", README.read_text("utf-8"))
    shown = [target for targets in told for target in targets.split()]
    assert {"run", "test", "docs"} <= set(shown)
    assert set(shown) <= set(TARGET.findall((ROOT / "Makefile").read_text("utf-8")))


def test_make_run_reads_the_shop_and_says_what_to_try_next(tmp_path: Path) -> None:
    """In an environment that is there: `scripts/fresh` makes it in a bare clone."""
    for part in ("Makefile", "scripts", "examples"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tmp_path / part)
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    done = subprocess.run(
        [*shlex.split(command("make run")), "--assume-old=.venv/.ready"], capture_output=True, text=True,
        check=False, cwd=tmp_path, timeout=PATIENCE_S,
        env={name: value for name, value in os.environ.items() if name not in outer},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2,100 orders on 45 pages, each of them once." in done.stdout
    assert "Try next:" in done.stdout
    assert (tmp_path / ".noetl" / "report.md").exists()


def test_what_it_tells_to_install_installs_this_noetl(tmp_path: Path) -> None:
    """In a place of its own that has what we depend on: pip asks no registry, so the extras are known here.

    Without the extras it is what test_wheel installs, with nothing around it and with the UI.
    """
    project, place = sources(tmp_path / "noetl"), tmp_path / "venv"
    shutil.rmtree(project / "ui")
    static = project / "src" / "noetl" / "server" / "static"
    static.mkdir()
    (static / "index.html").write_text("built before")
    environment = fresh_environment(place)
    call(UV, "pip", "install", "--quiet", "--python", place, "hatchling", path=os.environ["PATH"])
    # pip reads 0 as: build where we are.
    environment |= {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_NO_COMPILE": "1"}

    def told(words: str, folder: Path) -> str:
        done = subprocess.run(
            ["bash", "-c", words], cwd=folder, env=environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert told(command(INSTALLS[-1]), project).endswith(f"Successfully installed noetl-{noetl.__version__}")
    assert told("noetl --version", tmp_path) == f"noetl {noetl.__version__}"
    where = told("python -c 'import noetl; print(noetl.__file__)'", tmp_path)
    assert Path(where).is_relative_to(place)


class Distributed:
    """The commands of the block, one after the other, with the addresses from `up` in place of their dots."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOETL_", "XDG_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "PATH": path, "TERM": "dumb"}
        self.environment = {**kept, **own}
        self.dots: dict[str, str] = {}  # what an address begins with → the whole of it

    def words(self, beginning: str, *more: str) -> list[str]:
        line = command(beginning)
        for scheme, address in self.dots.items():
            line = line.replace(f"{scheme}…", address)
        assert "…" not in line
        return [*shlex.split(line), *more]

    @contextmanager
    def started(self, beginning: str, *more: str) -> Iterator[IO[str]]:
        """The output of a command that runs until SIGINT, and then exits with 0."""
        with subprocess.Popen(
            self.words(beginning, *more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=self.folder, env=self.environment,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            try:
                yield process.stdout
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=PATIENCE_S)
                assert process.returncode == 0
            finally:
                process.kill()

    def took_in(self, told: dict[str, str]) -> None:
        """Set the variables from the environment file of `up`; in production, users set their own."""
        lines = Path(told["environment_file"]).read_text("utf-8").splitlines()
        own = dict(line.split("=", 1) for line in lines if "=" in line)
        self.environment |= {name: shlex.split(value)[0] for name, value in own.items()}
        del self.environment["NOETL_SERVER"]  # the token applies to the server that a command names
        for scheme, name in (("postgresql://", "NOETL_DB"), ("nats://", "NOETL_NATS")):
            self.dots[scheme] = self.environment.pop(name)


@pytest.fixture
def distributed() -> Iterator[Distributed]:
    """Not in pytest's own folder: PostgreSQL runs as another user when we are root, and has to get there."""
    with tempfile.TemporaryDirectory(prefix="readme", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Distributed(Path(folder))


def heard(said: IO[str], words: str) -> str:
    """The rest of the first line that begins with these words."""
    before = ""
    for line in said:
        if line.startswith(words):
            return line.removeprefix(words)
        before += line
    raise AssertionError(before)


def test_the_four_lines_lead_from_one_machine_to_many(distributed: Distributed) -> None:
    (saved,) = (deed for deed in read(README) if isinstance(deed, Save))
    (distributed.folder / saved.file).write_text(saved.text, "utf-8")
    with distributed.started("noetl up", "--port", "0", "--format", "json") as told:
        distributed.took_in(json.loads("{" + heard(told, "{")))
        with (
            distributed.started("noetl server", "--port", "0") as server,
            distributed.started("noetl worker") as worker,
        ):
            distributed.dots["http://"] = heard(server, "noetl: ready: ").split()[0]
            assert "serves the pool default" in heard(worker, "noetl: ready: ")
            done = subprocess.run(
                distributed.words("noetl run", "--format", "json"), capture_output=True, text=True,
                check=False, cwd=distributed.folder, env=distributed.environment, timeout=PATIENCE_S,
            )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"]["data"] == {"go_to": "Rome"}
