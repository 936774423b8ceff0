"""The guide and the template of a tool agree, and the template is a complete project."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from noetl.checks.checker import check
from noetl.tool import Tools
from tests.playbooks import HEAD

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/writing-a-tool.md").read_text("utf-8")
TEMPLATE = ROOT / "examples/tool-template"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("language", "suffix"), [("python", "*.py"), ("toml", "*.toml")])
def test_code_in_the_guide_is_part_of_the_template(language: str, suffix: str) -> None:
    sources = [file.read_text("utf-8") for file in TEMPLATE.rglob(suffix)]
    shown = blocks(language)
    assert shown
    assert [block for block in shown if not any(block in source for source in sources)] == []


def test_the_entry_point_of_the_template_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TEMPLATE / "src"))
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text("utf-8"))["project"]
    points = project["entry-points"]["noetl.tools"]
    tools = Tools({name: EntryPoint(name, value, "noetl.tools") for name, value in points.items()})
    assert list(tools.kinds()) == ["reach"]
    assert tools.kinds()["reach"].name == "reach"
    checked = check(HEAD + "workflow:\n" + blocks("yaml")[0], tools.kinds())
    assert checked.problems == ()
    wrong = check(HEAD + "workflow:\n- step: start\n  tool: {kind: reach, host: a, prot: 1}\n", tools.kinds())
    assert {problem.code for problem in wrong.problems} == {"unknown-key", "missing-key"}
