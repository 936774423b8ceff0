"""Python code of tasks (level L4): is it Python? It is compiled, as a worker would, and never run.

What is found is a warning. Whoever loads a playbook checks it with the Python of that place, which may be
older than the one that the code is for, and an error would keep the whole playbook from running.
"""

from __future__ import annotations

import warnings

from noetl.errors import Mark
from noetl.net.describe import count
from noetl.net.program import Program
from noetl.playbook.problems import problem
from noetl.playbook.report import ProblemReport
from noetl.playbook.source import Document, Path, Scalar

# Of all code of one playbook. For some texts the compiler's time grows with the square of their length, and
# nobody else gets a turn meanwhile: this many cost half a second at worst. What comes after them is believed.
CODE_CHARS_MAX = 32 * 1024
_REASON_CHARS_MAX = 120
_NAME = "playbook_code"  # what a worker calls it, too


def check_scripts(program: Program, report: ProblemReport) -> None:
    left = CODE_CHARS_MAX
    for owner in program.playbook.pipelines:
        for task in owner.tasks:
            code = task.fields.get("code") if task.kind == "python" else None
            if isinstance(code, str) and len(code) <= left:
                left -= len(code)
                _check(task.name, code, (*task.at, "code"), report)


def _check(name: str, code: str, path: Path, report: ProblemReport) -> None:
    try:
        # A doubtful escape in a text is no error. Said each time, since others may have put it away.
        warnings.filterwarnings("ignore", module=rf"{_NAME}\Z")
        compile(code, _NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        at = _place(report.document, path, code, error.lineno or 1, error.offset or 1)
        inside = "" if at or "\n" not in code.strip() else f" in line {error.lineno} of it"
        reason = f"{(error.msg or 'invalid syntax')[:_REASON_CHARS_MAX]}{inside}"
    except (MemoryError, RecursionError):
        at, reason = None, f"it is nested too deeply, in {count(len(code), 'character')}"
    except (ValueError, OverflowError):  # half a surrogate pair, for one
        at, reason = None, "it holds characters that no program may have"
    else:
        return
    message = f'the code of "{name}" is no Python: {reason}'
    report.problems.append(problem("bad-code", at or report.at(path), message))


def _place(document: Document, path: Path, code: str, line: int, column: int) -> Mark | None:
    """Where a place of the code stands in the document; None: YAML has folded it or put it together."""
    tree = document.find(path)
    lines = code.split("\n")
    if not isinstance(tree, Scalar) or not 0 < line <= len(lines):
        return None
    text = document.text
    wanted, column = lines[line - 1], max(column, 1)
    for quote in (0, 1):  # on one line, without quotes and with them
        if text[tree.start + quote : tree.end - quote] == code:
            return document.mark(tree.start + quote + column - 1)
    # A block behind `|`: its lines are the code's, and only indented.
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
