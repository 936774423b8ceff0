"""Every relative link in a Markdown file leads to a file of the repository, and to a heading that exists."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from scripts.reference_prose import slug
from scripts.wording import ROOT, repository_files

FILES = frozenset(repository_files(ROOT))
FOLDERS = frozenset(str(folder) for each in FILES for folder in Path(each).parents)
PAGES = sorted(each for each in FILES if each.endswith(".md") and not each.startswith("tests/fixtures/corpus/"))
CODE = re.compile(r"^ *(`{3,}).*?^ *\1|<!--.*?-->|`[^`\n]*`(?!\])", re.MULTILINE | re.DOTALL)
# [text](target "title"), [text]: target, href="target"
LINK = re.compile(
    r"""\]\(<?(?P<inline>[^)\s>]+)|^\[[^]\n]+\]:\s*(?P<reference>\S+)|\b(?:href|src)="(?P<html>[^"]+)\"""",
    re.MULTILINE,
)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")  # another host, or mail


@cache
def anchors(page: str) -> frozenset[str]:
    """As GitHub makes them: a second heading with the same text gets a number. Only Markdown has anchors."""
    if not page.endswith(".md"):
        return frozenset()
    text = (ROOT / page).read_text("utf-8")
    found = set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", text))
    without_code = re.sub(r"^ *(`{3,}).*?^ *\1", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+?)(?: \{.*\})?$", without_code, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor, count = slug(plain), 0
        while (name := f"{anchor}-{count}" if count else anchor) in found:
            count += 1
        found.add(name)
    return frozenset(found)


def broken(page: str, text: str) -> list[str]:
    """The links of a page that lead nowhere."""
    # The parts of the reference are included in pages one folder up, where their links count.
    folder = Path(page).parent.parent if "/_parts/" in page else Path(page).parent
    wrong = []
    for found in LINK.finditer(CODE.sub("", text)):
        link = unquote(found["inline"] or found["reference"] or found["html"])
        if ELSEWHERE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(folder / path) if path else page
        there = not path.startswith("/") and target in FILES | FOLDERS
        if not there or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    assert broken(page, (ROOT / page).read_text("utf-8")) == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    text = """
    [a](README.md) [b](docs) [c](docs/index.md) [d](https://example.com) [e](mailto:a@example.com) `[f](f.md)`
    [g](missing.md) [h](README.md#no-such-heading) [i](#nor-this) [j](/README.md) ![k](docs/no.png "a title")
    <a href="gone.html">l</a>

[m]: away.md
```
[n](in-code.md)
```
"""
    assert broken("README.md", text) == [
        "missing.md", "README.md#no-such-heading", "#nor-this", "/README.md", "docs/no.png", "gone.html", "away.md",
    ]  # fmt: skip
