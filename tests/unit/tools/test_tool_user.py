"""NOETL_TOOL_USER: programs of tasks run as another user, which cannot read what belongs to the worker."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from noetl.errors import Rejected
from noetl.output import JSON, Output
from noetl.tool import ToolUser
from noetl.tools.mcp.tool import McpInput, McpTool
from noetl.tools.python.tool import PythonInput, PythonTool
from noetl.tools.shell.tool import ShellInput, ShellTool
from tests.unit.tools.calls import call
from tests.wheels import write_wheel

IS_ROOT = os.geteuid() == 0
root_only = pytest.mark.skipif(not IS_ROOT, reason="only root can run programs as another user")
NOBODY = "nobody"
SYSTEM_PYTHON = "/usr/bin/python3"  # at least 3.11


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> ToolUser:
    """With the interpreter of the tests, or with that of the system if the user may not execute the former."""
    for python in (sys.executable, SYSTEM_PYTHON):
        monkeypatch.setattr(sys, "executable", python)
        with suppress(Rejected):
            return ToolUser.find(NOBODY)
    pytest.skip(f"{NOBODY} may execute neither the Python of the tests nor {SYSTEM_PYTHON}")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Not pytest's own, which no other user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def ran(code: str, user: ToolUser, *, spec: dict[str, JSON] | None = None, folder: str | None = None) -> Output:
    async def go() -> Output:
        tool = PythonTool(1, user)
        try:
            return await tool.run(PythonInput(code=code), call(spec=spec or {}, folder=folder))
        finally:
            await tool.close()

    return asyncio.run(go())


def shell(script: str, user: ToolUser, folder: Path, env: dict[str, JSON] | None = None) -> Output:
    async def go() -> Output:
        tool = ShellTool(1, user)
        try:
            return await tool.run(ShellInput(sh=script, env=env or {}), call(folder=str(folder)))
        finally:
            await tool.close()

    return asyncio.run(go())


@root_only
@pytest.mark.parametrize("spec", [{}, {"sandbox": {"network": False}}])
def test_the_program_of_an_mcp_server_runs_as_the_user(
    user: ToolUser, open_folder: Path, spec: dict[str, JSON]
) -> None:
    async def go() -> Output:
        tool = McpTool(user=user)
        try:
            words = '[ -z "$TMPDIR" ] || touch "$TMPDIR/file" || exit 9; id -u >&2; exit 3'
            asked = McpInput(tool="any", command=["sh", "-c", words])
            return await tool.run(asked, call(spec=spec, folder=str(open_folder)))
        finally:
            await tool.close()

    error = asyncio.run(go()).error
    assert error is not None
    assert error.message == f"the program of the server ended (exit code 3) before it answered: {user.uid}"


WHO = "import os\nresult = [list(os.getresuid()), list(os.getresgid()), sorted(os.getgroups()), os.environ['HOME']]"


@root_only
@pytest.mark.parametrize("spec", [{}, {"sandbox": {"network": False}}])
def test_code_runs_as_the_user_for_good(user: ToolUser, spec: dict[str, JSON]) -> None:
    assert ran(WHO, user, spec=spec).data == [[user.uid] * 3, [user.gid] * 3, sorted(user.groups), user.home]
    back = ran("import os\nos.setuid(0)", user, spec=spec)
    assert back.error is not None
    assert "PermissionError" in back.error.message
    flags = ran(
        "result = [l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'NoNewPrivs'))]", user
    )
    assert flags.data == ["0000000000000000", "1"]


@root_only
def test_code_has_a_folder_of_its_own_that_is_removed(user: ToolUser) -> None:
    output = ran("import os\nopen('note', 'w').write('x')\nresult = [os.getcwd(), os.listdir()]", user)
    folder, names = output.data
    assert names == ["note"]
    assert not Path(folder).exists()


@root_only
def test_code_reads_neither_files_nor_memory_of_the_worker(user: ToolUser, open_folder: Path) -> None:
    secret = open_folder / "key"
    secret.write_text("s3cret")
    secret.chmod(0o600)
    for attempt in (
        f"open({str(secret)!r}).read()",
        f"open('/proc/{os.getpid()}/environ').read()",
        f"open('/proc/{os.getpid()}/mem', 'rb').read(1)",
        f"__import__('os').kill({os.getpid()}, 0)",
        f"open({str(open_folder / 'new')!r}, 'w')",
    ):
        error = ran(attempt, user).error
        assert error is not None, attempt
        assert "PermissionError" in error.message


@root_only
def test_a_shell_runs_as_the_user(user: ToolUser, open_folder: Path) -> None:
    assert shell('id -u; echo "$HOME"', user, open_folder).data == f"{user.uid}\n{user.home}"
    assert shell('echo "$HOME"', user, open_folder, {"HOME": "/srv"}).data == "/srv"


@root_only
def test_a_folder_that_the_user_may_not_enter_is_an_error(user: ToolUser, open_folder: Path) -> None:
    open_folder.chmod(0o700)
    error = shell("true", user, open_folder).error
    assert error is not None
    assert error.message == f'the user "{NOBODY}" may not enter the folder "{open_folder}"'


@root_only
def test_the_processes_of_a_program_end_with_it(user: ToolUser, open_folder: Path) -> None:
    """The worker ends them, although they belong to another user."""

    async def go() -> None:
        tool = ShellTool(1, user)
        input = ShellInput(sh="sleep 600 & echo $! ; wait")
        running = asyncio.create_task(tool.run(input, call(folder=str(open_folder))._replace(say=said.put_nowait)))
        over = asyncio.Event()
        async with asyncio.timeout(60):
            handle = os.pidfd_open(int(await said.get()))
            asyncio.get_running_loop().add_reader(handle, over.set)
            running.cancel()
            await over.wait()
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)
        await asyncio.wait([running])
        await tool.close()

    said: asyncio.Queue[str] = asyncio.Queue()
    asyncio.run(go())


@root_only
def test_requirements_are_installed_as_the_user(
    user: ToolUser, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"  # uv, also with the interpreter of the system
    for name, value in {
        "UV_FIND_LINKS": str(open_folder),
        "UV_NO_INDEX": "1",
        "XDG_CACHE_HOME": str(open_folder),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", path)
    write_wheel(open_folder, "1.0")

    async def go() -> Output:
        tool = PythonTool(1, user)
        try:
            code = "import os, sys\nresult = [os.getuid(), os.stat(sys.prefix).st_uid]"
            return await tool.run(PythonInput(code=code, requirements=["noetl-probe==1.0"]), call())
        finally:
            await tool.close()

    output = asyncio.run(go())
    assert (output.error, output.data) == (None, [user.uid, user.uid])


def test_a_user_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Rejected, match='NOETL_TOOL_USER "no-such-user": there is no such user: useradd'):
        ToolUser.find("no-such-user")


def test_root_is_refused() -> None:
    with pytest.raises(Rejected, match="this is root"):
        ToolUser.find(pwd.getpwuid(0).pw_name)


@pytest.mark.skipif(IS_ROOT, reason="root may")
def test_a_process_of_another_user_than_root_is_refused() -> None:
    with pytest.raises(Rejected, match="only root can run programs as another user"):
        ToolUser.find(NOBODY)


@root_only
def test_a_python_that_the_user_cannot_execute_is_refused(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_folder.chmod(0o700)
    link = open_folder / "python"
    link.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(link))
    with pytest.raises(Rejected, match="may not execute"):
        ToolUser.find(NOBODY)
