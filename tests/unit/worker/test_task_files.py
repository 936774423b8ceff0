"""The files that are a part of a task's code: found in its text, and read again only when they have changed."""

from __future__ import annotations

import os
from pathlib import Path

from noetl.checks.checker import check
from noetl.net.program import CompiledTask, UsedFiles
from noetl.tool import Tools
from noetl.tools.python.modules import modules_beside
from noetl.tools.python.tool import PythonTool
from noetl.tools.shell.tool import ShellTool
from noetl.worker.task_files import LISTED_MAX, TaskFiles
from tests.playbooks import HEAD


def names(folder: Path, code: str, file: Path | None = None) -> tuple[list[str], bool]:
    found = modules_beside(code, file, [folder])
    return sorted(str(path.relative_to(folder)) for path in found.paths if path.exists()), found.complete


def make(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_modules_are_found_through_modules(tmp_path: Path) -> None:
    make(tmp_path, rates="import units", units="", other="", shop__prices="from . import tax\nfrom .sums import add",
         shop__tax="", shop__sums="", shop__unused="")  # fmt: skip
    assert names(tmp_path, "import rates, json") == (["rates.py", "units.py"], True)
    assert names(tmp_path, "def main():\n    from shop import prices") == (
        ["shop/prices.py", "shop/sums.py", "shop/tax.py"], True,
    )  # fmt: skip
    assert names(tmp_path, "from units import *") == (["units.py"], True)


def test_the_standard_library_takes_precedence(tmp_path: Path) -> None:
    make(tmp_path, json="", csv="")
    assert names(tmp_path, "import json\nfrom csv import reader") == ([], True)


def test_modules_that_import_each_other_are_found_once(tmp_path: Path) -> None:
    make(tmp_path, a="import b", b="import a")
    assert names(tmp_path, "import a") == (["a.py", "b.py"], True)


def test_code_that_may_read_other_files_is_not_complete(tmp_path: Path) -> None:
    make(tmp_path, loads="from pathlib import Path\nPath('x').read_text()")
    for code in (
        "open('x')",
        "import importlib",
        "__import__(name)",
        "import loads",
        "from subprocess import run",
        "(",
    ):
        assert not names(tmp_path, code)[1], code


def test_a_module_that_does_not_exist_yet_counts_when_it_is_made(tmp_path: Path) -> None:
    used, task = TaskFiles(Tools.installed()), compiled("{kind: python, code: import rates}")
    assert used(task, str(tmp_path)) == UsedFiles({}, complete=True)
    make(tmp_path, rates="")
    assert list(used(task, str(tmp_path)).digests) == ["rates.py"]


def compiled(tool: str) -> CompiledTask:
    checked = check(f"{HEAD}workflow:\n- step: start\n  tool: {tool}\n", Tools.installed().kinds(), "p.yaml")
    assert checked.program is not None, checked.problems
    return checked.program.steps["start"].pipeline.tasks[0]


def test_digests_follow_the_content(tmp_path: Path) -> None:
    used, task = TaskFiles(Tools.installed()), compiled("{kind: python, script: calc.py}")
    make(tmp_path, calc="import rates", rates="RATE = 1")
    first = used(task, str(tmp_path))
    assert (sorted(first.digests), first.complete) == (["calc.py", "rates.py"], True)
    assert used(task, str(tmp_path)) is first  # nothing is read again
    make(tmp_path, rates="RATE = 2")
    second = used(task, str(tmp_path))
    assert second.digests["calc.py"] == first.digests["calc.py"]
    assert second.digests["rates.py"] != first.digests["rates.py"]
    make(tmp_path, rates="RATE = 1")
    os.utime(tmp_path / "rates.py", ns=(5, 5))
    assert used(task, str(tmp_path)).digests == first.digests


def test_many_files_share_one_digest(tmp_path: Path) -> None:
    make(tmp_path, **{f"m{number}": "" for number in range(LISTED_MAX + 1)})
    task = compiled(f"{{kind: python, code: 'import {', '.join(f'm{each}' for each in range(LISTED_MAX + 1))}'}}")
    assert list(TaskFiles(Tools.installed())(task, str(tmp_path)).digests) == ["21 files"]


def test_without_a_folder_nothing_is_read() -> None:
    assert PythonTool.code_files({"code": "import rates"}, None).complete
    assert not PythonTool.code_files({"script": "/opt/calc.py"}, None).complete
    assert not ShellTool.code_files({"argv": ["./convert"]}, None).complete
    task = compiled("{kind: python, script: /etc/hostname}")
    assert TaskFiles(Tools.installed())(task, None) == UsedFiles({}, complete=False)


def test_shell_commands_name_programs_and_scripts(tmp_path: Path) -> None:
    def found(**fields: object) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in ShellTool.code_files(fields, str(tmp_path)).paths]

    assert found(argv=["psql", "-f", "load.sql", "rows.csv"]) == ["load.sql"]
    assert found(sh="./convert rows.csv | sh 'more.sh' >out.csv; sh {{ ctx.script }}") == ["convert", "more.sh"]
    assert found(sh="sh load.sh", cwd="scripts") == ["scripts/load.sh"]
    assert found(argv=["/bin/x.sh", "{{ a }}.sh"]) == []


def test_other_tools_have_no_files() -> None:
    assert TaskFiles(Tools.installed())(compiled("{kind: noop}"), "/nowhere") == UsedFiles()
