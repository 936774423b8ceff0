"""The modules beside a playbook file that go to a server with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.playbook.libs import LIBS_MAX
from noetl.playbook.source import TEXT_BYTES_MAX, parse, plain
from noetl.session.errors import UsageError
from noetl.session.libs import TextWithLibs, text_with_libs
from tests.playbooks import HEAD


def collected(folder: Path, code: str = "", script: str = "", files: dict[str, str] | None = None) -> TextWithLibs:
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    tool = f"{{kind: python, script: {script}}}" if script else f'{{kind: python, code: "{code}"}}'
    text = f"{HEAD}workflow:\n- {{step: start, tool: {tool}}}\n"
    return text_with_libs(parse(text, "t.yaml").document, str(folder / "t.yaml"))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import a", ["a.py", "b.py"]),  # and what it imports
        ("from a import x", ["a.py", "b.py"]),
        ("def main():\\n    import other", ["other.py"]),
        ("import pkg", ["pkg/__init__.py", "pkg/deep/one.py", "pkg/two.py"]),  # by relative imports
        ("from pkg.deep import one", ["pkg/__init__.py", "pkg/deep/one.py", "pkg/two.py"]),
        ("from plain import one", ["plain/one.py"]),  # a package without __init__.py
        ("import plain", []),
        ("import json, re, msgspec, nowhere", []),  # a json.py is beside the playbook, too
        ("import (", []),
    ],
)
def test_modules_that_the_code_imports_are_added(tmp_path: Path, code: str, expected: list[str]) -> None:
    files = {
        "a.py": "import b\nx = 1\n",
        "b.py": "import a\n",
        "json.py": "",
        "other.py": "",
        "pkg/__init__.py": "from . import two\n",
        "pkg/two.py": "from .deep import one\n",
        "pkg/deep/one.py": "",
        "pkg/unused.py": "",
        "plain/one.py": "",
    }
    found = collected(tmp_path, code, files=files)
    assert list(found.libs) == expected
    libs = plain(parse(found.text).document.root).get("libs", {})
    assert libs == {name: files[name] for name in expected}


def test_a_script_is_added_with_the_modules_beside_it(tmp_path: Path) -> None:
    files = {"jobs/load.py": "import common, top\n", "jobs/common.py": "", "common.py": "", "top.py": ""}
    found = collected(tmp_path, script="jobs/load.py", files=files).libs
    assert found == ("common.py", "jobs/common.py", "jobs/load.py", "top.py")  # the code finds that beside the script
    assert collected(tmp_path, script=str(tmp_path / "jobs/load.py")).libs == ()  # it is on the worker
    assert collected(tmp_path, script="../load.py").libs == ()


def test_a_text_with_its_own_modules_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    text = f"{HEAD}workflow:\n- {{step: start, tool: {{kind: python, code: import a}}}}\nlibs: {{}}\n"
    assert text_with_libs(parse(text, "t.yaml").document, str(tmp_path / "t.yaml")) == TextWithLibs(text)


def test_modules_that_cannot_be_sent_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"# \xfc\n")
    with pytest.raises(UsageError, match="is not encoded in UTF-8"):
        collected(tmp_path, "import latin")
    with pytest.raises(UsageError, match=r"limit TEXT_BYTES_MAX: 1,048,576\); put them into a package"):
        collected(tmp_path, "import large", files={"large.py": "#" * TEXT_BYTES_MAX})
    many = {f"many{n}.py": f"import many{n + 1}\n" for n in range(LIBS_MAX + 1)}
    with pytest.raises(UsageError, match=f"more than {LIBS_MAX} modules"):
        collected(tmp_path, "import many0", files=many)
