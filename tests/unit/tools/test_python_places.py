"""Where the code of `python` tasks runs: its folder, its modules, its variables and its packages (D108)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.output import JSON, Failure, Output
from noetl.tools.python.environments import EnvironmentFailure, _cache_folder, _remove_unused, find_uv
from noetl.tools.python.tool import PythonInput, PythonTool
from tests.unit.tools.calls import call
from tests.wheels import write_wheel


def with_tool(use: Callable[[PythonTool], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        tool = PythonTool(children=1)
        try:
            return await use(tool)
        finally:
            await tool.close()

    return asyncio.run(go())


def ran(*inputs: PythonInput, folder: Path | None = None, **arguments: JSON) -> list[Output]:
    """The outputs of calls in one child process, one after the other."""
    where = None if folder is None else str(folder)

    async def use(tool: PythonTool) -> list[Output]:
        return [await tool.run(input, call(arguments, folder=where)) for input in inputs]

    outputs: list[Output] = with_tool(use)
    return outputs


def data_of(*inputs: PythonInput, folder: Path | None = None, **arguments: JSON) -> list[JSON]:
    outputs = ran(*inputs, folder=folder, **arguments)
    assert [output.error for output in outputs] == [None] * len(inputs)
    return [output.data for output in outputs]


def error_of(output: Output) -> Failure:
    assert output.error is not None
    return output.error


# The working directory


def test_the_working_directory_is_the_folder_of_the_playbook(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    code = PythonInput(code="import glob, os\nresult = [os.getcwd(), glob.glob('*.csv')]")
    assert data_of(code, folder=tmp_path) == [[str(tmp_path), ["a.csv"]]]


def test_without_a_folder_it_is_empty_for_every_call_and_removed_with_the_child() -> None:
    write = "import os\nresult = [os.getcwd(), os.listdir('.')]\nos.mkdir('d')\nopen('d/f', 'w').write('x')"
    first, second = data_of(PythonInput(code=write), PythonInput(code=write))
    assert (first[1], second[1]) == ([], [])
    assert first == second, "the same child makes both calls"
    assert first[0] != os.getcwd()
    assert not Path(first[0]).exists()


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (output,) = ran(PythonInput(code="result = 1"), folder=tmp_path / "file")
    assert (error_of(output).kind, "cannot be used on this worker" in error_of(output).message) == ("input", True)


def test_an_execution_that_outlives_its_folder_runs_in_an_empty_one_and_says_so(tmp_path: Path) -> None:
    (output,) = ran(PythonInput(code="import os\nresult = os.listdir('.')"), folder=tmp_path / "gone")
    assert output.data == []
    assert 'gone", does not exist: the code runs in an empty folder' in output.own["py"]["stderr"]


# Modules


def test_modules_beside_the_playbook_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "sums.py").write_text("def double(n):\n    return 2 * n\n")
    (tmp_path / "top.py").write_text("from helpers.sums import double\nSIX = double(3)\n")
    code = "import top\n\ndef main(n):\n    from helpers import sums\n    return [top.SIX, sums.double(n)]"
    assert data_of(PythonInput(code=code), PythonInput(code=code), folder=tmp_path, n=4) == [[6, 8], [6, 8]]


def test_a_module_of_another_playbook_is_not_confused_with_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"NAME = {name!r}\n")
    code = PythonInput(code="import helper, os\nresult = [helper.NAME, os.getpid()]")

    async def use(tool: PythonTool) -> list[JSON]:
        return [(await tool.run(code, call(folder=str(tmp_path / name)))).data for name in ("a", "b", "a")]

    found = with_tool(use)
    assert [name for name, _ in found] == ["a", "b", "a"]
    assert len({pid for _, pid in found}) == 1, "one child makes all calls"


def test_a_file_beside_the_playbook_does_not_replace_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "csv.py").write_text("raise RuntimeError\n")
    assert data_of(PythonInput(code="import csv\nresult = csv.__name__"), folder=tmp_path) == ["csv"]


def test_a_script_imports_modules_beside_itself_and_beside_the_playbook(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "near.py").write_text("N = 1\n")
    (tmp_path / "far.py").write_text("N = 2\n")
    (tmp_path / "scripts" / "main.py").write_text("import os, near, far\nresult = [near.N, far.N, os.getcwd()]\n")
    assert data_of(PythonInput(script="scripts/main.py"), folder=tmp_path) == [[1, 2, str(tmp_path)]]


def test_without_a_folder_nothing_of_the_worker_can_be_imported() -> None:
    assert Path("scripts/wording.py").exists()  # in the working directory of the worker
    (output,) = ran(PythonInput(code="import scripts.wording"))
    assert "No module named 'scripts' (install the package on the worker, or" in error_of(output).message


def test_an_exception_in_a_module_shows_its_lines(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def fail():\n    raise ValueError('no')\n")
    (output,) = ran(PythonInput(code="import helper\n\nhelper.fail()"), folder=tmp_path)
    assert error_of(output).details == {
        "traceback": "line 3 of the code\n    helper.fail()\nline 2 of helper.py, in fail\n    raise ValueError('no')",
        "line": 3,
    }


# Variables


def test_env_sets_variables_for_one_call_and_its_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "of the worker")
    show = "import os, subprocess\nresult = [os.environ.get('N'), os.environ.get('CANARY'), os.getpid(), "
    show += "subprocess.run(['sh', '-c', 'printf \"$N\"'], capture_output=True, text=True).stdout]"
    first, second = data_of(PythonInput(code=show, env={"N": 3, "GONE": None}), PythonInput(code=show))
    assert (first[:2], first[3]) == (["3", None], "3")
    assert (second[:2], second[3]) == ([None, None], "")
    assert first[2] == second[2], "the same child makes both calls"


def test_a_time_zone_in_env_holds_for_the_call_only() -> None:
    code = "import time\nresult = time.localtime(0).tm_hour"
    assert data_of(PythonInput(code=code, env={"TZ": "XYZ-5"}), PythonInput(code=code, env={"TZ": "UTC"})) == [5, 0]


@pytest.mark.parametrize(("env", "words"), [({"A=B": "1"}, '"A=B" is not a valid name'), ({"A": [1]}, "environment")])
def test_invalid_variables_are_refused(env: dict[str, JSON], words: str) -> None:
    (output,) = ran(PythonInput(code="result = 1", env=env))
    assert (error_of(output).kind, words in error_of(output).message) == ("input", True)


# Packages


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with wheels instead of an index, and an empty cache."""
    for version in ("1.0", "2.0"):
        write_wheel(tmp_path / "wheels", version)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "wheels"


def needs(*requirements: str, code: str = "import noetl_probe\nresult = noetl_probe.VERSION") -> PythonInput:
    return PythonInput(code=code, requirements=list(requirements))


@pytest.mark.usefixtures("index")
def test_requirements_are_installed_into_environments_of_their_own() -> None:
    versions = ("noetl-probe==1.0", "noetl-probe==2.0", "noetl_probe == 1.0")
    assert data_of(*map(needs, versions)) == ["1.0", "2.0", "1.0"]
    only = needs("noetl-probe", code="import msgspec")
    (output,) = ran(only)
    assert "No module named 'msgspec'" in error_of(output).message


def test_an_environment_is_made_once_for_all_calls(index: Path) -> None:
    assert data_of(needs("noetl-probe==1.0")) == ["1.0"]
    for wheel in index.iterdir():
        wheel.unlink()
    assert data_of(needs("noetl-probe==1.0"), needs("noetl-probe==1.0")) == ["1.0", "1.0"]
    assert [each.name for each in _cache_folder().iterdir() if each.name.startswith(".")] == []


@pytest.mark.usefixtures("index")
def test_a_version_that_does_not_exist_is_an_error_that_is_not_worth_a_retry() -> None:
    failure = error_of(ran(needs("noetl-probe==3.0"))[0])
    assert (failure.kind, failure.retryable) == ("python", False)
    assert failure.message.startswith("the requirements cannot be installed: No solution found")
    assert "noetl-probe==3.0" in failure.message
    assert list(_cache_folder().iterdir()) == [], "nothing is left behind"


def test_an_unreachable_index_is_an_error_that_is_worth_a_retry(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del index
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://me:canary@127.0.0.1:1/simple")
    failure = error_of(ran(needs("another-probe"))[0])
    assert (failure.kind, failure.retryable) == ("python", True)
    assert "Failed to fetch: http://127.0.0.1:1/simple/another-probe/" in failure.message
    assert "canary" not in failure.message


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("wrong", ["-r /etc/passwd", "--index-url=http://x", "./local", "/tmp/x.whl", "", "a\n-r b"])
def test_options_and_paths_are_not_requirements(wrong: str) -> None:
    failure = error_of(ran(needs(wrong))[0])
    assert failure.kind == "input"
    assert "is not a package; write `pandas` or `pandas==2.2.3`" in failure.message


def test_without_uv_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="uv is not installed on this worker: pip install uv"):
        find_uv(str(tmp_path / "python"), str(tmp_path))


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    failure = error_of(ran(needs("noetl-probe"))[0])
    assert f'"{tmp_path}/file/noetl/python", cannot be written' in failure.message
    assert failure.message.endswith("set XDG_CACHE_HOME to another one")


def test_environments_that_were_not_used_for_a_month_are_removed(tmp_path: Path) -> None:
    for name, days in (("new", 0), ("used", 29), ("unused", 31), (".new-x", 31)):
        (tmp_path / name / "bin").mkdir(parents=True)
        os.utime(tmp_path / name, (10**9 - days * 86_400,) * 2)
    _remove_unused(tmp_path / "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new", "used"]
