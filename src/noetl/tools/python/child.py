"""The other side of the `python` tool: a process that runs an author's code, call after call.

It is started by its path and knows the standard library only, so that it is quick to start and holds nothing
of the worker's. Requests and answers are JSON behind a length of four bytes, on a socket of their own.
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
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import ast

ANSWER_BYTES_MAX = 64 * 1024 * 1024
DEPTH_MAX = 64  # of lists and mappings inside each other
MESSAGE_CHARS_MAX = 4_096
TRACEBACK_LINES_MAX = 20
PROGRAMS_MAX = 64  # compiled texts that are kept
GROWN_BYTES_MAX = 256 * 1024 * 1024  # of memory that was ever in use, beyond what we started with
MODULE = "playbook_code"  # what the author's code is called; its file too, when it has none
UNLIMITED = resource.RLIM_INFINITY

_LENGTH = struct.Struct(">I")
_PR_SET_PDEATHSIG = 1


class Refused(Exception):
    """The answer is an error that is not an exception of the author's code."""

    def __init__(self, message: str, kind: str = "python") -> None:
        super().__init__(message)
        self.kind = kind


class Room:
    """Where calls are made: compiled programs, and what must be as it was before the next call."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.guard = os.getppid()
        self.folder = os.getcwd()
        self.programs: dict[tuple[str, str], types.CodeType] = {}
        self.libs: set[str] = set()
        self.streams = _stream_identity()
        self.environ = dict(os.environ)
        self.path = list(sys.path)
        self.start_bytes = _address_space()
        self.start_peak = _peak_bytes()
        self.hard = resource.getrlimit(resource.RLIMIT_AS)[1]

    def answer(self, request: dict[str, Any]) -> bytes:
        """One call, from its request to the bytes of its answer, whatever the author's code does."""
        name = request["name"]
        tired = False
        try:
            self._limit(request["memory_mb"])
            value = self._run(request)
            body = b'{"data":' + _encoded(value) + b"}"
            self._limit(None)
            if len(body) > ANSWER_BYTES_MAX:
                size = f"{len(body):,} bytes (limit ANSWER_BYTES_MAX: {ANSWER_BYTES_MAX:,})"
                raise Refused(
                    f"the code gave back {size}; write it to a file or a store", "payload-too-large"
                )
        except BaseException as error:  # noqa: BLE001  # the border of the author's code
            self._limit(None)
            tired = isinstance(error, MemoryError)
            body = json.dumps({"error": _told(error, request["code"], name)}).encode()
        return b"-" + body if self._tired() or tired else b"+" + body

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
        sys.modules[MODULE] = module  # dataclasses, pickle and typing look a class's module up
        try:
            exec(program, names)
            main = names.get("main")
            if not callable(main):
                if "result" not in names:
                    _refuse_idle(request["code"], names)
                return names.get("result")
            value = main(**_wanted(main, arguments))
            return _awaited(value) if hasattr(value, "__await__") else value
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
        """So much more than an idle child has; None: as much as there is, to tell how it went."""
        soft = UNLIMITED if memory_mb is None else self.start_bytes + memory_mb * 1024 * 1024
        if self.hard != UNLIMITED:
            soft = self.hard if soft == UNLIMITED else min(soft, self.hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, self.hard))

    def _tired(self) -> bool:
        """Is something not as it was? Then another child makes the next call."""
        if os.getpid() != self.pid:
            os._exit(0)  # The author's code forked, and the copy came back here, where it has no business.
        sys.modules.pop(MODULE, None)
        try:
            os.chdir(self.folder)
            same = _stream_identity() == self.streams and _intact(sys.stdout, sys.__stdout__)
        except OSError:
            return True
        same = (
            same
            and _intact(sys.stderr, sys.__stderr__)
            and sys.path == self.path
            and os.environ == self.environ
        )
        alone = len(sys._current_frames()) == 1 and not _has_children() and self._is_alone()
        return not (same and alone) or _peak_bytes() - self.start_peak > GROWN_BYTES_MAX

    def _is_alone(self) -> bool:
        """Our guard adopts what the author's code has left behind. True where the system does not say."""
        try:
            with open(f"/proc/{self.guard}/task/{self.guard}/children", encoding="ascii") as file:
                return file.read().split() == [str(self.pid)]
        except OSError:
            return True


def _address_space() -> int:
    """Bytes of address space in use; where the system does not say, a generous guess."""
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
    """Does a process live on that the author's code started? Those that have ended are buried here."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _require(lib: str) -> None:
    """A library is named as it is imported or as it is installed, maybe with a version behind."""
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
        raise Refused(
            f'library "{lib}" is not installed where this worker runs; install it with `pip install {name}`'
        ) from None


def _refuse_idle(code: str, names: dict[str, Any]) -> None:
    """A script may print and set no `result`; one that defines functions and does no more is a slip."""
    functions = (each for each in names.values() if isinstance(each, types.FunctionType))
    own = [f"`{each.__name__}`" for each in functions if each.__module__ == MODULE]
    if not own:
        return
    import ast
    import warnings

    with warnings.catch_warnings(action="ignore"):  # They were told when it was compiled.
        body = ast.parse(code).body
    if all(_is_idle(each) for each in body):
        words = f"the code defines {', '.join(own[:5])} and calls nothing"
        raise Refused(f"{words}: name a function `main`, which is called with `input`, or set `result`")


def _is_idle(statement: ast.stmt) -> bool:
    """Does it only make something known, or what is done in a main program, which this is not?"""
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


def _wanted(main: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that `main` has names for; all of them when it takes any."""
    code = getattr(main, "__code__", None)
    if not isinstance(code, types.CodeType) or code.co_flags & 0x08:  # CO_VARKEYWORDS
        return arguments
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: value for name, value in arguments.items() if name in known}


def _awaited(value: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


def _encoded(value: Any) -> bytes:
    """The value as JSON. What JSON has no form for is refused with its place, or put into the plain form."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain, separators=(",", ":"))
        body = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, UnicodeEncodeError):
            raise Refused("the code gave back text with half a surrogate pair") from error
        raise Refused(f"the code gave back {_blame(value) or error}") from error
    if text.count("[") + text.count("{") > DEPTH_MAX and _is_deep(value):
        raise Refused(f"the code gave back lists and mappings that are nested deeper than {DEPTH_MAX} levels")
    return body


def _plain(value: Any) -> Any:
    """Dates as RFC 3339 texts, sets as lists, numbers and arrays of numeric libraries as lists of numbers."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return list(value)
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    if type(value).__name__ == "UUID":
        return str(value)
    raise TypeError(type(value).__name__)


def _blame(value: Any) -> str | None:
    """Which part of the value is no JSON; level by level, as far as a value may go."""
    level: list[tuple[str, Any]] = [("data", value)]
    for _ in range(DEPTH_MAX):
        below: list[tuple[str, Any]] = []
        for path, each in level:
            if isinstance(each, float) and each - each != 0:
                return f"{each} at {path}: JSON has no such number; give back None or a text"
            if isinstance(each, dict):
                odd = next((key for key in each if not isinstance(key, str | int | float | None)), None)
                if odd is not None:
                    return f"a {type(odd).__name__} as a key of {path}: keys are texts"
                below += [(f"{path}[{key!r}]", inner) for key, inner in each.items()]
            elif isinstance(each, list | tuple):
                below += [(f"{path}[{place}]", inner) for place, inner in enumerate(each)]
            elif not isinstance(each, str | int | float | None):
                try:
                    json.dumps(each, default=_plain)
                except (TypeError, ValueError):
                    kind = type(each).__name__
                    return f"a {kind} at {path}, which is no JSON; make a text, a number or a dict of it"
        level = below
    return f"lists and mappings that are nested deeper than {DEPTH_MAX} levels" if level else None


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


def _told(error: BaseException, code: str, name: str) -> dict[str, Any]:
    """The error as the author sees it: its own lines, and none of ours or of libraries."""
    if isinstance(error, Refused):
        return {"kind": error.kind, "message": str(error), "details": {}}
    try:
        words = str(error)
    except Exception:  # noqa: BLE001  # the author's own __str__
        words = "(its text can not be shown)"
    lines = code.splitlines()
    places = list(_places(error, name))
    if isinstance(error, SyntaxError) and error.filename == name and error.lineno is not None:
        words, places = error.msg, [(error.lineno, "")]
    message = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if isinstance(error, MemoryError):
        message += " (the limit is spec.memory_mb)"
    shown = [f"{_where(line, inside, name)}\n    {_text(lines, line)}" for line, inside in places]
    if len(shown) > TRACEBACK_LINES_MAX:
        shown = [f"… {len(shown) - TRACEBACK_LINES_MAX} more", *shown[-TRACEBACK_LINES_MAX:]]
    details = {"traceback": "\n".join(shown), "line": places[-1][0] if places else None}
    if len(message) > MESSAGE_CHARS_MAX:
        message = f"{message[:MESSAGE_CHARS_MAX]}… ({len(message) - MESSAGE_CHARS_MAX:,} characters more)"
    # Whatever half pairs of surrogates there are, the answer must be text.
    return {"kind": "python", "message": message.encode(errors="replace").decode(), "details": details}


def _places(error: BaseException, name: str) -> Iterator[tuple[int, str]]:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            yield trace.tb_lineno, trace.tb_frame.f_code.co_name
        trace = trace.tb_next


def _where(line: int, inside: str, name: str) -> str:
    place = f"line {line} of the {'code' if name == MODULE else 'script'}"
    return f"{place}, in {inside}" if inside not in ("", "<module>") else place


def _text(lines: list[str], line: int) -> str:
    return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""


def _read(channel: socket.socket, count: int) -> bytes:
    """Exactly so many bytes. Nobody at the other side: there is nothing left to live for."""
    parts = bytearray()
    while len(parts) < count:
        part = channel.recv(min(count - len(parts), 1 << 20))
        if not part:
            os._exit(0)
        parts += part
    return bytes(parts)


def _die_with_guard() -> None:
    """On Linux the kernel ends us when our guard is gone, also out of an endless loop."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    descriptor = int(sys.argv[1])
    _die_with_guard()
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    # A fork of the author's code must neither answer for us nor keep the line open when we are gone.
    os.register_at_fork(after_in_child=channel.close)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv[:] = [MODULE]
    room = Room()
    while True:
        (length,) = _LENGTH.unpack(_read(channel, _LENGTH.size))
        body = room.answer(json.loads(_read(channel, length)))
        try:
            channel.sendall(_LENGTH.pack(len(body)) + body)
        except OSError:
            os._exit(1)  # The code has closed what it did not open; the worker sees that we are gone.


if __name__ == "__main__":
    main()
