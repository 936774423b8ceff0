"""Python code of tasks (level L4): is it valid Python? It is compiled, as by a worker, and never run.

Findings are warnings. Every component that loads a playbook checks it with its own Python, which may be
older than the one that the code needs, and an error would prevent the whole playbook from running.
"""

from __future__ import annotations

import warnings

from noetl.errors import Mark
from noetl.net.describe import count
from noetl.net.program import Program
from noetl.playbook.problems import problem
from noetl.playbook.source import Document, Path, Scalar
from noetl.playbook.validation import ProblemReport

# Of all code of one playbook. For some texts the compiler's time grows with the square of their length and
# blocks the process: this many characters take half a second at worst. Code beyond the limit is not checked.
CODE_CHARS_MAX = 32 * 1024
_REASON_CHARS_MAX = 120
_NAME = "playbook_code"  # the same name as in a worker


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
        # An invalid escape in a text is no error. The filter is set each time, since other code may reset it.
        warnings.filterwarnings("ignore", module=rf"{_NAME}\Z")
        compile(code, _NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        at = _place(report.document, path, code, error.lineno or 1, error.offset or 1)
        inside = "" if at or "\n" not in code.strip() else f" in line {error.lineno} of the code"
        reason = f"{(error.msg or 'invalid syntax')[:_REASON_CHARS_MAX]}{inside}"
    except (MemoryError, RecursionError):
        at, reason = None, f"it is nested too deeply, in {count(len(code), 'character')}"
    except (ValueError, OverflowError):  # for example half of a surrogate pair
        at, reason = None, "it contains characters that are not allowed in a program"
    else:
        return
    message = f'the code of "{name}" is not valid Python: {reason}'
    report.problems.append(problem("bad-code", at or report.at(path), message))


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
