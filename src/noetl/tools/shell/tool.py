"""`shell`: runs a program with arguments, or a shell script.

process.py starts and ends the process. This module has the fields and the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from noetl.errors import NoetlError
from noetl.output import JSON, Failure, Output, failed
from noetl.playbook.kinds import Sandbox, Shell
from noetl.tool import Call, CodeFiles, Tool, ToolUser
from noetl.tools.errors import TooLarge, ToolError, store_failure
from noetl.tools.sandbox import restrictions

if TYPE_CHECKING:
    from asyncio import Semaphore

    from noetl.tools.process_guard.guard import ExitStatus, GuardPool
    from noetl.tools.shell.process import CapturedStream

MEMORY_MB_MAX = 1024 * 1024  # above the memory of any machine, and still a valid number of bytes for the system
LAST_LINE_CHARS_MAX = 500


class ShellInput(Struct, kw_only=True):
    """A program with arguments, or a shell script."""

    argv: Annotated[
        list[str] | None,
        Meta(description="program and arguments; no shell interprets them", examples=['[wc, -l, "{{ ctx.file }}"]']),
    ] = None
    sh: Annotated[
        str | Shell | None,
        Meta(
            description="script for /bin/sh; the value of a `{{ }}` is quoted for its position, and a list outside of "
            "quotes becomes several words"
        ),
    ] = None
    env: Annotated[
        dict[str, JSON] | None,
        Meta(description="environment variables; from the worker only PATH, HOME and LANG are inherited"),
    ] = None
    cwd: Annotated[
        str | None,
        Meta(description="working directory, relative to the playbook; default: the directory of the playbook"),
    ] = None
    stdin: Annotated[str | None, Meta(description="text for standard input; default: empty")] = None
    parse: Annotated[Literal["text", "json"], Meta(description="how `output.data` is made from standard output")] = (
        "text"
    )


class ShellSpec(Struct, kw_only=True):
    """Limits of the program."""

    memory_mb: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="address space of each process in MiB; default: no limit")
    ] = None
    output_mb: Annotated[
        int, Meta(ge=0, description="maximum size of standard output and of standard error, in MiB each")
    ] = 256
    sandbox: Annotated[
        Sandbox | None,
        Meta(
            description="restrict files and network of the program; the task fails if the worker cannot do it",
            examples=["{network: false, writable: [out]}"],
        ),
    ] = None


class ShellPart(Struct, kw_only=True):
    """How the program ended, and what it wrote."""

    exit_code: Annotated[
        int | None, Meta(description="exit code; null if a signal ended the program or it was not started")
    ] = None
    signal: Annotated[str | None, Meta(description="name of the signal that ended the program")] = None
    stdout: Annotated[JSON, Meta(description="first 64 KiB of standard output; `{base64: …}` if it is not text")] = ""
    stderr: Annotated[JSON, Meta(description="the same for standard error")] = ""
    stdout_ref: Annotated[
        dict[str, JSON] | UnsetType,
        Meta(description="Ref of the complete standard output; undefined unless it is larger than 64 KiB"),
    ] = UNSET
    stderr_ref: Annotated[dict[str, JSON] | UnsetType, Meta(description="the same for standard error")] = UNSET


class ShellTool(Tool):
    """Runs a program. An exit code other than 0 is an error.

    `output.data` is standard output without newlines at the end. Processes that still run when the program
    ends are killed.

    In `sh`, the value of a `{{ }}` is data: the shell does not interpret it. Outside of quotes it is one word,
    inside of `"…"` and `'…'` it is a part of the quoted text, so quotes around a `{{ }}` are allowed and not
    needed. A list outside of quotes is one word for each item: `for file in {{ ctx.files }}`. Inside of `$(( ))`
    the value must be a whole number. Spaces, `*` and `~` in a value have no special meaning. To insert a value
    as a part of the script, write `{{ value | raw_shell }}`; then the shell runs any command in it. A script
    that another shell interprets, as in `ssh host "ls {{ dir }}"`, is not protected: pass the value in
    `stdin`. The values are in environment variables, `noetl_value_1` and so on.

    With `spec.sandbox` the program can make no sockets, unless `network` is true, and can write only to the paths in
    `writable` and to `TMPDIR`, a folder that is removed after the call. It can read all files that the worker can read.
    """

    kind = "shell"
    failures = ("shell", "limit", "sandbox")
    ignores = ("auth", "timeout.connect", "timeout.read")
    runs_programs = True
    Input = ShellInput
    Spec = ShellSpec
    one_of = (("argv", "sh"),)
    defaults = {"timeout": 300}
    output = "shell"
    OutputPart = ShellPart
    example = """\
kind: shell
argv: [sort, -n]
stdin: "10\\n9\\n"
"""

    def __init__(self, processes: int | None = None, user: ToolUser | None = None, nice: int = 0) -> None:
        self._processes = processes  # None: one for each CPU core (D87)
        self._user, self._nice = user, nice
        self._free: Semaphore | None = None
        self._guards: GuardPool | None = None

    @classmethod
    def code_files(cls, fields: Mapping[str, JSON], folder: str | None) -> CodeFiles:
        """The programs and scripts beside the playbook that the command names. It may read other files."""
        from noetl.tools.shell.words import scripts_named

        return CodeFiles(() if folder is None else tuple(scripts_named(fields, folder)), complete=False)

    async def run(self, input: ShellInput, call: Call) -> Output:
        from noetl.tools.process_guard.lines import LineForwarder, forwarding
        from noetl.tools.shell.process import CapturedStream, build_command, run_command

        try:
            spec = msgspec.convert(call.spec, ShellSpec)
            memory_mb = min(spec.memory_mb, MEMORY_MB_MAX) if spec.memory_mb else None
            command = build_command(input, call.folder, memory_mb, restrictions(spec.sandbox, call.folder))
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except ToolError as error:
            return error.output()
        most = spec.output_mb * 1024 * 1024
        with (
            LineForwarder(call.say) as lines,
            CapturedStream(
                "standard output", most, forwarding(lines, call.write, "out") if input.parse != "json" else None
            ) as stdout,
            CapturedStream("standard error", most, forwarding(lines, call.write, "err")) as stderr,
        ):
            try:
                async with self._semaphore():
                    status = await run_command(command, stdout, stderr, self._guard_pool())
                return await _output(status, stdout, stderr, input.parse, call)
            except ToolError as error:
                return error.output()
            except OSError as error:
                return failed("shell", f"cannot start a process: {error.strerror}", retryable=True)
            except NoetlError as error:
                return store_failure(error)

    def _semaphore(self) -> Semaphore:
        if self._free is None:
            import os
            from asyncio import Semaphore

            self._free = Semaphore(self._processes or os.cpu_count() or 1)
        return self._free

    def _guard_pool(self) -> GuardPool:
        if self._guards is None:
            from noetl.tools.process_guard.guard import GuardPool

            self._guards = GuardPool(self._user, self._nice)
        return self._guards

    async def close(self) -> None:
        if self._guards is not None:
            await self._guards.close()
            self._guards = None


async def _output(
    status: ExitStatus | None, stdout: CapturedStream, stderr: CapturedStream, parse: str, call: Call
) -> Output:
    own: dict[str, JSON] = {
        "exit_code": status.exit_code if status is not None else None,
        "signal": status.signal if status is not None else None,
        "stdout": stdout.head(),
        "stderr": stderr.head(),
    }
    refs: dict[str, dict[str, JSON]] = {}
    for name, captured, content_type in (
        ("stdout_ref", stdout, "application/json" if parse == "json" else "text/plain; charset=utf-8"),
        ("stderr_ref", stderr, "text/plain; charset=utf-8"),
    ):
        if captured.overflowed:
            refs[name] = await call.results.write(call.execution_id, captured.chunks(), content_type)
    parts: dict[str, JSON] = {"shell": {**own, **refs}}
    failure = _failure(status, stdout, stderr)
    if failure is not None:
        return Output(status="error", error=failure, own=parts)
    if stdout.overflowed and parse == "text":
        return Output(ref=refs["stdout_ref"], own=parts)
    return _parse_json(stdout, parts) if parse == "json" else Output(data=stdout.text(), own=parts)


def _failure(status: ExitStatus | None, stdout: CapturedStream, stderr: CapturedStream) -> Failure | None:
    if status is None:
        from noetl.tools.process_guard.guard import TOO_MANY_PROCESSES

        return Failure(kind="limit", message=TOO_MANY_PROCESSES)
    full = next((each for each in (stdout, stderr) if each.full), None)
    if full is not None:
        return TooLarge(f"the program wrote more to {full.name} than spec.output_mb allows").failure()
    if status.exit_code == 0:
        return None
    how = f"exit code {status.exit_code}" if status.signal is None else f"killed by {status.signal}"
    last = stderr.last_line()[:LAST_LINE_CHARS_MAX]
    details = {"exit_code": status.exit_code, "signal": status.signal}
    return Failure(kind="shell", message=f"{how}: {last}" if last else how, details=details)


def _parse_json(stdout: CapturedStream, own: dict[str, JSON]) -> Output:
    from noetl.tools.payload import InvalidJson, decode_json
    from noetl.tools.shell.process import PARSED_BYTES_MAX

    if stdout.size > PARSED_BYTES_MAX:
        limit = f"(limit PARSED_BYTES_MAX: {PARSED_BYTES_MAX:,})"
        failure = TooLarge(f"standard output has {stdout.size:,} bytes {limit}").failure()
        return Output(status="error", error=failure, own=own)
    try:
        return Output(data=decode_json(stdout.body()), own=own)
    except InvalidJson as error:
        failure = Failure(kind="shell", message=f"standard output {error}")
        return Output(status="error", error=failure, own=own)
