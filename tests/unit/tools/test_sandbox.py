"""`spec.sandbox`: code and programs can neither open sockets nor write outside, nor reach the processes of the worker."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.output import JSON, Output
from noetl.tools.process_guard.restrict import LANDLOCK_ABI_MIN
from noetl.tools.python.tool import PythonInput, PythonTool
from noetl.tools.shell.tool import ShellInput, ShellTool
from tests.unit.tools.calls import call

ROOT = Path(__file__).parents[3]
PROBE = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))"
VERSION = int(subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True).stdout)
needs_landlock = pytest.mark.skipif(VERSION < LANDLOCK_ABI_MIN, reason="this kernel has no Landlock of version 3")

needs_signals = pytest.mark.skipif(VERSION < 6, reason="this kernel has no Landlock of version 6, since Linux 6.12")

SIGNAL = "send a signal to the worker"
REFUSED = {
    "open a socket": "import socket; socket.socket()",
    "open a socket of IPv6": "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "open a raw socket": "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "open a Unix socket": "import socket; socket.socket(socket.AF_UNIX)",
    "make datagram sockets, which can be connected": (
        "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"
    ),
    "connect": "import socket, os; socket.create_connection(('127.0.0.1', int(os.environ['PORT'])), 60)",
    "connect in a child": (
        "import subprocess, sys; code = 'import socket; socket.socket()'\n"
        "if subprocess.run([sys.executable, '-c', code], stderr=subprocess.DEVNULL).returncode: raise PermissionError"
    ),
    "use io_uring": (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.syscall(425, 1, ctypes.create_string_buffer(200)) < 0: raise OSError(ctypes.get_errno(), '')"
    ),
    "write a file outside": "open(OUTSIDE + '/new', 'w')",
    "append to a file outside": "open(OUTSIDE + '/file', 'a')",
    "truncate a file outside": "import os; os.truncate(OUTSIDE + '/file', 0)",
    "remove a file outside": "import os; os.remove(OUTSIDE + '/file')",
    "rename a file outside": "import os; os.rename(OUTSIDE + '/file', OUTSIDE + '/other')",
    "move a file outside": "import os; open('in', 'w'); os.rename('in', OUTSIDE + '/in')",
    "make a folder outside": "import os; os.mkdir(OUTSIDE + '/folder')",
    "make a symbolic link outside": "import os; os.symlink('/', OUTSIDE + '/link')",
    "make a hard link outside": "import os; open('in', 'w'); os.link('in', OUTSIDE + '/in')",
    "write through a link inside": "import os; os.symlink(OUTSIDE + '/file', 'link'); open('link', 'a')",
    "write to /tmp": "open('/tmp/noetl-outside', 'w')",
    "write to the folder of the playbook": "open(FOLDER + '/new', 'w')",
    "change the owner of a file": "import os; os.chown(OUTSIDE + '/file', 1, 1)",
    "read the environment of the guard": "import os; open(f'/proc/{os.getppid()}/environ').read()",
    "read the environment of the worker": "open(f'/proc/{WORKER}/environ').read()",
    "read the memory of the worker": "open(f'/proc/{WORKER}/mem', 'rb').read(1)",
    "read the names of open files of the worker": "import os; os.readlink(f'/proc/{WORKER}/fd/1')",
    "trace the worker": (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.ptrace(16, WORKER, 0, 0) < 0: raise OSError(ctypes.get_errno(), '')"
    ),
    "mount a file system": (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.mount(b'none', OUTSIDE.encode(), b'tmpfs', 0, None) < 0: raise OSError(ctypes.get_errno(), '')"
    ),
    "change the clock": "import time; time.clock_settime(time.CLOCK_REALTIME, time.time())",
    "become another user": "import os; os.setuid(65534) if os.getuid() == 0 else os.setuid(0)",
    SIGNAL: "import os; os.kill(WORKER, 0)",
}  # fmt: skip
ALLOWED = {
    "read files": "result = open(OUTSIDE + '/file').read()",
    "write to a path in `writable`": "open(FOLDER + '/out/new', 'w').write('1')",
    "write to a file in `writable`": "open(FOLDER + '/one', 'w').write('1')",
    "write to the working directory": "open('new', 'w').write('1')",
    "write temporary files": "import tempfile; tempfile.NamedTemporaryFile().write(b'1')",
    "write to /dev/null": "open('/dev/null', 'w').write('1')",
    "run an event loop": "import asyncio; asyncio.run(asyncio.sleep(0))",
    "run a program": "import subprocess; subprocess.run(['true'], check=True)",
    "start threads and processes": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    "print": "import sys; print(1); open('/dev/stderr', 'w').write('x')",
}  # fmt: skip


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The folder of the playbook and another one."""
    folder, outside = tmp_path / "playbook", tmp_path / "outside"
    (folder / "out").mkdir(parents=True)
    (folder / "one").touch()
    outside.mkdir()
    (outside / "file").write_text("x")
    yield folder, outside
    assert [each.name for each in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "x"
    assert sorted(each.name for each in folder.iterdir()) == ["one", "out"]
    assert not Path("/tmp/noetl-outside").exists()


async def run_code(tool: PythonTool, code: str, sandbox: JSON, folders: tuple[Path, Path]) -> Output:
    folder, outside = folders
    names = f"WORKER = {os.getpid()}; OUTSIDE = {str(outside)!r}; FOLDER = {str(folder)!r}; result = None\n"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        env = {"PORT": str(listening.getsockname()[1])}
        spec = {"memory_mb": 512, "sandbox": sandbox}
        return await tool.run(PythonInput(code=names + code, env=env), call(spec=spec))


def ran(code: str, sandbox: JSON, folders: tuple[Path, Path]) -> Output:
    async def go() -> Output:
        tool = PythonTool(1)
        try:
            return await run_code(tool, code, sandbox, folders)
        finally:
            await tool.close()

    return asyncio.run(go())


def writable(folders: tuple[Path, Path]) -> dict[str, JSON]:
    return {"writable": [str(folders[0] / "out"), str(folders[0] / "one")]}


@needs_landlock
@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=needs_signals if each == SIGNAL else ()) for each in REFUSED]
)
def test_code_in_a_sandbox_cannot(what: str, folders: tuple[Path, Path]) -> None:
    output = ran(REFUSED[what], writable(folders), folders)
    assert output.error is not None, output.data
    assert output.own["py"]["exception_type"] in ("PermissionError", "OSError"), output.error
    assert "Permission denied" in output.error.message or "not permitted" in output.error.message or what in (
        "connect in a child", "use io_uring", "trace the worker", "mount a file system",
    ), output.error  # fmt: skip


@needs_landlock
@pytest.mark.parametrize("what", ALLOWED)
def test_code_in_a_sandbox_can(what: str, folders: tuple[Path, Path]) -> None:
    output = ran(ALLOWED[what], writable(folders), folders)
    assert output.error is None, output.error


@needs_landlock
def test_network_true_allows_connections_and_still_restricts_files(folders: tuple[Path, Path]) -> None:
    sandbox = {"network": True, **writable(folders)}
    assert ran(REFUSED["connect"], sandbox, folders).error is None
    assert ran(REFUSED["write a file outside"], sandbox, folders).error is not None


def test_without_a_sandbox_the_same_code_runs(folders: tuple[Path, Path]) -> None:
    for what in ("open a socket", "connect", "make datagram sockets, which can be connected", SIGNAL):
        assert ran(REFUSED[what], None, folders).error is None


@needs_landlock
def test_a_process_is_reused_only_for_the_same_sandbox(folders: tuple[Path, Path]) -> None:
    async def go() -> list[JSON]:
        tool = PythonTool(1)
        pid = "import os; result = os.getpid()"
        sandboxes: list[JSON] = [None, {}, {}, writable(folders), {"network": True}, None, {}]
        try:
            return [(await run_code(tool, pid, sandbox, folders)).data for sandbox in sandboxes]
        finally:
            await tool.close()

    plain, first, again, other, network, plain_again, last = asyncio.run(go())
    assert (plain, first, first) == (plain_again, again, last)
    assert len({plain, first, other, network}) == 4


def shell(script: str, sandbox: JSON, folder: Path) -> Output:
    async def go() -> Output:
        tool = ShellTool(1)
        try:
            return await tool.run(ShellInput(sh=script), call(spec={"sandbox": sandbox}, folder=str(folder)))
        finally:
            await tool.close()

    return asyncio.run(go())


@needs_landlock
def test_a_program_in_a_sandbox(folders: tuple[Path, Path]) -> None:
    folder, outside = folders
    script = f"""
    echo 1 > out/new && echo in
    echo 1 > $TMPDIR/new && echo temporary: $TMPDIR
    echo 1 > {outside}/new || echo not outside
    echo 1 > new || echo not beside the playbook
    cat /proc/{os.getpid()}/environ > /dev/null || echo not the worker
    echo 1 > /dev/stderr && echo printed
    """
    output = shell(script, {"writable": ["out"]}, folder)
    assert output.error is None
    lines = output.data.splitlines()
    temporary = lines.pop(1).removeprefix("temporary: ")
    assert lines == ["in", "not outside", "not beside the playbook", "not the worker", "printed"]
    assert not Path(temporary).exists()
    refused = shell(f"{sys.executable} -c 'import socket; socket.socket()'", {}, folder)
    assert refused.error is not None
    assert "PermissionError" in refused.error.message


@pytest.mark.parametrize(
    ("sandbox", "message"),
    [
        ({"writable": ["missing"]}, 'missing" does not exist on this worker; create it first'),
        ({"writable": ["a\0b"]}, "contains a NUL character"),
        ({"writable": "out"}, "spec: Expected `array`, got `str`"),
        ({"net": False}, "spec: Object contains unknown field `net`"),
    ],
)
def test_an_invalid_sandbox_is_an_error(sandbox: JSON, message: str, folders: tuple[Path, Path]) -> None:
    for output in (shell("touch out/ran", sandbox, folders[0]), ran("open(FOLDER + '/out/ran')", sandbox, folders)):
        assert output.error is not None
        assert message in output.error.message or "is relative" in output.error.message
    assert not (folders[0] / "out" / "ran").exists()


# A seccomp filter hides system calls from the worker, as an old kernel or the profile of a container does.
WITHOUT = """
import asyncio, ctypes, sys
from noetl.tools.process_guard.restrict import install_filter
from noetl.tools.python.tool import PythonInput, PythonTool
from noetl.tools.shell.tool import ShellInput, ShellTool
from tests.unit.tools.calls import call

async def main(hidden, error):
    python, shell = PythonTool(1), ShellTool(1)
    spec = {"memory_mb": 512, "sandbox": {}}
    print((await shell.run(ShellInput(sh="true"), call(spec={}))).status)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)
    await shell.close()
    install_filter(libc, ((0x20, 0, 0, 0), (0x15, 0, 1, hidden), (6, 0, 0, 0x50000 | error), (6, 0, 0, 0x7FFF0000)))
    for tool, input in ((python, PythonInput(code="open('/proc/ran')")), (shell, ShellInput(sh="exit 9"))):
        output = await tool.run(input, call(spec=spec))
        print(output.error.kind, output.error.retryable, output.error.message)
    print((await shell.run(ShellInput(sh="true"), call(spec={}))).status)
    await python.close()
    await shell.close()

asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.mark.parametrize(
    ("hidden", "error", "message"),
    [
        (444, 38, "spec.sandbox needs Landlock version 3 (Linux 6.2 or newer) on the worker, and this kernel has none"),
        (444, 95, "spec.sandbox needs Landlock version 3 (Linux 6.2 or newer) on the worker, and this kernel has none"),
        (446, 1, "spec.sandbox cannot be applied on this worker: landlock_restrict_self: Operation not permitted"),
    ],
)
def test_a_task_fails_where_the_kernel_cannot_apply_the_sandbox(hidden: int, error: int, message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WITHOUT), str(hidden), str(error)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    first, python, shell, last = done.stdout.splitlines() or [done.stderr] * 4
    assert (first, last) == ("ok", "ok")
    assert python == shell
    assert python.startswith(f"sandbox False {message}")
