"""The tutorial, word for word: every file is saved, every command runs, and prints what the page shows."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.documents import Differs, fits, read, reading
from tests.e2e.processes import ROOT

PAGES = sorted((ROOT / "docs" / "tutorial").glob("0*.md"))
AWAY = re.compile(r"No matching distribution|NewConnectionError|Temporary failure in name resolution")


def test_there_are_eight_pages_and_the_first_one_names_them_in_order() -> None:
    index = (ROOT / "docs" / "tutorial" / "index.md").read_text("utf-8")
    assert re.findall(r"^\d\. \[[^\]]+\]\(([^)]+)\)", index, re.MULTILINE) == [page.name for page in PAGES]
    assert len(PAGES) == 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_who_follows_the_page_sees_what_it_shows(page: Path) -> None:
    with reading(page) as reader:
        if find_spec("hatchling") and find_spec("editables"):
            # What builds is here; pip reads 0 as: not in a place of its own.
            reader.environment |= {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}
        try:
            reader.follow()
        except Differs as error:
            if "pip install" in str(error) and AWAY.search(str(error)):
                pytest.skip("the registry, from which pip gets hatchling to build the tool, cannot be reached")
            raise


# The reader itself

PAGE = """\
# A page

Save this as `names.txt`:

```text
ada
```

```console
$ cat names.txt
ada
$ mkfifo pipe
$ sh -c 'echo listening; read word < pipe; echo received $word' &
listening
$ echo hello > pipe
```

Then it says:

```console
received hello
```

In `names.txt`, put this before the line `ada`:

```text
abe
```

Change `ada` to `eve` in `names.txt`, and look at http://127.0.0.1:8000:

```console
$ cat names.txt; echo 127.0.0.1:8000
abe
eve
127.0.0.1:8000
```
"""


def test_a_page_is_followed_and_its_first_wrong_line_is_told_with_what_came_instead(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, "utf-8")
    with reading(page) as reader:
        reader.follow()
        assert (reader.folder / "names.txt").read_text() == "abe\neve\n"
        assert reader.ports["8000"] != "8000"
    page.write_text(PAGE.replace("abe\neve\n127", "abe\nada\n127"), "utf-8")
    with reading(page) as reader, pytest.raises(Differs) as error:
        reader.follow()
    told = str(error.value)
    assert told.startswith("page.md:33: another output\n$ cat names.txt")
    assert told.endswith("on the page:\n  abe\n  ada\n  127.0.0.1:8000\n— printed:\n  abe\n  eve\n  127.0.0.1:8000")


def test_an_edit_that_fits_no_place_or_two_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for edit in ("Change `bob` to `eve` in `names.txt`.", "Change `a` to `e` in `names.txt`."):
        page.write_text(f"Save this as `names.txt`:\n\n```text\nada\n```\n\n{edit}\n", "utf-8")
        with (
            reading(page) as reader,
            pytest.raises(Differs, match=r"page\.md:7: .* does not occur exactly once in names.txt"),
        ):
            reader.follow()


@pytest.mark.parametrize(
    ("shown", "printed", "fit"),
    [
        (["ok in 0.30 s  01a1e0ae-7dd8"], "ok in 12.1 s 6baf75df-4594", True),
        (["ok in 0.30 s"], "error in 0.30 s", False),
        (["✓ start  0.04 s"], "▶ start\n✓ start  1 min 3 s\n", True),
        (["a", "…", "d"], "a\nb\nc\nd\n", True),
        (["a", "…", "d"], "a\nb\nc\n", False),
        (["version …, kept"], "version 1.2, kept", True),
        (["  indented"], "indented", False),
        ([], "words", False),
        (["words"], "", False),
    ],
)
def test_only_what_differs_by_its_nature_may_differ(shown: list[str], printed: str, fit: bool) -> None:
    assert fits(shown, printed) is fit


def test_every_page_of_the_tutorial_has_commands_and_no_fence_that_the_reader_does_not_know() -> None:
    for page in PAGES:
        languages = re.findall(r"^```(\w+)", page.read_text("utf-8"), re.MULTILINE)
        assert len(read(page)) >= len(languages)
        assert set(languages) <= {"console", "yaml", "python", "toml"}
        assert 80 <= page.read_text("utf-8").count("\n") <= 240
