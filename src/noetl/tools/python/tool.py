"""`python`: Python code of the playbook, executed in a child process with limits."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from noetl.json_slices import decode_in_slices
from noetl.output import JSON, Failure, LargeOutput, Output, failed
from noetl.playbook.kinds import Fixed, Raw, Sandbox
from noetl.tool import Call, CodeFiles, Tool, ToolUser
from noetl.tools.errors import InvalidInput, ToolError
from noetl.tools.sandbox import restrictions

if TYPE_CHECKING:
    from noetl.tools.python.environments import Environments
    from noetl.tools.python.pool import ChildResponse, PythonPool

SCRIPT_BYTES_MAX = 1024 * 1024
MEMORY_MB_MAX = 1024 * 1024  # above the memory of any machine, and still a valid number of bytes for the system
CODE_NAME = "playbook_code"  # the name in tracebacks for code that is written in the playbook


class PythonInput(Struct, kw_only=True):
    """Code in the playbook, or a script file."""

    code: Annotated[
        Raw | None,
        Meta(
            description="Python code: either a function `main`, which is called with `input` as its "
            "arguments, or statements that set `result`; templates are not evaluated"
        ),
    ] = None
    script: Annotated[Fixed | None, Meta(description="file with the code, relative to the playbook")] = None
    libs: Annotated[
        list[str] | None,
        Meta(description="packages that the code needs; the task fails if one is not installed on the worker"),
    ] = None
    requirements: Annotated[
        list[str] | None,
        Meta(
            description="packages for the code, which are installed into an environment of their own; it is made with "
            "uv at the first use and then reused; the code sees no other packages",
            examples=["[pandas==2.2.3, pyarrow>=17]"],
        ),
    ] = None
    env: Annotated[
        dict[str, JSON] | None,
        Meta(description="environment variables; from the worker only PATH, HOME, LANG and TZ are inherited"),
    ] = None


class PythonSpec(Struct, kw_only=True):
    """Limits of the child process."""

    memory_mb: Annotated[int, Meta(ge=16, description="memory for the code, in MiB")] = 512
    sandbox: Annotated[
        Sandbox | None,
        Meta(
            description="restrict files and network of the code; the task fails if the worker cannot do it",
            examples=["{network: false, writable: [out]}"],
        ),
    ] = None


class PythonPart(Struct, kw_only=True):
    """What the code printed, and the exception that ended it."""

    exception_type: Annotated[
        str | None, Meta(description="class of the exception, without its module, for example `KeyError`")
    ] = None
    exception: Annotated[str | None, Meta(description="message of the exception")] = None
    traceback: Annotated[str | None, Meta(description="lines of the code that lead to the exception")] = None
    stdout: Annotated[str, Meta(description="standard output of the code, at most 64 KiB")] = ""
    stderr: Annotated[str, Meta(description="standard error of the code, at most 64 KiB")] = ""


class PythonTool(Tool):
    """Runs Python code with `input` as its arguments. `output.data` is its result.

    The result is the return value of `main`, or the variable `result`.

    The working directory is the folder of the playbook file. A playbook that was not read from a file, as on a
    server, or whose folder no longer exists, has an empty folder, which is cleared after each call.

    The code can import modules beside the playbook file, and a `script` also those beside itself. The standard
    library takes precedence over them, and they take precedence over installed packages. On a server the modules
    are in the text of the playbook, under `libs`: `noetl register` and `noetl run --server` add those that the code
    imports. Only Python files are added, and only for imports that are written in the code.

    The code sees the environment variables PATH, HOME, LANG and TZ of the worker, and those of `env`. Other
    variables of the worker may be secrets; pass a secret with `keychain` in `env` or `input`.

    `requirements` need uv on the worker. It takes the index, proxies and certificates from its own settings:
    `UV_DEFAULT_INDEX` and the other `UV_` variables of the worker, or `uv.toml`. The first call with a new list
    installs the packages, which counts towards the timeout of the task. The environments are below
    `~/.cache/noetl/python`, or `$XDG_CACHE_HOME/noetl/python`, and are removed when no task has used them for 30
    days.

    With `spec.sandbox` the code can make no sockets, unless `network` is true, and can write only to the paths in
    `writable` and to `TMPDIR`. It can read all files that the worker can read. Packages of `requirements` are
    installed without these restrictions.
    """

    kind = "python"
    failures = ("python", "limit", "sandbox")
    ignores = ("auth", "timeout.connect", "timeout.read")
    runs_programs = True
    unjudged = "depth"
    Input = PythonInput
    Spec = PythonSpec
    free_input = True
    one_of = (("code", "script"),)
    defaults = {"timeout": 300, "memory_mb": 512}
    output = "py"
    OutputPart = PythonPart
    example = """\
kind: python
input: {numbers: [3, 4]}
code: |
  def main(numbers):
      return {"sum": sum(numbers)}
"""

    def __init__(self, children: int | None = None, user: ToolUser | None = None, nice: int = 0) -> None:
        self._children = children  # None: one for each CPU core (D87)
        self._user, self._nice = user, nice
        self._pool: PythonPool | None = None
        self._environments: Environments | None = None

    async def run(self, input: PythonInput, call: Call) -> Output:
        """Each call has a new namespace; imported modules stay loaded for the next call of the same playbook."""
        import msgspec

        try:
            spec = msgspec.convert(call.spec, PythonSpec)
            request = await _request(input, spec, call)
            python = sys.executable
            if input.requirements:
                python = await self._interpreter(input.requirements, call)
            limits = restrictions(spec.sandbox, call.folder)
            pool = self._children_pool()
            return await _output(
                await pool.call(request, call.say, python, call.playbook, limits, write=call.write, libs=call.libs)
            )
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except ToolError as error:
            return error.output()
        except UnicodeEncodeError:
            return failed("input", "the code or its input contains a lone surrogate, which is not valid text")
        except OSError as error:
            return failed("python", f"cannot start a child process: {error.strerror}", retryable=True)

    async def _interpreter(self, requirements: list[str], call: Call) -> str:
        """That of an environment with these packages. Raises ToolError and OSError."""
        if self._environments is None:
            from noetl.tools.python.environments import Environments

            self._environments = Environments(self._user)
        return await self._environments.python(requirements, call.say)

    @classmethod
    def code_files(cls, fields: Mapping[str, JSON], folder: str | None) -> CodeFiles:
        """The script, and the modules that the code imports."""
        from noetl.tools.python.modules import modules_beside

        code, script = fields.get("code"), fields.get("script")
        folders = [] if folder is None else [Path(folder)]
        if not isinstance(script, str):
            return modules_beside(code, None, folders) if isinstance(code, str) else CodeFiles()
        if folder is None:
            return CodeFiles(complete=False)
        try:
            text, file = _read(script, folder)
        except InvalidInput:  # the call fails
            return CodeFiles((Path(folder) / script,), complete=False)
        path = Path(file)
        paths, complete = modules_beside(text, path, list(dict.fromkeys([path.parent, *folders])))
        return CodeFiles((path, *paths), complete)

    def _children_pool(self) -> PythonPool:
        if self._pool is None:
            import os

            from noetl.tools.python.pool import PythonPool

            self._pool = PythonPool(self._children or os.cpu_count() or 1, self._user, self._nice)
        return self._pool

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None


async def _request(input: PythonInput, spec: PythonSpec, call: Call) -> dict[str, JSON]:
    """The request to the child. Raises InvalidInput."""
    from noetl.tools.environment import environment_variables

    code, file, lib = await _source(input, call)
    folders = [str(Path(file).parent)] if file is not None and lib is None else []
    return {
        "code": code,
        "name": file or CODE_NAME,
        "file": file,
        "arguments": call.arguments,
        "libs": input.libs or [],
        "memory_mb": min(spec.memory_mb, MEMORY_MB_MAX),
        "folder": call.folder,
        "imports": list(dict.fromkeys([*folders, *([] if call.folder is None else [call.folder])])),
        "script": lib,
        "env": environment_variables(input.env) if input.env else {},
    }


async def _source(input: PythonInput, call: Call) -> tuple[str, str | None, str | None]:
    """The code, the path of its file, and its name in `libs` if it is there. Raises InvalidInput."""
    if input.code is not None:
        return input.code, None, None
    if input.script is None:
        raise InvalidInput("`code` or `script` is required")
    name = Path(input.script).as_posix()
    if name in call.libs:
        return call.libs[name], name, name
    import asyncio

    return *await asyncio.to_thread(_read, input.script, call.folder), None


def _read(script: str, folder: str | None) -> tuple[str, str]:
    from noetl.tools.paths import path_inside

    path = path_inside("script", script, folder)
    try:
        with path.open("rb") as file:
            body = file.read(SCRIPT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f'script "{path}" cannot be read: {reason}') from error
    if len(body) > SCRIPT_BYTES_MAX:
        raise InvalidInput(f'script "{path}" is too long (limit SCRIPT_BYTES_MAX: {SCRIPT_BYTES_MAX:,} bytes)')
    try:
        return body.decode("utf-8-sig"), str(path)
    except UnicodeDecodeError as error:
        raise InvalidInput(f'script "{path}" is not encoded in UTF-8') from error


async def _output(response: ChildResponse) -> Output:
    import msgspec

    made: type[Output]
    part: dict[str, JSON] = {"exception_type": None, "exception": None, "traceback": None}
    own = {"py": {**part, "stdout": response.stdout, "stderr": response.stderr}}
    if response.body is None:
        return Output(status="error", error=Failure(kind=response.kind, message=response.error), own=own)
    try:
        result = await decode_in_slices(response.body)
        made = LargeOutput
        if result is None:
            result, made = msgspec.json.decode(response.body), Output
        if "error" not in result:
            return made(data=result["data"], own=own)
        own["py"] |= {key: value for key, value in result["exception"].items() if key in part}
        return Output(status="error", error=msgspec.convert(result["error"], Failure), own=own)
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError, AttributeError) as error:
        # This happens only if the playbook's code itself writes to the socket of the child.
        message = f"the response of the child process is not valid: {error}"
        return Output(status="error", error=Failure(kind="python", message=message), own=own)
