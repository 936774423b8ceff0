"""The extension for Visual Studio Code knows the actions and the scopes of the language server."""

from __future__ import annotations

import json
import re
from pathlib import Path

from noetl.editor.analysis import Analysis
from noetl.editor.history import NewestExecution, StepStatus
from noetl.editor.lenses import lenses, suite_lenses
from noetl.playbook.language import SCOPES
from noetl.tool import Tools

FOLDER = Path(__file__).parents[3] / "editors" / "vscode"
HELLO = Path(__file__).parents[3] / "examples" / "hello.yaml"


def test_the_extension_has_the_command_of_every_action() -> None:
    known = Analysis(HELLO.read_text(), Tools.installed().kinds())
    last = NewestExecution("id", "ok", {}, {}, {"start": StepStatus("ok", 1.0)})
    tests = suite_lenses("playbook: hello.yaml\ntests:\n  - name: a\n", "file:///a.test.yaml")
    used = {each.command for each in (*lenses(known, "file:///a.yaml", "file:///a.test.yaml", last), *tests)}
    assert used == {"noetl.run", "noetl.debug", "noetl.test", "noetl.show"}
    registered = set(re.findall(r'register\("(noetl\.\w+)"', (FOLDER / "src" / "extension.ts").read_text()))
    assert used <= registered
    package = json.loads((FOLDER / "package.json").read_text())
    shown = {each["command"] for each in package["contributes"]["commands"]}
    assert shown == registered - {"noetl.show"}  # it needs an execution


def test_the_grammar_knows_all_scopes() -> None:
    grammar = (FOLDER / "syntaxes" / "templates.tmLanguage.json").read_text()
    found = re.search(r"\(\?:(workload[\w|]+)\)", grammar)
    assert found is not None
    assert set(SCOPES) <= set(found[1].split("|"))
