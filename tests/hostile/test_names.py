"""Names, archives and patterns from untrusted sources (test 23): no file outside of a root changes, nothing takes long."""

from __future__ import annotations

import asyncio
import hashlib
import re
from pathlib import Path
from time import process_time

import pytest

from noetl.adapters.files import FileResults
from noetl.errors import Damaged, NotFound, Rejected
from noetl.template.limits import Meter
from noetl.template.regex import Pattern
from noetl.template.values import TemplateError

SOURCE = Path(__file__).parents[2] / "src" / "noetl"
UP = (
    "..",
    "../..",
    "../../..",
    "..\\..",
    "%2e%2e",
    "%2e%2e%2f",
    "..%2f",
    "..%c0%af",
    "․․",
    "‥",
    "．．",
    "..;",
    "....//",
)
ENDS = ("", "/secret", "/secret\0", "/secret ", "/./secret")
NAMES = [
    *(up + end for up in UP[:9] for end in ENDS),
    *("/etc/passwd", "//etc/passwd", "C:\\secret", "\\\\host\\share", "~/secret", "~root", "file:///etc/passwd"),
    *("", ".", "./", "/", "a/../..", "a//b", "a/./b", "e\0", "\0", "e\n", "e\r\n", "e/..", "-rf", "CON", "E "),
    *("e" * 65, "e" * 5_000, "é", "e\u202e", "\ud800", "$HOME", "$(id)", "`id`", "{{ 7 * 7 }}", "*", "?"),
]  # fmt: skip
EVIL = (
    "(a+)+$", "(a*)*$", "(a|aa)+$", "(a|a)*$", "(.*)*x", "(.*a){20}$", "([a-zA-Z]+)*$", "^(([a-z])+.)+[A-Z]$",
    "(x+x+)+y", "(a?){30}a{30}", "((a+)*b)*c", "(\\w+\\s?)*$", "^(\\d+)*$", "(a|b|ab)*c", "(?:a*)*b", "(a{1,30}){1,30}$",
    ".*.*.*.*=.*", "(\\s*\\S*)*$", "^(?:.?){60}x", "(?i)(k|K|\u212a)+$", "(?s)(.|\n)*$",
)  # fmt: skip


def fingerprint(folder: Path, root: Path) -> str:
    """A digest of all files in the folder that are not below the root."""
    seen = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_relative_to(root):
            continue
        body = path.read_bytes() if path.is_file() else b"folder"
        seen.update(f"{path.relative_to(folder)} {path.stat().st_mode}".encode() + body)
    return seen.hexdigest()


@pytest.fixture
def around(tmp_path: Path) -> Path:
    """A folder with a secret, and a folder for results inside of it."""
    for place in (tmp_path, tmp_path / "beside"):
        place.mkdir(exist_ok=True)
        (place / "secret").write_bytes(b"keep out")
    return tmp_path


def test_there_are_sixty_names_and_twenty_patterns() -> None:
    assert len(set(NAMES)) >= 60
    assert len(set(EVIL)) >= 20


def test_no_name_escapes_from_the_folder_of_results(around: Path) -> None:
    root = around / "beside" / "results"

    async def work() -> int:
        results, refused = FileResults(root), 0
        ref = await results.put("e", b"body", "text/plain")
        before = fingerprint(around, root)
        for name in NAMES:
            try:
                await results.put(name, b"let me in", "text/plain")
            except Rejected:
                refused += 1
            for key in (name, f"e/{name}", f"{name}/{hashlib.sha256(b'keep out').hexdigest()}"):
                with pytest.raises((NotFound, Damaged)):
                    await results.get({**ref, "locator": {"key": key}})
        assert fingerprint(around, root) == before
        assert await results.get(ref) == b"body"
        return refused

    # `CON` and similar names are ordinary here.
    assert asyncio.run(work()) >= 60


def test_no_archive_is_unpacked_anywhere() -> None:
    """No code unpacks archives, so that none can write outside of its root. New code needs new tests here."""
    unpacks = re.compile(r"\b(?:zipfile|tarfile|unpack_archive|py7zr|rarfile)\b")
    assert [file for file in SOURCE.rglob("*.py") if unpacks.search(file.read_text("utf-8"))] == []


@pytest.mark.parametrize("pattern", EVIL)
def test_an_untrusted_pattern_takes_no_time(pattern: str) -> None:
    """The promise is 100 ms; the limit is ten times that, for a busy machine. Other regex engines take hours."""
    texts = ["a" * 5_000 + "!", "x" * 5_000, "a b " * 1_500 + "\t", "1" * 5_000 + "z", "=" * 5_000]
    began = process_time()
    for text in texts:
        try:
            Pattern(pattern).search(Meter(), text)
        except TemplateError:
            continue  # rejected as too large or too expensive before it runs
    assert process_time() - began < 1.0
