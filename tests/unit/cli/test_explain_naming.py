"""Files and executions on the command line."""

from __future__ import annotations

from pathlib import Path

from noetl.cli.commands.explain import names_execution


def test_an_id_that_is_no_file_is_an_execution(tmp_path: Path) -> None:
    file = tmp_path / "0199b3c2"
    file.touch()
    given = [
        "last",
        "0199b3c2-0000-7000-8000-000000000001",
        "0199b3c2",
        str(file),
        "-",
        "hello.yaml",
        "nobody",
    ]
    assert [names_execution(each, None) for each in given] == [True, True, True, False, False, False, False]


def test_with_a_step_it_is_always_an_execution() -> None:
    assert names_execution("hello.yaml", "start")
