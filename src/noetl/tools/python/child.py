"""The child process of the `python` tool: it runs the code of playbooks, one call after the other.

It is started as a script and imports only the standard library, so that it starts quickly and contains
nothing of the worker. Requests and responses are JSON with a length prefix of four bytes, on a socket.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import struct
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import ast
    from importlib.machinery import ModuleSpec

RESULT_BYTES_MAX = 64 * 1024 * 1024
DEPTH_MAX = 64  # nesting of lists and mappings
MESSAGE_CHARS_MAX = 4_096
TRACEBACK_LINES_MAX = 20
PROGRAMS_MAX = 64  # compiled programs in the cache
GROWN_BYTES_MAX = 256 * 1024 * 1024  # growth of the peak memory use since the start
MODULE = "playbook_code"  # the module name of the code; also its file name if it has no file
UNLIMITED = resource.RLIM_INFINITY

LIBS = "libs:"  # begins the search path of a package that is text

_LENGTH = struct.Struct(">I")
_PR_SET_PDEATHSIG = 1


class CallError(Exception):
    """The call fails for a reason other than an exception in the playbook's code."""

    def __init__(self, message: str, kind: str = "python") -> None:
        super().__init__(message)
        self.kind = kind


class LibLoader:
    """Loads a module that is text. A module is loaded again in each call, as files beside a playbook are."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.code: types.CodeType | None = None

    def create_module(self, spec: ModuleSpec) -> None:
        """None: an ordinary module."""

    def exec_module(self, module: types.ModuleType) -> None:
        self.code = self.code or compile(self.text, self.file, "exec", dont_inherit=True)
        exec(self.code, module.__dict__)

    def get_source(self, name: str) -> str:  # noqa: ARG002  # the signature of importlib
        """For `inspect` and `traceback`."""
        return self.text


class LibFinder:
    """Finds the modules of the playbook. The standard library takes precedence, installed packages do not."""

    def __init__(self) -> None:
        self.loaders: dict[str, LibLoader] = {}
        self.roots: tuple[str, ...] = ("",)  # where imports of the call begin: beside its script, beside the playbook

    def load(self, libs: dict[str, str]) -> None:
        self.loaders = {file: LibLoader(file, text) for file, text in libs.items()}
        place = next(
            (place for place, each in enumerate(sys.meta_path) if getattr(each, "__name__", "") == "PathFinder"), 0
        )
        sys.meta_path.insert(place, self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        del target
        if path is None:
            roots = () if name in sys.stdlib_module_names else self.roots
        else:
            roots = tuple(each[len(LIBS) :] for each in path if each.startswith(LIBS))
        last = name.rpartition(".")[2]
        for place in (f"{root}{last}" for root in roots):
            for file in (f"{place}/__init__.py", f"{place}.py"):
                if file in self.loaders:
                    return self._spec(name, place, self.loaders[file])
            if any(file.startswith(f"{place}/") for file in self.loaders):
                return self._spec(name, place, None)
        return None

    def _spec(self, name: str, place: str, loader: LibLoader | None) -> ModuleSpec:
        """Without a loader: a package without `__init__.py`."""
        file = f"{place}/" if loader is None else loader.file
        make = type(sys.__spec__)  # ModuleSpec, without an import
        spec = make(name, loader, origin=file, is_package=file != f"{place}.py")  # type: ignore[arg-type]
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(f"{LIBS}{place}/")
        spec.has_location = loader is not None
        return spec

    def owns(self, module: Any) -> bool:
        spec = getattr(module, "__spec__", None)
        places = getattr(spec, "submodule_search_locations", None) or ()
        return isinstance(getattr(spec, "loader", None), LibLoader) or any(
            isinstance(each, str) and each.startswith(LIBS) for each in places
        )


class CallRunner:
    """Makes the calls. Caches compiled programs, and records the process state to detect changes of it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.guard = os.getppid()
        self.folder = os.getcwd()
        self.programs: dict[tuple[str, str], types.CodeType] = {}
        self.libs: set[str] = set()
        self.finder = LibFinder()
        self.streams = _stream_identity()
        self.environ = dict(os.environ)
        self.path = list(sys.path)
        self.environ_now = self.environ  # that of the call; code that changes it further changes the process
        self.path_now = self.path
        self.folders: tuple[str, ...] = ()  # folders of the playbook whose modules the call may import
        self.modules = set(sys.modules)  # those that stay loaded for the next call
        self.start_bytes = _address_space()
        self.start_peak = _peak_bytes()
        self.hard = resource.getrlimit(resource.RLIMIT_AS)[1]

    def call(self, request: dict[str, Any]) -> bytes:
        """Make one call. The response begins with "-" if the worker must replace this process, else "+"."""
        name = request["name"]
        out_of_memory = False
        try:
            self._limit(request["memory_mb"])
            self._enter(request)
            value = self._run(request)
            body = b'{"data":' + _encode(value) + b"}"
            self._limit(None)
            if len(body) > RESULT_BYTES_MAX:
                size = f"{len(body):,} bytes (limit RESULT_BYTES_MAX: {RESULT_BYTES_MAX:,})"
                raise CallError(
                    f"the result of the code has {size}; write it to a file or a store", "payload-too-large"
                )
        except BaseException as error:  # noqa: BLE001  # any exception of the playbook's code
            self._limit(None)
            out_of_memory = isinstance(error, MemoryError)
            sources = {file: each.text for file, each in self.finder.loaders.items()} | {name: request["code"]}
            body = json.dumps(_describe_error(error, sources, name, self._is_beside)).encode()
        return b"-" + body if self._is_changed() or out_of_memory else b"+" + body

    def load(self, request: dict[str, Any]) -> bytes:
        """Take the modules of the playbook, before its first call."""
        self.finder.load(request["libs"])
        return b"+"

    def _enter(self, request: dict[str, Any]) -> None:
        """Set the working directory, the variables and the import path of the call. Raises CallError."""
        folder, self.folders = request.get("folder"), tuple(request.get("imports", ()))
        script = request.get("script")
        self.finder.roots = ("",) if script is None else (f"{script.rpartition('/')[0]}/".lstrip("/"), "")
        if folder is not None:
            try:
                os.chdir(folder)
            except FileNotFoundError:  # an execution may outlive the folder that it was started from
                where = f'the folder of the playbook, "{folder}", does not exist'
                print(f"{where}: the code runs in an empty folder", file=sys.stderr)
            except OSError as error:
                message = f'the folder of the playbook, "{folder}", cannot be used on this worker: {error.strerror}'
                raise CallError(message, "input") from error
        if self.folders:
            # After the standard library, which a file beside a playbook must not replace, and before packages.
            packages = (place for place, each in enumerate(self.path) if each.endswith("-packages"))
            place = next(packages, len(self.path))
            self.path_now = sys.path[:] = [*self.path[:place], *self.folders, *self.path[place:]]
        if request.get("env"):
            self.environ_now = {**self.environ, **request["env"]}
            self._set_environ(self.environ_now)

    def _leave(self) -> None:
        """Undo `_enter`. Modules beside a playbook are forgotten, because they belong to that playbook alone."""
        if self.finder.loaders or self.folders:
            if len(sys.modules) != len(self.modules):
                for name in sys.modules.keys() - self.modules:
                    module = sys.modules[name]
                    if self.finder.owns(module) or self._is_beside(_file_of(module)):
                        del sys.modules[name]
                self.modules = set(sys.modules)
                for folder in [each for each in sys.path_importer_cache if self._is_beside(os.path.join(each, ""))]:
                    del sys.path_importer_cache[folder]
            sys.path[:] = self.path_now = self.path
            self.folders = ()
        if self.environ_now is not self.environ:
            self.environ_now = self.environ
            self._set_environ(self.environ)

    def _is_beside(self, file: str) -> bool:
        """Does the file belong to the playbook? Installed packages may be in the same folder, in `.venv`."""
        if file in self.finder.loaders:
            return True
        inside, installed = (tuple(os.path.join(each, "") for each in paths) for paths in (self.folders, self.path))
        return file.startswith(inside) and not file.startswith(installed)

    def _set_environ(self, environ: dict[str, str]) -> None:
        zone = os.environ.get("TZ")
        for name in [name for name in os.environ if name not in environ]:
            del os.environ[name]
        os.environ.update(environ)
        if environ.get("TZ") != zone:
            import time

            time.tzset()

    def _run(self, request: dict[str, Any]) -> Any:
        for lib in request["libs"]:
            if lib not in self.libs:
                _require(lib)
                self.libs.add(lib)
        program = self._program(request["code"], request["name"])
        module = types.ModuleType(MODULE)
        names = module.__dict__
        if request["file"] is not None:
            names["__file__"] = request["file"]
        arguments: dict[str, Any] = request["arguments"]
        names.update(arguments)
        sys.modules[MODULE] = module  # dataclasses, pickle and typing look up the module of a class
        try:
            exec(program, names)
            main = names.get("main")
            if not callable(main):
                if "result" not in names:
                    _refuse_without_effect(request["code"], names)
                return names.get("result")
            value = main(**_accepted(main, arguments))
            return _await(value) if hasattr(value, "__await__") else value
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None and not stream.closed:
                    stream.flush()

    def _program(self, code: str, name: str) -> types.CodeType:
        program = self.programs.get((code, name))
        if program is None:
            if len(self.programs) >= PROGRAMS_MAX:
                self.programs.clear()
            program = self.programs[code, name] = compile(code, name, "exec", dont_inherit=True)
        return program

    def _limit(self, memory_mb: int | None) -> None:
        """Limit the memory beyond that of an idle process; None: no limit, to encode the response."""
        soft = UNLIMITED if memory_mb is None else self.start_bytes + memory_mb * 1024 * 1024
        if self.hard != UNLIMITED:
            soft = self.hard if soft == UNLIMITED else min(soft, self.hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, self.hard))

    def _is_changed(self) -> bool:
        """Has the call changed the process? Then the worker replaces it before the next call."""
        if os.getpid() != self.pid:
            os._exit(0)  # a fork made by the playbook's code: only the original process may continue
        sys.modules.pop(MODULE, None)
        try:
            os.chdir(self.folder)
            _empty(self.folder)
            same = _stream_identity() == self.streams and _intact(sys.stdout, sys.__stdout__)
        except OSError:
            return True
        same = same and _intact(sys.stderr, sys.__stderr__)
        same = same and sys.path == self.path_now and os.environ == self.environ_now
        self._leave()
        alone = len(sys._current_frames()) == 1 and not _has_children() and self._has_no_siblings()
        return not (same and alone) or _peak_bytes() - self.start_peak > GROWN_BYTES_MAX

    def _has_no_siblings(self) -> bool:
        """The guard adopts orphaned processes of the code. True if the system does not report them."""
        try:
            with open(f"/proc/{self.guard}/task/{self.guard}/children", encoding="ascii") as file:
                return file.read().split() == [str(self.pid)]
        except OSError:
            return True


def _file_of(module: Any) -> str:
    """The file of a module, or the folder of a package without a file; "": it has neither."""
    try:
        found = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    except Exception:  # noqa: BLE001  # a library may put any object into sys.modules
        return ""
    return os.path.join(found, "") if isinstance(found, str) and os.path.isdir(found) else str(found)


def _empty(folder: str) -> None:
    """Remove the files that a call has left in the folder of this process."""
    for name in os.listdir(folder):
        import shutil

        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def _address_space() -> int:
    """Bytes of address space in use; if the system does not report it, a generous estimate."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 256 * 1024 * 1024


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _stream_identity() -> tuple[tuple[int, int], ...]:
    return tuple((found.st_dev, found.st_ino) for found in map(os.fstat, (0, 1, 2)))


def _intact(stream: TextIO | None, own: TextIO | None) -> bool:
    return stream is not None and stream is own and not stream.closed


def _has_children() -> bool:
    """Is a process still running that the code has started? Ended ones are reaped here."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _require(lib: str) -> None:
    """`lib` is the name of a module or a package, with or without a version. Raises CallError."""
    from importlib.util import find_spec

    name = lib.strip().split(";")[0]
    for mark in "<>=!~[ ":
        name = name.partition(mark)[0]
    try:
        if name and find_spec(name.partition(".")[0].replace("-", "_")) is not None:
            return
    except ValueError:  # already imported, and without a spec
        return
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(name)
    except (PackageNotFoundError, ValueError):
        raise CallError(
            f'library "{lib}" is not installed on this worker; install it with `pip install {name}`, '
            "or list it under `requirements`"
        ) from None


def _refuse_without_effect(code: str, names: dict[str, Any]) -> None:
    """Raise CallError if the code only defines functions. A script without a `result` must do something."""
    functions = (each for each in names.values() if isinstance(each, types.FunctionType))
    own = [f"`{each.__name__}`" for each in functions if each.__module__ == MODULE]
    if not own:
        return
    import ast
    import warnings

    with warnings.catch_warnings(action="ignore"):  # compile() has reported them
        body = ast.parse(code).body
    if all(_is_definition(each) for each in body):
        message = f"the code defines {', '.join(own[:5])} but calls no function"
        raise CallError(f"{message}; rename the function to `main`, which is called with `input`, or set `result`")


def _is_definition(statement: ast.stmt) -> bool:
    """Does it only define or import names? `if __name__ == …` counts too, because its body does not run."""
    import ast

    match statement:
        case ast.FunctionDef(decorator_list=[]) | ast.AsyncFunctionDef(decorator_list=[]) | ast.ClassDef():
            return True
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign() | ast.AnnAssign():
            return not any(isinstance(inner, ast.Call) for inner in ast.walk(statement))
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__")), orelse=[]):
            return True
    return False


def _accepted(main: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that `main` has parameters for; all of them if it has `**kwargs`."""
    code = getattr(main, "__code__", None)
    if not isinstance(code, types.CodeType) or code.co_flags & 0x08:  # CO_VARKEYWORDS
        return arguments
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: value for name, value in arguments.items() if name in known}


def _await(value: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


def _encode(value: Any) -> bytes:
    """The value as JSON, with `_convert` for other types. Raises CallError, with the place of a bad value."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_convert, separators=(",", ":"))
        body = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, UnicodeEncodeError):
            raise CallError("the result of the code contains a lone surrogate, which is not valid text") from error
        raise CallError(f"the result of the code contains {_find_invalid(value) or error}") from error
    if text.count("[") + text.count("{") > DEPTH_MAX and _is_deep(value):
        raise CallError(f"the result of the code contains lists and mappings nested deeper than {DEPTH_MAX} levels")
    return body


def _convert(value: Any) -> Any:
    """Dates become RFC 3339 text, sets lists, and numbers and arrays of numeric libraries plain numbers."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return list(value)
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    if type(value).__name__ == "UUID":
        return str(value)
    raise TypeError(type(value).__name__)


def _find_invalid(value: Any) -> str | None:
    """Which part of the value is not JSON. Searches level by level, down to the maximum depth."""
    level: list[tuple[str, Any]] = [("data", value)]
    for _ in range(DEPTH_MAX):
        below: list[tuple[str, Any]] = []
        for path, each in level:
            if isinstance(each, float) and each - each != 0:
                return f"{each} at {path}: JSON has no such number; return None or a string"
            if isinstance(each, dict):
                wrong = next((key for key in each if not isinstance(key, str | int | float | None)), None)
                if wrong is not None:
                    return f"a {type(wrong).__name__} as a key of {path}: keys must be strings"
                below += [(f"{path}[{key!r}]", inner) for key, inner in each.items()]
            elif isinstance(each, list | tuple):
                below += [(f"{path}[{index}]", inner) for index, inner in enumerate(each)]
            elif not isinstance(each, str | int | float | None):
                try:
                    json.dumps(each, default=_convert)
                except (TypeError, ValueError):
                    kind = type(each).__name__
                    return f"a {kind} at {path}, which is not JSON; convert it to a string, number or dict"
        level = below
    return f"lists and mappings nested deeper than {DEPTH_MAX} levels" if level else None


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list | tuple)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list | tuple)
        ]
    return bool(level)


def _describe_error(
    error: BaseException, sources: dict[str, str], name: str, is_beside: Callable[[str], bool]
) -> dict[str, Any]:
    """The error with a traceback of the playbook's own lines, without those of this file or of libraries."""
    if isinstance(error, CallError):
        return {"error": {"kind": error.kind, "message": str(error), "details": {}}, "exception": {}}
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # the __str__ of the playbook's own class
        text = "(the message cannot be read)"
    positions = [each for each in _positions(error) if each[0] == name or is_beside(each[0])]
    if isinstance(error, SyntaxError) and error.lineno is not None:
        file = str(error.filename)
        if file == name or is_beside(file):
            text, positions = error.msg, [(file, error.lineno, "")]
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, MemoryError):
        message += " (the limit is spec.memory_mb)"
    if isinstance(error, ModuleNotFoundError):
        message += " (install the package on the worker, or list it under `requirements`; a module of your own must be"
        message += " beside the playbook file, and on a server under `libs` of the playbook)"
    trace = [f"{_where(*each, name)}\n    {_source(*each[:2], sources)}" for each in positions]
    if len(trace) > TRACEBACK_LINES_MAX:
        trace = [f"… {len(trace) - TRACEBACK_LINES_MAX} more", *trace[-TRACEBACK_LINES_MAX:]]
    own = [line for file, line, _ in positions if file == name]
    details = {"traceback": "\n".join(trace), "line": own[-1] if own else None}
    exception = {"exception_type": type(error).__name__, "exception": _cut(text), "traceback": details["traceback"]}
    return {"error": {"kind": "python", "message": _cut(message), "details": details}, "exception": exception}


def _cut(text: str) -> str:
    """The text within its limit. Lone surrogates are replaced, because the response must be valid text."""
    if len(text) > MESSAGE_CHARS_MAX:
        text = f"{text[:MESSAGE_CHARS_MAX]}… ({len(text) - MESSAGE_CHARS_MAX:,} more characters)"
    return text.encode(errors="replace").decode()


def _positions(error: BaseException) -> Iterator[tuple[str, int, str]]:
    """File, line and function of each frame."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno, trace.tb_frame.f_code.co_name
        trace = trace.tb_next


def _where(file: str, line: int, inside: str, name: str) -> str:
    what = os.path.basename(file) if file != name else "the code" if name == MODULE else "the script"
    position = f"line {line} of {what}"
    return f"{position}, in {inside}" if inside not in ("", "<module>") else position


def _source(file: str, line: int, sources: dict[str, str]) -> str:
    if file in sources:
        lines = sources[file].splitlines()
    else:
        import linecache

        linecache.checkcache(file)
        lines = linecache.getlines(file)
    return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""


def _read(channel: socket.socket, count: int) -> bytes:
    """Exactly `count` bytes. Ends the process if the worker has closed the socket."""
    parts = bytearray()
    while len(parts) < count:
        part = channel.recv(min(count - len(parts), 1 << 20))
        if not part:
            os._exit(0)
        parts += part
    return bytes(parts)


def _die_with_guard() -> None:
    """On Linux the kernel kills this process when its guard dies, even in an endless loop."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    descriptor = int(sys.argv[1])
    _die_with_guard()
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    # A fork made by the code must not respond in place of this process, nor keep the socket open after it.
    os.register_at_fork(after_in_child=channel.close)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv[:] = [MODULE]
    runner = CallRunner()
    while True:
        (length,) = _LENGTH.unpack(_read(channel, _LENGTH.size))
        request = json.loads(_read(channel, length))
        body = runner.load(request) if "code" not in request else runner.call(request)
        try:
            channel.sendall(_LENGTH.pack(len(body)) + body)
        except OSError:
            os._exit(1)  # the code has closed the socket; the worker detects the exit


if __name__ == "__main__":
    main()
