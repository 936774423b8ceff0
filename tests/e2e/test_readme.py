"""The README keeps its word: its commands run and print what it shows, and what it tells to make can be made."""

from __future__ import annotations

import re

from tests.documents import reading
from tests.e2e.processes import ROOT

README = ROOT / "README.md"


def test_who_follows_it_in_a_clone_sees_what_it_shows() -> None:
    with reading(README) as reader:
        (reader.folder / "examples").symlink_to(ROOT / "examples")
        reader.follow()


def test_everything_that_it_tells_to_make_is_a_target() -> None:
    shown = re.findall(r"^(?:\$ )?make (?P<target>[a-z]+)", README.read_text("utf-8"), re.MULTILINE)
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert shown
    assert [each for each in shown if each not in targets] == []
