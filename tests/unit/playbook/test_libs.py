"""Modules in the text of a playbook: how they are written, and which names they may have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.checks.checker import check
from noetl.errors import Problem
from noetl.playbook.libs import LIBS_MAX, is_lib_name, with_libs
from noetl.playbook.source import parse, plain
from noetl.tool import Tools
from tests.playbooks import HEAD
from tests.sizes import examples

BOOK = HEAD + "workflow:\n- {step: start, tool: {kind: python, code: 'result = 1'}}\n"
KINDS = Tools.installed().kinds()
LINES = st.lists(
    st.sampled_from(
        ["", " ", "  x = 1", "def f():", "\treturn 1", "# ü…", "a: 1", "- b", "\x0c", "\u2028", "'\"", "..."]
    )
)


@settings(max_examples=examples(300))
@given(st.dictionaries(st.sampled_from(["a.py", "pkg/b.py", "é.py"]), LINES.map("\n".join), min_size=1), st.booleans())
def test_every_text_is_read_back_as_it_was(libs: dict[str, str], ends: bool) -> None:
    libs = {name: f"{text}\n" if ends else text for name, text in libs.items()}
    made = with_libs(BOOK, libs)
    assert made is not None
    assert made.startswith(BOOK)
    assert plain(parse(made).document.root)["libs"] == libs


@pytest.mark.parametrize("text", ["a: 1\n...\n", "{a: 1}\n", "a: |\n  x", "a: |+\n  x\n\n...\n", "- 1\n", ""])
def test_a_text_whose_end_does_not_permit_it_is_not_changed(text: str) -> None:
    assert with_libs(text, {"a.py": "x = 1\n"}) is None


@pytest.mark.parametrize("name", ["a.py", "pkg/__init__.py", "jobs/my-script.py", "é.py"])
def test_names(name: str) -> None:
    assert is_lib_name(name)


@pytest.mark.parametrize(
    "name", ["", ".py", "a", "/a.py", "../a.py", "a/../b.py", "a//b.py", "./a.py", "a\\b.py", "a\nb.py"]
)
def test_names_that_are_refused(name: str) -> None:
    assert not is_lib_name(name)
    assert [each.code for each in problems({name: "x = 1"})] == ["bad-name"]


def problems(libs: dict[str, str]) -> list[Problem]:
    made = with_libs(BOOK, libs)
    assert made is not None
    return [each for each in check(made, KINDS, "t.yaml").problems if each.severity == "error"]


def test_the_number_of_modules_is_limited() -> None:
    assert problems({f"m{n}.py": "" for n in range(LIBS_MAX)}) == []
    (found,) = problems({f"m{n}.py": "" for n in range(LIBS_MAX + 1)})
    assert (found.code, "LIBS_MAX" in found.message) == ("bad-value", True)


def test_a_syntax_error_in_a_module_is_reported_at_its_line() -> None:
    (found,) = problems({"a.py": "x = 1\ny = (\n"})
    assert found.code == "bad-code"
    assert found.message == "the code of \"a.py\" is not valid Python: '(' was never closed"
    assert found.at.line == BOOK.count("\n") + 4
