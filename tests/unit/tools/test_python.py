"""`python` runs code in child processes; no code can harm the worker or its pool."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.output import DATA_LEVELS_MAX, JSON, Failure, Output
from noetl.tools.python import child as python_child
from noetl.tools.python.child import PROGRAMS_MAX
from noetl.tools.python.pool import CALLS_PER_CHILD_MAX, IDLE_MAX, PRINTED_BYTES_MAX
from noetl.tools.python.tool import PythonInput, PythonTool
from tests.unit.tools.calls import call

ROOT = Path(__file__).parents[3]
NO_EXCEPTION = {"exception_type": None, "exception": None, "traceback": None}
QUIET = {"py": {**NO_EXCEPTION, "stdout": "", "stderr": ""}}


def with_tool(use: Callable[[PythonTool], Awaitable[Any]], children: int = 1) -> Any:
    async def go() -> Any:
        tool = PythonTool(children)
        try:
            return await use(tool)
        finally:
            await tool.close()

    return asyncio.run(go())


def ran(code: str, memory_mb: int = 512, **arguments: JSON) -> Output:
    async def use(tool: PythonTool) -> Output:
        return await tool.run(PythonInput(code=code), call(arguments, spec={"memory_mb": memory_mb}))

    result: Output = with_tool(use)
    return result


def error_of(output: Output) -> Failure:
    assert output.status == "error"
    assert output.error is not None
    return output.error


def alive(pid: int) -> bool:
    """Is the process running? A zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def gone(pid: int) -> None:
    """Wait for the end of a process that is not a child of this one."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, over.set)
    try:
        async with asyncio.timeout(60):
            await over.wait()
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


def test_main_is_called_with_the_input_and_returns_the_data_d83() -> None:
    assert ran("def main(a, b=2):\n    return {'sum': a + b}", a=1) == Output(data={"sum": 3}, own=QUIET)


def test_a_script_has_the_input_as_variables_and_sets_result_d83() -> None:
    assert ran("result = [n * 2 for n in numbers]", numbers=[1, 2]).data == [2, 4]


def test_code_inherits_only_its_streams_and_its_channel() -> None:
    """Programs that it starts inherit only the streams."""
    program = "import os; print(len(os.listdir('/proc/self/fd')))"
    code = f"""
        import os, subprocess, sys
        result = []
        for each in os.listdir("/proc/self/fd"):
            try:
                result.append(os.readlink(f"/proc/self/fd/{{each}}").partition(":")[0])
            except FileNotFoundError:  # it was the folder that was being listed
                pass
        command = [sys.executable, "-c", {program!r}]
        result.append(int(subprocess.check_output(command, close_fds=False)))
    """
    *links, count = ran(textwrap.dedent(code)).data
    assert sorted(links) == ["/dev/null", "pipe", "pipe", "socket"]
    assert count == 4, "the fourth is the folder that is being listed"


def test_a_script_without_a_result_returns_null() -> None:
    assert ran("x = 1") == Output(own=QUIET)


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("def mian(a):\n    return a", "`mian`"),
        ("'Adds.'\nimport json\nLIMIT: int = 3\n\ndef load(): ...\nasync def run(): ...", "`load`, `run`"),
        ("def work(a):\n    return a\n\nif __name__ == '__main__':\n    work(1)", "`work`"),
        ("class Row:\n    x = 1\n\ndef rows():\n    return [Row()]", "`rows`"),
    ],
)
def test_code_that_only_defines_functions_is_an_error(code: str, named: str) -> None:
    assert error_of(ran(code, a=1)).message == (
        f"the code defines {named} but calls no function;"
        " rename the function to `main`, which is called with `input`, or set `result`"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import json",
        "from os.path import join",
        "x = 1",
        "def show(a):\n    print(a)\n\nshow(a)",
        "def show(a):\n    print(a)\n\nshown = [show(each) for each in (1, 2)]",
        "def show(a):\n    print(a)\n\nfor each in (1, 2):\n    show(each)",
        "from functools import cache\n\n@cache\ndef f(): ...",
        "def f(): ...\n\nresult = None",
        "def f(): ...\n\nassert f() is None",
    ],
)
def test_a_script_with_an_effect_needs_no_result(code: str) -> None:
    output = ran(code, a=1)
    assert (output.status, output.data) == ("ok", None)


@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("def main(a): return a", 1),
        ("def main(*, b): return b", 2),
        ("def main(): return 0", 0),
        ("def main(**all): return all", {"a": 1, "b": 2}),
        ("main = lambda b: b", 2),
        ("async def main(a):\n    import asyncio\n    await asyncio.sleep(0)\n    return a", 1),
        ("class Main:\n    def __call__(self, a, b): return a + b\nmain = Main()", 3),
    ],
)
def test_main_gets_the_arguments_it_has_parameters_for(code: str, data: JSON) -> None:
    assert ran(code, a=1, b=2).data == data


def test_an_exception_has_a_traceback_of_the_playbooks_lines() -> None:
    code = "import json\ndef main(text):\n    return read(text)\n\ndef read(text):\n    return json.loads(text)\n"
    error = error_of(ran(code, text="{"))
    assert error == Failure(
        kind="python",
        message="JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        details={
            "traceback": (
                "line 3 of the code, in main\n    return read(text)\n"
                "line 6 of the code, in read\n    return json.loads(text)"
            ),
            "line": 6,
        },
    )


def test_a_traceback_of_a_script_names_its_lines(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx / 0\n")

    async def use(tool: PythonTool) -> Output:
        return await tool.run(PythonInput(script="a.py"), call(folder=str(tmp_path)))

    assert error_of(with_tool(use)).details == {"traceback": "line 2 of the script\n    x / 0", "line": 2}


def test_a_syntax_error_has_its_line() -> None:
    error = error_of(ran("def main():\n    return 1 +\n"))
    assert error.message == "SyntaxError: invalid syntax"
    assert error.details == {"traceback": "line 2 of the code\n    return 1 +", "line": 2}


def test_a_missing_argument_is_named() -> None:
    error = error_of(ran("def main(a): return a"))
    assert error.message == "TypeError: main() missing 1 required positional argument: 'a'"


def test_long_messages_and_tracebacks_are_cut() -> None:
    assert error_of(ran("raise ValueError('x' * 10**6)")).message.endswith("… (995,916 more characters)")
    traceback = error_of(ran("def main(): return main()")).details["traceback"]
    assert (traceback.startswith("… "), traceback.count("\n")) == (True, 40)


@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("result = (1, 2)", [1, 2]),
        ("import datetime; result = datetime.date(2026, 1, 2)", "2026-01-02"),
        ("result = {1: 'a'}", {"1": "a"}),
        ("result = {3}", [3]),
        ("import uuid; result = uuid.UUID(int=1)", "00000000-0000-0000-0000-000000000001"),
        ("result = 2**100", 2**100),
        ("result = 'ä\\u0000'", "ä\0"),
    ],
)
def test_dates_sets_and_arrays_are_converted_to_json(code: str, data: JSON) -> None:
    assert ran(code).data == data


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "result = {'a': [1, object()]}",
            "a object at data['a'][1], which is not JSON; convert it to a string, number or dict",
        ),
        (
            "result = {'a': float('nan')}",
            "nan at data['a']: JSON has no such number; return None or a string",
        ),
        ("result = {(1, 2): 3}", "a tuple as a key of data: keys must be strings"),
        ("result = '\\ud800'", "a lone surrogate, which is not valid text"),
        (
            "result = 0\nfor _ in range(65): result = [result]",
            "lists and mappings nested deeper than 64 levels",
        ),
        ("result = []\nresult.append(result)", "lists and mappings nested deeper than 64 levels"),
        ("result = b'x'", "a bytes at data, which is not JSON; convert it to a string, number or dict"),
    ],
)
def test_a_result_that_is_not_json_is_refused_with_its_position(code: str, message: str) -> None:
    assert error_of(ran(code)).message == f"the result of the code contains {message}"


def test_the_child_has_the_same_depth_limit_as_an_output() -> None:
    assert python_child.DEPTH_MAX == DATA_LEVELS_MAX


def test_sixty_four_levels_are_accepted() -> None:
    assert ran("result = 0\nfor _ in range(64): result = [result]").status == "ok"


def test_a_result_that_is_too_large_is_refused() -> None:
    error = error_of(ran("result = 'x' * (64 * 1024 * 1024)"))
    assert error.kind == "payload-too-large"
    assert "limit RESULT_BYTES_MAX: 67,108,864" in error.message


def test_output_of_all_writers_is_captured() -> None:
    code = (
        "import os, subprocess, sys\nprint('a')\nos.write(1, b'b\\n')\n"
        "subprocess.run(['echo', 'c'])\nprint('d', file=sys.stderr)\nresult = 1"
    )
    assert ran(code) == Output(data=1, own={"py": {**NO_EXCEPTION, "stdout": "a\nb\nc\n", "stderr": "d\n"}})


def test_output_before_a_failure_is_kept() -> None:
    py = ran("print('so far')\n1 / 0").own["py"]
    assert (py["stdout"], py["stderr"]) == ("so far\n", "")


def test_an_exception_is_described_by_its_type_message_and_lines_d95() -> None:
    code = "class Odd(ValueError): pass\n\ndef main(a):\n    raise Odd(f'{a} is odd')"
    assert ran(code, a=3).own["py"] == {
        "exception_type": "Odd",
        "exception": "3 is odd",
        "traceback": "line 4 of the code, in main\n    raise Odd(f'{a} is odd')",
        "stdout": "",
        "stderr": "",
    }


def test_a_failure_without_an_exception_has_none_d95() -> None:
    assert ran("def other(): pass").own == QUIET
    assert ran("import os; os._exit(3)").own == QUIET


def test_a_flood_of_output_is_cut_and_counted() -> None:
    output = ran("import os\nfor _ in range(1024): os.write(1, b'x' * 65536)\nresult = 1")
    assert output.data == 1
    assert output.own["py"]["stdout"] == "x" * PRINTED_BYTES_MAX + f"\n… {1023 * 65536:,} more bytes"


def test_code_has_no_standard_input_and_no_secret_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TEST_TOKEN", "canary")
    code = "import os, sys\nresult = [sys.stdin.read(), sorted(os.environ)]"
    text, names = ran(code).data
    assert text == ""
    assert set(names) <= {"PATH", "HOME", "LANG", "TZ", "LC_CTYPE"}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os._exit(3)", "the child process exited with code 3 before it returned a result"),
        ("import ctypes; ctypes.string_at(0)", "the child process was killed by SIGSEGV"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "the child process was killed by SIGKILL",
        ),
        ("import os; os.closerange(0, 100)", "the child process"),
        ("x = bytearray(8 * 1024**3)", "MemoryError (the limit is spec.memory_mb)"),
        ("import sys; sys.exit(2)", "SystemExit: 2"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import sys; sys.stdout.close(); sys.stderr.close(); 1 / 0", "ZeroDivisionError: division by zero"),
        (
            "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
            "E: (the message cannot be read)",
        ),
    ],
)
def test_code_that_kills_its_process_fails_only_its_own_call(code: str, message: str) -> None:
    async def use(tool: PythonTool) -> tuple[Output, Output]:
        bad = await tool.run(PythonInput(code=code), call())
        return bad, await tool.run(PythonInput(code="print(1); result = 2"), call())

    bad, good = with_tool(use)
    assert error_of(bad).kind == "python"
    assert error_of(bad).message.startswith(message)
    assert good == Output(data=2, own={"py": {**NO_EXCEPTION, "stdout": "1\n", "stderr": ""}})


def test_small_code_runs_with_the_minimum_memory() -> None:
    assert ran("result = 1", memory_mb=16).data == 1
    assert error_of(ran("result = len(bytearray(20 * 1024**2))", memory_mb=16)).message.startswith("MemoryError")


def test_a_cancelled_call_ends_its_child_with_all_its_processes(tmp_path: Path) -> None:
    pipe = tmp_path / "pids"
    os.mkfifo(pipe)
    code = (
        "import os, subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
        "with open(pipe, 'w') as file: file.write(f'{os.getpid()} {child.pid}')\nwhile True: pass"
    )

    async def use(tool: PythonTool) -> tuple[list[bool], Output]:
        running = asyncio.ensure_future(tool.run(PythonInput(code=code), call({"pipe": str(pipe)})))
        pids = [int(pid) for pid in (await asyncio.to_thread(pipe.read_text)).split()]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        for pid in pids:
            await gone(pid)
        return [alive(pid) for pid in pids], await tool.run(PythonInput(code="result = 1"), call())

    left, after = with_tool(use)
    assert left == [False, False]
    assert after.data == 1


def test_children_of_a_killed_worker_end_even_in_an_endless_loop(tmp_path: Path) -> None:
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    program = (
        "import asyncio, sys\n"
        "from noetl.tools.python.tool import PythonInput, PythonTool\n"
        "from tests.unit.tools.calls import call\n"
        "code = 'import os\\nwith open(pipe, \"w\") as f: f.write(str(os.getpid()))\\nwhile True: pass'\n"
        "asyncio.run(PythonTool(1).run(PythonInput(code=code), call({'pipe': sys.argv[1]})))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(pipe)], cwd=ROOT) as worker:
        child = int(pipe.read_text())
        was_alive = alive(child)
        worker.kill()
    asyncio.run(gone(child))
    assert (was_alive, alive(child)) == (True, False)


def test_a_fork_bomb_ends_with_the_call(tmp_path: Path) -> None:
    pipe = tmp_path / "pids"
    os.mkfifo(pipe)
    code = (
        "import os, signal\n"
        "out = os.open(pipe, os.O_WRONLY)\n"
        "for _ in range(4): os.fork()\n"
        "os.write(out, b'%d\\n' % os.getpid())\n"
        "os.close(out)\n"
        "while True: signal.pause()\n"
    )

    async def use(tool: PythonTool) -> list[bool]:
        running = asyncio.ensure_future(tool.run(PythonInput(code=code), call({"pipe": str(pipe)})))
        pids = [int(pid) for pid in (await asyncio.to_thread(pipe.read_text)).split()]
        running.cancel()
        await asyncio.wait([running])
        for pid in pids:
            await gone(pid)
        return [alive(pid) for pid in pids]

    assert with_tool(use) == [False] * 16


def test_a_child_with_changed_state_makes_no_further_call() -> None:
    async def use(tool: PythonTool) -> list[bool]:
        async def pid(code: str) -> JSON:
            output = await tool.run(PythonInput(code=f"import os\n{code}\nresult = os.getpid()"), call())
            assert output.status == "ok", output
            return output.data

        same = []
        for trace in (
            "x = 1",
            "os.chdir('/')",
            "os.environ['SECRET'] = 'x'",
            "import sys; sys.path.append('x')",
            "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
            "import subprocess; subprocess.Popen(['sleep', '600'])",
            "import sys, io; sys.stdout = io.StringIO()",
            "os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
        ):
            before = await pid("")
            await pid(trace)
            same.append(await pid("") == before)
        return same

    assert with_tool(use) == [True, True, False, False, False, False, False, False]


def test_variables_of_a_call_do_not_exist_in_the_next() -> None:
    async def use(tool: PythonTool) -> JSON:
        await tool.run(PythonInput(code="secret = 1"), call({"token": "x"}))
        output = await tool.run(PythonInput(code="result = ['secret' in globals(), 'token' in globals()]"), call())
        return output.data

    assert with_tool(use) == [False, False]


def test_a_forked_copy_sends_no_response() -> None:
    code = "import os, warnings\nwarnings.simplefilter('ignore')\nos.fork()\nresult = 1"

    async def use(tool: PythonTool) -> list[JSON]:
        return [(await tool.run(PythonInput(code=code), call())).data for _ in range(3)]

    assert with_tool(use) == [1, 1, 1]


def test_a_child_is_replaced_after_many_calls() -> None:
    async def use(tool: PythonTool) -> set[JSON]:
        input = PythonInput(code="import os\nresult = os.getpid()")
        return {(await tool.run(input, call())).data for _ in range(CALLS_PER_CHILD_MAX + 1)}

    assert len(with_tool(use)) == 2


def test_many_programs_exceed_the_cache_and_still_run() -> None:
    async def use(tool: PythonTool) -> list[JSON]:
        codes = [f"result = {number}" for number in range(PROGRAMS_MAX + 10)] * 2
        return [(await tool.run(PythonInput(code=code), call())).data for code in codes]

    assert with_tool(use) == list(range(PROGRAMS_MAX + 10)) * 2


def test_two_children_run_in_parallel(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def use(tool: PythonTool) -> list[JSON]:
        reads = tool.run(PythonInput(code="result = open(pipe).read()"), call({"pipe": str(pipe)}))
        writes = tool.run(PythonInput(code="open(pipe, 'w').write('hello')"), call({"pipe": str(pipe)}))
        return [output.data for output in await asyncio.gather(reads, writes)]

    assert with_tool(use, children=2) == ["hello", None]


def test_closing_the_tool_ends_its_children() -> None:
    async def use(tool: PythonTool) -> JSON:
        return (await tool.run(PythonInput(code="import os\nresult = os.getpid()"), call())).data

    assert not alive(with_tool(use))


def test_a_killed_idle_child_is_replaced() -> None:
    async def use(tool: PythonTool) -> Output:
        first = await tool.run(PythonInput(code="import os\nresult = os.getpid()"), call())
        os.kill(first.data, signal.SIGKILL)
        outputs = [await tool.run(PythonInput(code="result = 1"), call()) for _ in range(2)]
        return outputs[-1]

    assert with_tool(use).data == 1


def test_dataclasses_with_postponed_annotations_work() -> None:
    code = (
        "from __future__ import annotations\nfrom dataclasses import asdict, dataclass\n"
        "@dataclass\nclass Row:\n    id: int\ndef main(): return asdict(Row(1))"
    )
    assert ran(code).data == {"id": 1}


def run_script(script: str, folder: Path | None) -> Output:
    async def use(tool: PythonTool) -> Output:
        return await tool.run(
            PythonInput(script=script), call({"n": 1}, folder=None if folder is None else str(folder))
        )

    result: Output = with_tool(use)
    return result


def test_a_script_is_found_relative_to_the_playbook_or_by_its_absolute_path(tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    file = tmp_path / "steps" / "add.py"
    file.write_text("def main(n): return [n + 1, __file__]\n")
    assert run_script("steps/add.py", tmp_path).data == [2, str(file)]
    assert run_script(str(file), None).data == [2, str(file)]


def test_an_unreadable_script_is_an_error_of_kind_input(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"# \xe4")
    (tmp_path / "long.py").write_bytes(b"#" * (1024 * 1024 + 1))
    folder = tmp_path / "playbooks"
    folder.mkdir()
    (folder / "link.py").symlink_to(tmp_path / "latin.py")
    messages = {
        "gone.py": f'script "{folder}/gone.py" cannot be read: No such file or directory',
        "../latin.py": 'script "../latin.py" leads outside the playbook\'s directory; use an absolute path',
        "link.py": 'script "link.py" leads outside the playbook\'s directory; use an absolute path',
        str(tmp_path / "latin.py"): f'script "{tmp_path}/latin.py" is not encoded in UTF-8',
        str(tmp_path / "long.py"): f'script "{tmp_path}/long.py" is too long (limit SCRIPT_BYTES_MAX: 1,048,576 bytes)',
    }
    for script, message in messages.items():
        assert error_of(run_script(script, folder)) == Failure(kind="input", message=message)
    assert "was not read from a file" in error_of(run_script("gone.py", None)).message


def test_missing_libraries_are_named() -> None:
    async def use(tool: PythonTool) -> list[Output]:
        cases = [["json", "PyYAML>=6", "typing-extensions"], ["no-such-lib==1.0"]]
        return [await tool.run(PythonInput(code="result = 1", libs=libs), call()) for libs in cases]

    there, missing = with_tool(use)
    assert there.data == 1
    assert error_of(missing).message == (
        'library "no-such-lib==1.0" is not installed on this worker; install it with `pip install no-such-lib`, '
        "or list it under `requirements`"
    )


PATCH = "import builtins, json\ndef main(): builtins.left_behind = json.left_behind = 1"
LOOK = "import builtins, json, os\ndef main(): return [hasattr(builtins, 'left_behind'), hasattr(json, 'left_behind'), os.getpid()]"


def test_a_process_is_reused_for_calls_of_the_same_playbook_only() -> None:
    """Code can change its process, and another playbook may have another author."""
    mine, other = object(), object()

    async def use(tool: PythonTool) -> list[JSON]:
        found = []
        for playbook, code in ((mine, PATCH), (mine, LOOK), (other, LOOK), (mine, LOOK), (other, LOOK), (None, LOOK)):
            output = await tool.run(PythonInput(code=code), call({})._replace(playbook=playbook))
            assert output.status == "ok", output
            found.append(output.data)
        return found

    _, second, third, fourth, fifth, sixth = with_tool(use)
    assert [found[:2] for found in (second, third, fourth, fifth, sixth)] == [
        [True, True], [False, False], [True, True], [False, False], [False, False],
    ]  # fmt: skip
    assert second[2] == fourth[2] != third[2] == fifth[2]
    assert sixth[2] not in (second[2], third[2])


def test_the_processes_of_many_playbooks_are_limited() -> None:
    async def use(tool: PythonTool) -> list[int]:
        pids = []
        for _ in range(IDLE_MAX + 4):
            code = PythonInput(code="import os\ndef main(): return os.getpid()")
            pids.append((await tool.run(code, call({})._replace(playbook=object()))).data)
        return [pid for pid in pids if alive(pid)]

    assert 1 <= len(with_tool(use)) <= IDLE_MAX + 1


# Modules in the text of the playbook


LIBS = {
    "helpers.py": "import json, pkg.inner\nCALLS = []\ndef f(n):\n    CALLS.append(n)\n    return pkg.inner.g(n)\n",
    "pkg/__init__.py": "from .inner import g\n",
    "pkg/inner.py": "def g(n):\n    return [len(__import__('helpers').CALLS), 10 // n]\n",
    "plain/deep.py": "X = 7\n",
    "json.py": "raise ImportError('this is not the standard library')\n",
    "msgspec.py": "MINE = True\n",
    "jobs/load.py": "import common\nfrom plain import deep\ndef main(n):\n    return common.Y + deep.X + n\n",
    "jobs/common.py": "Y = 30\n",
}


def with_libs(*inputs: tuple[PythonInput, int]) -> list[Output]:
    async def use(tool: PythonTool) -> list[Output]:
        return [await tool.run(input, call({"n": n}, libs=LIBS)) for input, n in inputs]

    result: list[Output] = with_tool(use)
    return result


def test_code_imports_the_modules_of_its_playbook_d108() -> None:
    code = PythonInput(code="import helpers\ndef main(n):\n    return helpers.f(n)")
    precedence = PythonInput(code="import json, msgspec\nresult = [hasattr(json, 'dumps'), msgspec.MINE]")
    script = PythonInput(script="./jobs/load.py")
    outputs = with_libs((code, 1), (code, 2), (precedence, 0), (script, 5))
    assert [each.data for each in outputs] == [[1, 10], [1, 5], [True, True], 42]  # each call loads them again


def test_an_error_in_a_module_of_the_playbook_shows_its_lines() -> None:
    (output,) = with_libs((PythonInput(code="import helpers\nresult = helpers.f(0)"), 0))
    assert error_of(output).details["traceback"].split("\n") == [
        "line 2 of the code",
        "    result = helpers.f(0)",
        "line 5 of helpers.py, in f",
        "    return pkg.inner.g(n)",
        "line 2 of inner.py, in g",
        "    return [len(__import__('helpers').CALLS), 10 // n]",
    ]


def test_a_module_that_is_missing_is_named_with_the_remedy() -> None:
    (output,) = with_libs((PythonInput(code="import plain.nothing"), 0))
    assert "No module named 'plain.nothing'" in error_of(output).message
    assert "under `libs` of the playbook" in error_of(output).message
