"""`noetl check` for CI systems: annotations, SARIF and JUnit, also for hostile texts."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from noetl.cli.output.reports import github, junit, sarif
from noetl.errors import Mark, Problem, Related
from tests.unit.cli.invoke import noetl
from tests.unit.cli.test_check import CLEAN, ERROR, WARNING

HOSTILE = "a%b\r\n::error file=x::forged]]><x>\x00\x1b\ud800&\"'"
PROBLEM = Problem(
    "unknown-step", "error", HOSTILE, Mark("a,b:c%.yaml", 4, 7), HOSTILE, (Related(Mark("b.yaml", 1, 2), HOSTILE),)
)


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.yaml").write_text(CLEAN)
    (tmp_path / "error.yaml").write_text(ERROR)
    (tmp_path / "warning.yaml").write_text(WARNING)


@pytest.mark.usefixtures("_folder")
def test_github_gets_a_command_for_each_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetl("check", "clean.yaml", "error.yaml", "warning.yaml", "--format", "github") == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("::error file=error.yaml,line=5,col=38,title=unknown-step::")
    assert "%0Afix: " in lines[0]
    assert any(line.startswith("::warning file=warning.yaml,") for line in lines)
    assert noetl("check", "clean.yaml", "--format", "github") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("_folder")
def test_sarif_has_rules_and_results_with_positions(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetl("check", "clean.yaml", "error.yaml", "--format", "sarif") == 2
    document = json.loads(capsys.readouterr().out)
    [run] = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    first = run["results"][0]
    assert document["version"] == "2.1.0"
    assert (first["ruleId"], rules[first["ruleIndex"]], first["level"]) == ("unknown-step", "unknown-step", "error")
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "error.yaml"},
        "region": {"startLine": 5, "startColumn": 38},
    }


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(("options", "failed"), [([], ["error.yaml"]), (["--strict"], ["error.yaml", "warning.yaml"])])
def test_junit_has_a_test_case_for_each_playbook(
    options: list[str], failed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert noetl("check", "clean.yaml", "error.yaml", "warning.yaml", "--format", "junit", *options) == 2
    suites = Xml.fromstring(capsys.readouterr().out)
    cases = suites.findall("testsuite/testcase")
    assert [case.get("name") for case in cases] == ["clean.yaml", "error.yaml", "warning.yaml"]
    assert [case.get("name") for case in cases if case.find("failure") is not None] == failed
    assert suites.get("failures") == str(len(failed))


def test_a_hostile_text_forges_nothing() -> None:
    assert len(github([PROBLEM]).splitlines()) == 1
    assert "file=a%2Cb%3Ac%25.yaml" in github([PROBLEM])
    [result] = json.loads(sarif([PROBLEM]))["runs"][0]["results"]
    assert result["message"]["text"].startswith(HOSTILE)
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "a%2Cb%3Ac%25.yaml"}
    failure = Xml.fromstring(junit([(HOSTILE, [PROBLEM])], frozenset({"error"}))).find("testsuite/testcase/failure")
    assert failure is not None
    assert "forged]]><x>" in (failure.text or "")
