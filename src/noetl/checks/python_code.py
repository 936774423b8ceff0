"""Python code of tasks (level L4): is it valid Python, and does `main` fit `input`? It is compiled and never run."""

from __future__ import annotations

import warnings
from _ast import (
    Assign,
    AsyncFunctionDef,
    FunctionDef,
    Module,
    Name,
    PyCF_ONLY_AST,  # the module `ast` is slow to import, and the rest of it is not needed
    arg,
)
from collections.abc import Iterator
from types import CodeType

from noetl.errors import Mark
from noetl.net.describe import count
from noetl.net.program import Program
from noetl.playbook.model import Task
from noetl.playbook.problems import problem
from noetl.playbook.source import Document, Path, Scalar
from noetl.playbook.validation import ProblemReport

# Of all code of one playbook. For some texts the compiler's time grows with the square of their length and
# blocks the process: this many characters take half a second at worst. Code beyond the limit is not checked.
CODE_CHARS_MAX = 32 * 1024
_REASON_CHARS_MAX = 120
_NAME = "playbook_code"  # the same name as in a worker
_ANY_NAME = frozenset({"globals", "locals", "vars", "exec", "eval"})  # code that uses them may read any input


def check_scripts(program: Program, report: ProblemReport) -> None:
    left = CODE_CHARS_MAX
    for owner in program.playbook.pipelines:
        for task in owner.tasks:
            code = task.fields.get("code") if task.kind == "python" else None
            if isinstance(code, str) and len(code) <= left:
                left -= len(code)
                compiled = _compile(task.name, code, (*task.at, "code"), report)
                if compiled is not None:
                    _check_arguments(task, code, compiled, program, report)
    for name, text in program.playbook.libs.items():
        if len(text) <= left:
            left -= len(text)
            _compile(name, text, ("libs", name), report)


def _compile(name: str, code: str, path: Path, report: ProblemReport) -> CodeType | None:
    try:
        # An invalid escape in a text is not an error. The filter is set each time, since other code may reset it.
        warnings.filterwarnings("ignore", module=rf"{_NAME}\Z")
        return compile(code, _NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        at = _place(report.document, path, code, error.lineno or 1, error.offset or 1)
        inside = "" if at or "\n" not in code.strip() else f" in line {error.lineno} of the code"
        reason = f"{(error.msg or 'invalid syntax')[:_REASON_CHARS_MAX]}{inside}"
    except (MemoryError, RecursionError):
        at, reason = None, f"it is nested too deeply, in {count(len(code), 'character')}"
    except (ValueError, OverflowError):  # for example half of a surrogate pair
        at, reason = None, "it contains characters that are not allowed in a program"
    message = f'the code of "{name}" is not valid Python: {reason}'
    report.problems.append(problem("bad-code", at or report.at(path), message))
    return None


def _check_arguments(task: Task, code: str, compiled: CodeType, program: Program, report: ProblemReport) -> None:
    """A worker calls `main` with the values of `input` for its parameters; all of them are global names, too."""
    main = _main(code) if "main" in code else None
    known = [*main.args.posonlyargs, *main.args.args, *main.args.kwonlyargs] if main else []
    names = {each.arg for each in known}
    unread = [key for key in task.input if key not in names]
    for each in _required(main) if main else ():
        if each.arg not in task.input:
            near = report.similar(each.arg, unread)
            hint = f'; did you mean "{each.arg}" instead of "{near}"?' if near else ""
            message = f'main of "{task.name}" requires "{each.arg}", which `input` does not contain{hint}'
            column = len(code.split("\n")[each.lineno - 1].encode()[: each.col_offset].decode(errors="replace")) + 1
            path = (*task.at, "code")
            at = _place(report.document, path, code, each.lineno, column) or report.at(path)
            report.problems.append(problem("missing-argument", at, message, fix=f"input: {{{each.arg}: …}}"))
    if not unread or (main and main.args.kwarg):
        return
    read = {*_global_names(compiled), *_read_by_templates(task, program)}
    for key in unread:
        if key not in read and "" not in read and not _ANY_NAME & read:
            near = report.similar(key, names)
            hint = f'; did you mean "{near}"?' if near else ""
            message = f'the code of "{task.name}" does not use "{key}" of `input`{hint}'
            report.add("unused-argument", (*task.at, "input", key), message, key=True, fix=near)


def _main(code: str) -> FunctionDef | AsyncFunctionDef | None:
    """The function `main`; None: there is none, or its parameters cannot be known without running the code."""
    try:
        tree = compile(code, _NAME, "exec", PyCF_ONLY_AST, dont_inherit=True)
    except (MemoryError, RecursionError):
        return None
    assert isinstance(tree, Module)
    found: FunctionDef | AsyncFunctionDef | None = None
    for statement in tree.body:
        match statement:
            case FunctionDef(name="main") | AsyncFunctionDef(name="main"):
                found = statement if not statement.decorator_list else None
            case Assign(targets=targets) if any(isinstance(each, Name) and each.id == "main" for each in targets):
                found = None
    return found


def _required(main: FunctionDef | AsyncFunctionDef) -> Iterator[arg]:
    positional = [*main.args.posonlyargs, *main.args.args]
    yield from positional[: len(positional) - len(main.args.defaults)]
    yield from (
        each for each, default in zip(main.args.kwonlyargs, main.args.kw_defaults, strict=True) if default is None
    )


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _global_names(each)


def _read_by_templates(task: Task, program: Program) -> Iterator[str]:
    """The keys of `input` that rules and `set` of the task read; "": all of them."""
    for use in program.templates:
        if use.task is task and use.place != "task":
            for read in use.template.reads:
                if read.path[0] == "input":
                    yield str(read.path[1]) if len(read.path) > 1 else ""


def _place(document: Document, path: Path, code: str, line: int, column: int) -> Mark | None:
    """The position in the document of a place in the code; None: YAML has folded or joined its lines."""
    tree = document.find(path)
    lines = code.split("\n")
    if not isinstance(tree, Scalar) or not 0 < line <= len(lines):
        return None
    text = document.text
    wanted, column = lines[line - 1], max(column, 1)
    for quote in (0, 1):  # code on one line, without and with quotes
        if text[tree.start + quote : tree.end - quote] == code:
            return document.mark(tree.start + quote + column - 1)
    # A block after `|`: its lines are those of the code, only indented.
    begins = tree.start
    for _ in range(line):
        begins = text.find("\n", begins) + 1
        if not begins or begins >= tree.end:
            return None
    ends = text.find("\n", begins)
    found = text[begins : ends if ends >= 0 else len(text)].removesuffix("\r")
    if not found.endswith(wanted) or found[: len(found) - len(wanted)].strip():
        return None
    return document.mark(begins + len(found) - len(wanted) + column - 1)
