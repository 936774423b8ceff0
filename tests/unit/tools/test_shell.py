"""`shell` runs programs: arguments are not interpreted, limits apply, and no process is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from noetl.adapters.memory import MemoryResults
from noetl.output import JSON, Failure, Output
from noetl.tools.shell.process import AT_ONCE_BYTES, INLINE_BYTES_MAX
from noetl.tools.shell.tool import ShellInput, ShellTool
from tests.e2e.processes import Workspace
from tests.playbooks import HEAD
from tests.unit.tools.calls import call

DESCRIPTORS = Path("/proc/self/fd")


def ran(
    input: ShellInput,
    spec: dict[str, JSON] | None = None,
    results: MemoryResults | None = None,
    folder: Path | None = None,
) -> Output:
    async def go() -> Output:
        tool = ShellTool(processes=1)
        try:
            where = None if folder is None else str(folder)
            return await tool.run(input, call(spec=spec, results=results, folder=where))
        finally:
            await tool.close()

    before = len(os.listdir(DESCRIPTORS))
    output = asyncio.run(go())
    assert len(os.listdir(DESCRIPTORS)) <= before
    return output


def error_of(output: Output) -> Failure:
    assert output.status == "error"
    assert output.error is not None
    return output.error


def own(stdout: JSON = "", stderr: JSON = "", exit_code: int | None = 0, signal: str | None = None) -> dict[str, JSON]:
    return {"shell": {"exit_code": exit_code, "signal": signal, "stdout": stdout, "stderr": stderr}}


def test_a_program_gets_its_arguments_unchanged_d83() -> None:
    output = ran(ShellInput(argv=["printf", "%s|", "$HOME; rm *", "a b", ""]))
    assert output == Output(data="$HOME; rm *|a b||", own=own("$HOME; rm *|a b||"))


def test_sh_is_interpreted_by_the_shell_d83() -> None:
    output = ran(ShellInput(sh="echo $((1 + 2)); echo oh >&2"))
    assert output == Output(data="3", own=own("3\n", "oh\n"))


def test_standard_input_is_text_or_empty() -> None:
    assert ran(ShellInput(argv=["cat"], stdin="grüezi\n")).data == "grüezi"
    assert ran(ShellInput(argv=["cat"])).data == ""


def test_only_three_environment_variables_are_inherited() -> None:
    os.environ["NOETL_TEST_SECRET"] = "hidden"
    try:
        output = ran(ShellInput(argv=["env"], env={"GIVEN": "a b", "N": 1.5, "YES": True, "NOT": None}))
    finally:
        del os.environ["NOETL_TEST_SECRET"]
    seen = dict(line.split("=", 1) for line in output.data.splitlines())
    assert {name: seen[name] for name in ("GIVEN", "N", "YES")} == {"GIVEN": "a b", "N": "1.5", "YES": "true"}
    assert set(seen) <= {"GIVEN", "N", "YES", "PATH", "HOME", "LANG"}


def test_a_program_inherits_only_its_three_streams() -> None:
    output = ran(ShellInput(argv=[sys.executable, "-c", "import os; print(*sorted(os.listdir('/proc/self/fd')))"]))
    assert len(output.data.split()) == 4, output.data  # the fourth is the folder that is being listed


def test_cwd_is_relative_to_the_playbook(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    assert ran(ShellInput(argv=["pwd"]), folder=tmp_path).data == str(tmp_path)
    assert ran(ShellInput(argv=["pwd"], cwd="inner"), folder=tmp_path).data == str(tmp_path / "inner")
    assert ran(ShellInput(argv=["pwd"], cwd=str(tmp_path))).data == str(tmp_path)


def test_a_program_can_be_a_file_beside_the_playbook(tmp_path: Path) -> None:
    script = tmp_path / "say"
    script.write_text("#!/bin/sh\necho said $1\n")
    script.chmod(0o755)
    assert ran(ShellInput(argv=["./say", "it"]), folder=tmp_path).data == "said it"


def test_json_is_parsed_if_parse_is_json() -> None:
    assert ran(ShellInput(sh="echo '{\"a\": [1]}'", parse="json")).data == {"a": [1]}
    assert ran(ShellInput(sh="echo '{\"a\": [1]}'")).data == '{"a": [1]}'
    error = error_of(ran(ShellInput(sh="echo oops", parse="json")))
    assert error.kind == "shell"
    assert error.message.startswith("standard output is not valid JSON")


def test_output_that_is_not_text_becomes_base64() -> None:
    assert ran(ShellInput(sh="printf '\\377'")).data == {"base64": "/w=="}


def test_an_exit_code_other_than_0_is_an_error_with_the_last_line() -> None:
    output = ran(ShellInput(sh="echo some; echo first >&2; echo 'no such thing' >&2; exit 3"))
    failure = Failure(kind="shell", message="exit code 3: no such thing", details={"exit_code": 3, "signal": None})
    assert output == Output(status="error", error=failure, own=own("some\n", "first\nno such thing\n", 3))


def test_a_program_killed_by_a_signal_names_it() -> None:
    output = ran(ShellInput(sh="kill -TERM $$"))
    assert error_of(output).message == "killed by SIGTERM"
    assert output.own == own(exit_code=None, signal="SIGTERM")


@pytest.mark.parametrize(
    ("input", "message"),
    [
        (ShellInput(argv=["no-such-program"]), 'program "no-such-program" is not installed on this worker'),
        (ShellInput(argv=[]), "`argv` or `sh` is required"),
        (ShellInput(argv=["echo", "a\0b"]), "`argv` contains a NUL character, which is not allowed"),
        (ShellInput(sh="true", env={"A=B": 1}), '"A=B" is not a valid name of an environment variable'),
        (ShellInput(sh="true", env={"A": [1]}), "environment variable A must be text or a number; convert other values with `| tojson`"),
        (ShellInput(sh="true", cwd="inner"), '`cwd` "inner" is relative, but this playbook was not read from a file; use an absolute path'),
        (ShellInput(sh="true", cwd="/no/such/folder"), '`cwd` "/no/such/folder" is not a directory on this worker'),
        (ShellInput(argv=["echo", "x" * 3_000_000]), "the arguments and environment variables are too long; pass data with `stdin`"),
    ],
)  # fmt: skip
def test_invalid_fields_are_an_error_of_kind_input(input: ShellInput, message: str) -> None:
    assert error_of(ran(input)) == Failure(kind="input", message=message)


def test_a_file_that_cannot_be_executed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "text").chmod(0o755)
    message = error_of(ran(ShellInput(argv=["./text"]), folder=tmp_path)).message
    assert message.endswith('text" cannot be executed: Exec format error')


def test_lone_surrogates_are_replaced() -> None:
    assert ran(ShellInput(argv=["printf", "%s", "\ud800"], env={"A": "\udc00"})).data == "?"


def test_long_output_is_stored_completely() -> None:
    results = MemoryResults()
    length = INLINE_BYTES_MAX + 10_000
    output = ran(ShellInput(sh=f"head -c {length} /dev/zero | tr '\\0' x; echo well >&2"), results=results)
    assert output.status == "ok"
    assert output.data is None
    assert output.ref is not None
    assert output.own["shell"]["stdout_ref"] == output.ref
    assert output.own["shell"]["stdout"] == "x" * INLINE_BYTES_MAX
    assert output.own["shell"]["stderr"] == "well\n"
    assert "stderr_ref" not in output.own["shell"]
    assert output.ref["meta"]["content_type"] == "text/plain; charset=utf-8"
    assert asyncio.run(results.get(output.ref)) == b"x" * length


def test_output_that_is_read_in_large_chunks_keeps_its_order_and_its_last_line() -> None:
    results = MemoryResults()
    last = AT_ONCE_BYTES // 2  # lines: several times as many bytes
    output = ran(ShellInput(sh=f"seq {last}; seq {last} >&2; exit 3"), results=results)
    expected = "".join(f"{number}\n" for number in range(1, last + 1)).encode()
    for stream in ("stdout_ref", "stderr_ref"):
        assert asyncio.run(results.get(output.own["shell"][stream])) == expected
    assert error_of(output).message.endswith(str(last))


def test_long_json_is_parsed_and_long_errors_are_kept() -> None:
    results = MemoryResults()
    code = "import sys, json; print(json.dumps(['x' * 100] * 1000)); print('e' * 100_000 + '\\nlast', file=sys.stderr)"
    output = ran(ShellInput(argv=[sys.executable, "-c", code], parse="json"), results=results)
    assert output.data == ["x" * 100] * 1000
    assert asyncio.run(results.get(output.own["shell"]["stderr_ref"])).endswith(b"e\nlast\n")


def test_a_program_that_writes_too_much_is_killed() -> None:
    error = error_of(ran(ShellInput(argv=["yes"]), spec={"output_mb": 1}))
    message = "the program wrote more to standard output than spec.output_mb allows"
    assert error == Failure(kind="payload-too-large", message=message)


def test_memory_has_a_limit() -> None:
    hungry = ShellInput(argv=[sys.executable, "-I", "-c", "x = bytearray(400_000_000); print(len(x))"])
    assert ran(hungry).data == "400000000"
    assert error_of(ran(hungry, spec={"memory_mb": 300})).message == "exit code 1: MemoryError"


def test_a_memory_limit_leaves_arguments_unchanged() -> None:
    limited = ran(ShellInput(argv=["printf", "%s|", "-x", "$1", "a b"]), spec={"memory_mb": 500})
    assert limited.data == "-x|$1|a b|"


def test_an_invalid_option_is_an_error_of_kind_input() -> None:
    error = error_of(ran(ShellInput(sh="true"), spec={"memory_mb": -1}))
    assert error == Failure(kind="input", message="spec: Expected `int` >= 1 - at `$.memory_mb`")


async def started(pipe: int) -> int:
    """The process id that a program writes when it has started."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pipe, begun.set)
    try:
        async with asyncio.timeout(60):
            await begun.wait()
    finally:
        loop.remove_reader(pipe)
    return int(os.read(pipe, 100))


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


def test_a_cancelled_call_ends_the_program_and_all_its_processes(tmp_path: Path) -> None:
    async def go() -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        pipe = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        tool = ShellTool(processes=1)
        line = f"trap '' TERM INT HUP; sleep 1000 & echo $! > {fifo}; sleep 1000"
        running = asyncio.create_task(tool.run(ShellInput(sh=line), call()))
        inner = await started(pipe)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await gone(inner)
        os.close(pipe)
        assert (await tool.run(ShellInput(sh="echo next"), call())).data == "next"
        await tool.close()

    before = len(os.listdir(DESCRIPTORS))
    asyncio.run(go())
    assert len(os.listdir(DESCRIPTORS)) <= before


def test_processes_left_running_are_killed() -> None:
    output = ran(ShellInput(sh="sleep 1000 & echo $!"))
    assert output.status == "ok"
    asyncio.run(gone(int(output.data)))


def test_the_number_of_parallel_programs_is_limited_d87(tmp_path: Path) -> None:
    async def go() -> list[Output]:
        tool = ShellTool(processes=1)
        line = f"mkdir {tmp_path}/alone && rmdir {tmp_path}/alone"
        outputs = await asyncio.gather(*(tool.run(ShellInput(sh=line), call()) for _ in range(8)))
        await tool.close()
        return list(outputs)

    assert {output.status for output in asyncio.run(go())} == {"ok"}


def test_signal_handling_is_reset_for_the_program() -> None:
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN
    assert ran(ShellInput(sh="yes | head -n 1")).own == own("y\n")


def test_a_playbook_reads_long_output_of_a_program_by_ref(tmp_path: Path) -> None:
    text = """\
workflow:
- step: start
  tool:
  - {name: print, kind: shell, argv: [seq, "20000"]}
  - {name: count, kind: shell, argv: [wc, -l], stdin: "{{ print.shell.stdout }}", spec: {memory_mb: 500}}
  - {name: all, kind: resolve, ref: "{{ print.ref }}"}
  - {name: say, kind: noop, input: {whole: "{{ all.data | length }}", some: "{{ count.data }}"}}
"""
    workspace = Workspace(tmp_path)
    code, document = workspace.json("run", workspace.write(HEAD + text))
    assert (code, document["error"]) == (0, None)
    assert document["output"]["data"]["whole"] == sum(len(f"{n}\n") for n in range(1, 20_001))
    assert 10_000 < int(document["output"]["data"]["some"]) < 20_000
