"""`noetl schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.playbook.json_schema import json_schema
from noetl.tool import Tools
from tests.unit.cli.invoke import noetl


def test_the_schema_is_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert noetl("schema") == 0
    assert json.loads(capsys.readouterr().out) == json_schema(Tools.installed().kinds())
    assert noetl("schema", "-o", str(tmp_path / "s.json")) == 0
    assert json.loads((tmp_path / "s.json").read_text()) == json_schema(Tools.installed().kinds())
