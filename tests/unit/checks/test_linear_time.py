"""The work of a check grows with the size of the text, even when it has thousands of names and mistakes.

The work is counted in instructions of Python's virtual machine: a test must not depend on an idle machine. Each module
is counted on its own, so that the linear work of the others does not hide it.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from noetl.checks.checker import check
from noetl.playbook.source import parse
from noetl.playbook.validation import NAMES_COMPARED_MAX, ProblemReport
from noetl.tool import Tools
from tests.playbooks import HEAD

KINDS = Tools.installed().kinds()
FEW, MANY = 60, 240


def _steps(count: int, more: Callable[[int], str]) -> str:
    names = ["start", *(f"s{number}" for number in range(1, count))]
    return "workflow:\n" + "".join(f"- step: {name}\n{more(number)}" for number, name in enumerate(names))


def unset_names(count: int) -> str:
    return HEAD + _steps(
        count,
        lambda number: (
            f"  tool: {{kind: noop, input: {{a: '{{{{ ctx.zq{count}_{number} }}}}'}}}}\n  set: {{ctx.w{number}: 1}}\n"
        ),
    )


def tasks_by_name(count: int) -> str:
    task = "  - {{name: t{2}_{0}, kind: noop, input: {{a: '{{{{ t{2}_{1}.data }}}}'}}}}\n"
    tasks = "".join(task.format(number, max(0, number - 1), count) for number in range(count))
    return f"{HEAD}workflow:\n- step: start\n  tool:\n{tasks}"


def work(text: str) -> Counter[str]:
    """The instructions of a check, by module."""
    done: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        module = str(frame.f_globals.get("__name__"))
        if module.startswith("noetl"):  # others run now and then, such as what the collector calls
            done[module] += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        check(text, KINDS, "t.yaml")
    finally:
        sys.settrace(before)
    return done


@pytest.mark.parametrize("shape", [unset_names, tasks_by_name])
def test_the_work_grows_with_the_size_of_the_text(shape: Callable[[int], str]) -> None:
    work(shape(2))  # what is done once is not counted; compiled templates are cached, so each text has its own names
    few, many = work(shape(FEW)), work(shape(MANY))
    assert many.total() > 100_000
    assert {module: (few[module], done) for module, done in many.items() if done > 1.2 * MANY / FEW * few[module]} == {}


def test_names_are_not_read_when_there_were_too_many_mistakes() -> None:
    report = ProblemReport(parse(HEAD, "t.yaml").document)
    read = 0

    def names() -> Iterator[str]:
        nonlocal read
        for number in range(1_000):
            read += 1
            yield f"name{number}"

    for _ in range(NAMES_COMPARED_MAX // 100):
        report.similar("nothing", names())
    assert read <= NAMES_COMPARED_MAX + 1_000


LARGE_BYTES = 930_000  # the limit of a text is 1 MiB
CPU_S = 10.0  # 2 s on an idle machine; quadratic work took 45 s


def unknown_steps(count: int) -> str:
    return HEAD + _steps(count, lambda number: f"  next: {{arcs: [{{step: zq{number}}}]}}\n")


def largest(shape: Callable[[int], str]) -> str:
    """The text of this shape with about LARGE_BYTES."""
    first = len(shape(1_000)) / 1_000
    count = int(LARGE_BYTES / first)
    return shape(int(count * LARGE_BYTES / len(shape(count))))


@pytest.mark.parametrize(
    ("shape", "code"),
    [(unset_names, "unset-ctx"), (tasks_by_name, "task-not-run"), (unknown_steps, "unknown-step")],
)
def test_a_large_text_needs_little_cpu_time(shape: Callable[[int], str], code: str) -> None:
    """Also in C, such as in sorting and comparing, which has no instructions of Python."""
    text = largest(shape)
    assert 0.97 < len(text) / LARGE_BYTES < 1.03
    begun = time.process_time()
    problems = check(text, KINDS, "t.yaml").problems
    assert time.process_time() - begun < CPU_S
    assert code in {problem.code for problem in problems}
