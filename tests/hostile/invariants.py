"""Invariants for any input, by the part of NoETL that reads it; the corpus and the fuzzer check them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from time import process_time

import msgspec

from noetl.checks.checker import check
from noetl.errors import PlaybookError, Problem
from noetl.playbook.migrate import migrate
from noetl.playbook.source import parse, plain
from noetl.template.compile import BadTemplate, Moment, TemplateError, compile_template
from tests.playbooks import kinds

CORPUS = Path(__file__).parents[1] / "fixtures" / "corpus"
CPU_S_MAX = 3.0  # ten times the time for the largest allowed input
MOMENT = Moment("2026-01-31T12:00:00Z", "fetch#1/1")
SCOPE: dict[str, object] = {
    "workload": {"items": [1, 2.5, "three", None, True], "text": "a {{ workload }} b", "map": {"k": [{}]}},
    "ctx": {"n": 7, "list": list(range(50)), "words": ["x", "", "ünï"]},
    "output": {"status": "ok", "data": {"n": 1}, "http": {"status": 200}},
    "iter": {"index": 0, "item": "i"},
    "_prev": None,
    "_attempt": 1,
}


class Fault(Exception):
    """An input violates an invariant."""


def judge_yaml(data: bytes) -> None:
    parsed = parse(data, "fuzz.yaml")
    _placed(parsed.problems)
    msgspec.json.encode(plain(parsed.document.root))


def judge_playbook(data: bytes) -> None:
    checked = check(data, kinds(), "fuzz.yaml")
    _placed(checked.problems)


def judge_template(data: bytes) -> None:
    source = data.decode("utf-8", "replace")
    try:
        template = compile_template(source, statements=True)
    except BadTemplate:
        return
    with suppress(TemplateError):
        template.holds(SCOPE, MOMENT)
    with suppress(TemplateError):
        msgspec.json.encode(template(SCOPE, MOMENT))


def judge_migrate(data: bytes) -> None:
    try:
        made = migrate(data.decode("utf-8", "replace"), "fuzz.yaml")
    except PlaybookError as error:
        _placed(error.problems)
        return
    if parse(made.text, "fuzz.yaml").document.root is None:
        raise Fault("the migrated text cannot be read")


JUDGES: dict[str, Callable[[bytes], None]] = {
    "yaml": judge_yaml,
    "playbook": judge_playbook,
    "template": judge_template,
    "migrate": judge_migrate,
}


def _placed(problems: Iterable[Problem]) -> None:
    for each in problems:
        if each.at.line < 1 or each.at.column < 1:
            raise Fault(f"a problem without a place: {each}")


def verdict(judge: Callable[[bytes], None], data: bytes) -> str | None:
    """The fault that an input causes; None: it causes none."""
    began = process_time()
    try:
        judge(data)
    except Exception as error:  # noqa: BLE001  # every unexpected exception is a fault
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    took = process_time() - began
    return f"it took {took:.1f} s" if took > CPU_S_MAX else None
