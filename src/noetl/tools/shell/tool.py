"""`shell`: a program with its arguments, or a line for the shell.

How a process is started, watched and ended stands in shell_process; here is what goes in and what comes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from noetl.errors import NoetlError, Unavailable
from noetl.output import JSON, Failure, Output, failed
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    from asyncio import Semaphore

    from noetl.tools.process_guard.guard import Ended, Guards
    from noetl.tools.shell.process import Captured

MEMORY_MB_MAX = 1024 * 1024  # more than a machine has, less than a number of bytes may be
LAST_LINE_CHARS_MAX = 500
NOT_RUN: dict[str, JSON] = {"exit_code": None, "signal": None, "stdout": "", "stderr": ""}


class ShellInput(Struct, kw_only=True):
    """A program, or a line for the shell."""

    argv: Annotated[
        list[str] | None,
        Meta(
            description="program and arguments; no shell reads them", examples=['[wc, -l, "{{ ctx.file }}"]']
        ),
    ] = None
    sh: Annotated[
        str | None, Meta(description="text for /bin/sh; hand values over by `env`, where they stay values")
    ] = None
    env: Annotated[
        dict[str, JSON] | None,
        Meta(description="environment variables; of the worker's own only PATH, HOME and LANG are inherited"),
    ] = None
    cwd: Annotated[
        str | None,
        Meta(description="the folder to run in, relative to the playbook's, which it is without one"),
    ] = None
    stdin: Annotated[str | None, Meta(description="text for standard input; it is empty without")] = None
    parse: Annotated[
        Literal["text", "json"], Meta(description="what `output.data` makes of standard output")
    ] = "text"


class ShellSpec(Struct, kw_only=True):
    """Limits of the process."""

    memory_mb: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="address space of each of its processes; no limit without it"),
    ] = None
    output_mb: Annotated[
        int, Meta(ge=0, description="what it may write to standard output and standard error, each")
    ] = 256


class ShellTool(Tool):
    """Runs a program; an exit code other than 0 is an error.
    `output.data` is its standard output, without the line end behind it. `output.shell` has `exit_code` or
    `signal`, and the first 64 KiB of `stdout` and of `stderr`; what is longer lies whole behind `stdout_ref`
    and `stderr_ref`. What it leaves running when it ends is ended too.
    """

    kind = "shell"
    Input = ShellInput
    Spec = ShellSpec
    one_of = (("argv", "sh"),)
    defaults = {"timeout": 300}
    output = "shell"
    example = """\
kind: shell
argv: [sort, -n]
stdin: "10\\n9\\n"
"""

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes  # None: as many as there are cores (D87), so that none is starved
        self._free: Semaphore | None = None
        self._guards: Guards | None = None

    async def run(self, input: ShellInput, call: Call) -> Output:
        output = await self._run(input, call)
        # Rules may ask for output.shell.exit_code, whatever went wrong.
        return output if output.own else replace(output, own={"shell": NOT_RUN})

    async def _run(self, input: ShellInput, call: Call) -> Output:
        from noetl.tools.line_output import Lines
        from noetl.tools.shell.process import Captured, Unfit, ran, wish_of

        try:
            spec = msgspec.convert(call.spec, ShellSpec)
            wish = wish_of(input, call.folder, min(spec.memory_mb, MEMORY_MB_MAX) if spec.memory_mb else None)
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except Unfit as error:
            return failed("input", str(error))
        most = spec.output_mb * 1024 * 1024
        with (
            Lines(call.say) as lines,
            Captured("standard output", most, lines.add if input.parse != "json" else None) as stdout,
            Captured("standard error", most, lines.add) as stderr,
        ):
            try:
                async with self._room():
                    ended = await ran(wish, stdout, stderr, self._whole())
                return await _output(ended, stdout, stderr, input.parse, call)
            except Unfit as error:
                return failed("input", str(error))
            except OSError as error:
                return failed("shell", f"no process can be started: {error.strerror}", retryable=True)
            except NoetlError as error:
                return failed("reference", str(error), retryable=isinstance(error, Unavailable))

    def _room(self) -> Semaphore:
        if self._free is None:
            import os
            from asyncio import Semaphore

            self._free = Semaphore(self._processes or os.cpu_count() or 1)
        return self._free

    def _whole(self) -> Guards:
        if self._guards is None:
            from noetl.tools.process_guard.guard import Guards

            self._guards = Guards()
        return self._guards

    async def close(self) -> None:
        if self._guards is not None:
            await self._guards.close()
            self._guards = None


async def _output(ended: Ended | None, stdout: Captured, stderr: Captured, parse: str, call: Call) -> Output:
    own: dict[str, JSON] = {
        "exit_code": ended.exit_code if ended is not None else None,
        "signal": ended.signal if ended is not None else None,
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
    failure = _failure(ended, stdout, stderr)
    if failure is not None:
        return Output(status="error", error=failure, own=parts)
    if stdout.overflowed and parse == "text":
        return Output(ref=refs["stdout_ref"], own=parts)
    return _parsed(stdout, parts) if parse == "json" else Output(data=stdout.text(), own=parts)


def _failure(ended: Ended | None, stdout: Captured, stderr: Captured) -> Failure | None:
    if ended is None:
        from noetl.tools.process_guard.guard import CROWDED

        return Failure(kind="limit", message=CROWDED)
    full = next((each for each in (stdout, stderr) if each.full), None)
    if full is not None:
        words = f"it wrote more to {full.name} than it may (the limit is spec.output_mb)"
        return Failure(kind="payload-too-large", message=words)
    if ended.exit_code == 0:
        return None
    how = f"exit code {ended.exit_code}" if ended.signal is None else f"ended by {ended.signal}"
    last = stderr.last_line()[:LAST_LINE_CHARS_MAX]
    details = {"exit_code": ended.exit_code, "signal": ended.signal}
    return Failure(kind="shell", message=f"{how}: {last}" if last else how, details=details)


def _parsed(stdout: Captured, own: dict[str, JSON]) -> Output:
    from noetl.tools.json_values import NotPlain, parsed
    from noetl.tools.shell.process import PARSED_BYTES_MAX

    if stdout.size > PARSED_BYTES_MAX:
        words = f"standard output has {stdout.size:,} bytes (limit PARSED_BYTES_MAX: {PARSED_BYTES_MAX:,})"
        return Output(status="error", error=Failure(kind="payload-too-large", message=words), own=own)
    try:
        return Output(data=parsed(stdout.body()), own=own)
    except NotPlain as trouble:
        return Output(
            status="error", error=Failure(kind="shell", message=f"standard output {trouble}"), own=own
        )
