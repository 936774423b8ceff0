"""`python`: code of the author's own, run in a child process with limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from noetl.output import Failure, Output, failed
from noetl.playbook.kinds import Fixed, Raw
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    from noetl.tools.python.pool import Answer, Pool

SCRIPT_BYTES_MAX = 1024 * 1024
MEMORY_MB_MAX = 1024 * 1024  # more than a machine has, less than a number of bytes may be
CODE_NAME = "playbook_code"  # what tracebacks call code that stands in the playbook


class PythonInput(Struct, kw_only=True):
    """A script, or a function `main`."""

    code: Annotated[
        Raw | None,
        Meta(description="`def main(...)`, called with `input`, or a script that sets `result`; no template"),
    ] = None
    script: Annotated[Fixed | None, Meta(description="a file with the code, relative to the playbook")] = None
    libs: Annotated[list[str] | None, Meta(description="packages that the code imports")] = None


class PythonSpec(Struct, kw_only=True):
    """Limits of the child process."""

    memory_mb: Annotated[int, Meta(ge=16, description="memory of the child")] = 512


class Unreadable(Exception):
    """There is no code to run; the message is for the author."""


class PythonTool(Tool):
    """Runs Python code with `input` as its arguments; `output.data` is what it returns."""

    kind = "python"
    unjudged = "depth"
    Input = PythonInput
    Spec = PythonSpec
    free_input = True
    one_of = (("code", "script"),)
    defaults = {"timeout": 300, "memory_mb": 512}
    output = "py"
    example = """\
kind: python
input: {numbers: [3, 4]}
code: |
  def main(numbers):
      return {"sum": sum(numbers)}
"""

    def __init__(self, children: int | None = None) -> None:
        self._children = children  # None: as many as there are cores (D87)
        self._pool: Pool | None = None

    async def run(self, input: PythonInput, call: Call) -> Output:
        """Each call has fresh names; modules that it imports stay loaded for the next one."""
        import msgspec

        try:
            spec = msgspec.convert(call.spec, PythonSpec)
            code, file = await _source(input, call.folder)
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except Unreadable as error:
            return failed("input", str(error))
        request = {
            "code": code,
            "name": file or CODE_NAME,
            "file": file,
            "arguments": call.arguments,
            "libs": input.libs or [],
            "memory_mb": min(spec.memory_mb, MEMORY_MB_MAX),
        }
        from noetl.tools.python.pool import TooLarge

        try:
            return _output(await self._whole().call(request, call.say))
        except TooLarge as error:
            return failed("payload-too-large", str(error))
        except UnicodeEncodeError:
            return failed("input", "the code or its input holds half a surrogate pair, which is no text")
        except OSError as error:
            return failed("python", f"no child process can be started: {error.strerror}", retryable=True)

    def _whole(self) -> Pool:
        if self._pool is None:
            import os

            from noetl.tools.python.pool import Pool

            self._pool = Pool(self._children or os.cpu_count() or 1)
        return self._pool

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None


async def _source(input: PythonInput, folder: str | None) -> tuple[str, str | None]:
    """The text, and the file that it comes from. Raises Unreadable."""
    if input.code is not None:
        return input.code, None
    if input.script is None:
        raise Unreadable("`code` or `script` must be given")
    import asyncio

    return await asyncio.to_thread(_read, input.script, folder)


def _read(script: str, folder: str | None) -> tuple[str, str]:
    from pathlib import Path

    path = Path(script)
    if not path.is_absolute():
        if folder is None:
            raise Unreadable(f'script "{script}" is relative to the playbook, and this one came from no file')
        path = Path(folder) / path
        if not path.resolve().is_relative_to(Path(folder).resolve()):
            raise Unreadable(f'script "{script}" lies outside the folder of the playbook; give its full path')
    try:
        with path.open("rb") as file:
            body = file.read(SCRIPT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Unreadable(f'script "{path}" can not be read: {reason}') from error
    if len(body) > SCRIPT_BYTES_MAX:
        raise Unreadable(f'script "{path}" is too long (limit SCRIPT_BYTES_MAX: {SCRIPT_BYTES_MAX:,} bytes)')
    try:
        return body.decode("utf-8-sig"), str(path)
    except UnicodeDecodeError as error:
        raise Unreadable(f'script "{path}" is no UTF-8') from error


def _output(answer: Answer) -> Output:
    import msgspec

    own = {"py": {"stdout": answer.printed.stdout, "stderr": answer.printed.stderr}}
    if answer.body is None:
        return Output(status="error", error=Failure(kind=answer.kind, message=answer.error or ""), own=own)
    try:
        said = msgspec.json.decode(answer.body)
        if "error" not in said:
            return Output(data=said["data"], own=own)
        return Output(status="error", error=msgspec.convert(said["error"], Failure), own=own)
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError) as error:
        # Only code that writes to our own line can bring this about.
        message = f"the child process answered in no form that we know: {error}"
        return Output(status="error", error=Failure(kind="python", message=message), own=own)
