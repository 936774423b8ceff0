"""Find phrases in prose that have a plainer alternative: scripts/wording.toml lists them.

Prose is: comments, docstrings and string literals with a space in Python and TypeScript, JSX text, Markdown
outside of code, comments and descriptions in YAML, comments in shell scripts and Makefiles. Code, names in
backquotes and generated files are not.

    scripts/wording.py [--count] [FILE ...]

Without files it checks all files of the repository. It prints `file:line:column: phrase: alternative` and
exits with 1 when it finds something. With --count it prints one number for each package instead.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import tokenize
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[1]
TABLE: Final = Path(__file__).with_name("wording.toml")

# Files that tools write from other files, and files whose text is data of a test.
SKIPPED: Final = (
    "docs/examples/*.md",
    "docs/reference/[!_]*.md",
    "tests/fixtures/*",
    "tests/replay/*",
    "ui/src/api/schema.ts",
)

Span: TypeAlias = tuple[int, int]  # from, to: offsets in a text


class Allowed(NamedTuple):
    """A phrase that a file may use."""

    file: str  # a path or a glob
    phrase: str  # a key of the table
    reason: str


class Table(NamedTuple):
    pattern: re.Pattern[str]  # all phrases, in a text of lower case: the quickest way
    phrases: dict[str, re.Pattern[str]]
    alternatives: dict[str, str]
    allowed: list[Allowed]


class Finding(NamedTuple):
    file: str
    line: int  # from 1, as is the column
    column: int
    text: str  # as written, on one line
    phrase: str  # the key of the table
    alternative: str

    def __str__(self) -> str:
        return f'{self.file}:{self.line}:{self.column}: "{self.text}": write {self.alternative}'


def table(text: str) -> Table:
    content = tomllib.loads(text)
    phrases: dict[str, str] = content["phrases"]
    spaced = {each: each.replace(" ", r"\s+") for each in phrases}
    # A name in a path or in dotted code is not a word: tests/unit, house.py.
    pattern = re.compile(rf"\b(?<![/.$-])(?:{'|'.join(spaced.values())})\b(?!/|[.-]\w)")
    allowed = [Allowed(**each) for each in content.get("allow", [])]
    return Table(pattern, {key: re.compile(each) for key, each in spaced.items()}, phrases, allowed)


# Comments, strings, and JSX text: that between tags and braces, without signs that only code has.
_SCRIPT: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\n\\]|\\.)*"|'(?:[^'\n\\]|\\.)*'|`(?:[^`\\]|\\.)*`|(?<=[>}])[^<>{}`;=]+(?=[<{])""",
    re.DOTALL,
)
_HASH: Final = re.compile(r"(?m)(?<!\S)#.*$|^\s*-?\s*description:.*$")
_MARKDOWN_CODE: Final = re.compile(
    r"^ *(`{3,})[^\n]*\n.*?^ *\1[^\n]*$|<!--.*?-->|\]\([^)]*\)", re.DOTALL | re.MULTILINE
)
_NOT_PROSE: Final = re.compile(r"`[^`\n]*`|https?://\S+")
_FIELD: Final = re.compile(r"\$?\{[^{}]*\}")
_WORDS: Final = re.compile(r"\w[.,:;!?]?\s+\W?\w")


def of_python(text: str) -> Iterator[Span]:
    """Comments, and string literals with a space; literals side by side are one string."""
    starts = line_starts(text)
    opened: list[int] = []  # where f-strings began: Python 3.12 and later have tokens for their parts
    literal: list[Span] = []
    for kind, _, (line, column), (last, end), _ in tokenize.generate_tokens(io.StringIO(text).readline):
        begin, until = starts[line - 1] + column, starts[last - 1] + end
        name = tokenize.tok_name[kind]
        if name == "FSTRING_START":
            opened.append(begin)
        elif name == "FSTRING_END":
            begin = opened.pop()
        if opened or name in ("NL", "FSTRING_END", "STRING"):
            literal += [(begin, until)] if name in ("FSTRING_END", "STRING") and not opened else []
            continue
        if literal and any(_WORDS.search(text, *each) for each in literal):
            yield from literal
        literal = []
        if name == "COMMENT":
            yield begin, until


def of_script(text: str) -> Iterator[Span]:
    """Comments, string literals with a space, and JSX text."""
    for found in _SCRIPT.finditer(text):
        if found[0][0] not in "\"'`" or _WORDS.search(found[0]):
            yield found.span()


def of_style(text: str) -> Iterator[Span]:
    """Comments."""
    return (found.span() for found in re.finditer(r"/\*.*?\*/", text, re.DOTALL))


def of_markdown(text: str) -> Iterator[Span]:
    """Everything outside of code, comments and the targets of links."""
    begin = 0
    for found in _MARKDOWN_CODE.finditer(text):
        yield begin, found.start()
        begin = found.end()
    yield begin, len(text)


def of_hash_comments(text: str) -> Iterator[Span]:
    """Comments, and the descriptions of playbooks."""
    return (found.span() for found in _HASH.finditer(text))


def reader_of(file: str) -> Callable[[str], Iterable[Span]] | None:
    """How to find the prose of a file; None: the file has none."""
    name = file.rpartition("/")[2]
    if any(fnmatch(file, each) for each in SKIPPED):
        return None
    match name.rpartition(".")[2]:
        case "py":
            return of_python
        case "ts" | "tsx" | "js" | "mjs":
            return of_script
        case "css":
            return of_style
        case "md":
            return of_markdown
        case "yaml" | "yml" | "sh" | "Makefile" | "Dockerfile":
            return of_hash_comments
    return of_hash_comments if file.startswith(("scripts/", ".ci/")) and "." not in name else None


def line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", text))]


def masked(text: str, spans: Iterable[Span], *, fields: bool) -> str:
    """The text with everything but its prose blanked out, so that offsets stay.

    Marks of comments and quotes become spaces: a phrase may go from one line to the next.
    """
    parts, end = [], 0
    for begin, until in spans:
        gap, prose = text[end:begin], text[begin:until]
        parts.append(gap if gap.isspace() else _blank(gap))
        edge = re.match(r"[rbuf]*[\"'`]+|[#/*]+", prose, re.IGNORECASE)
        if edge:
            prose = " " * edge.end() + prose[edge.end() :].rstrip("\"'`*/").ljust(len(prose) - edge.end())
            prose = re.sub(r"(?m)^(\s*)\*", r"\1 ", prose)
        prose = _NOT_PROSE.sub(lambda found: _blank(found[0]), prose)
        if fields:
            prose = _FIELD.sub(lambda found: _blank(found[0]), prose)
        parts.append(prose)
        end = until
    return "".join(parts)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", "\0", text)


def check(file: str, text: str, words: Table) -> Iterator[Finding]:
    """All phrases of the table in the prose of a file; `allow` is not looked at."""
    reader = reader_of(file)
    if reader is None or not words.pattern.search(lower(text)):  # to find the prose takes longer than this
        return
    starts = line_starts(text)
    prose = masked(text, reader(text), fields=reader is not of_markdown)
    for found in words.pattern.finditer(lower(prose)):
        phrase = next(key for key, each in words.phrases.items() if each.fullmatch(found[0]))
        line = bisect_right(starts, found.start())
        shown = " ".join(prose[found.start() : found.end()].split())
        column = found.start() - starts[line - 1] + 1
        yield Finding(file, line, column, shown, phrase, words.alternatives[phrase])


def lower(text: str) -> str:
    """In lower case, with all offsets as before: a few letters of Unicode get longer, so they stay."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(each.lower()[:1] for each in text)


def is_allowed(finding: Finding, allowed: Allowed) -> bool:
    return allowed.phrase == finding.phrase and fnmatch(finding.file, allowed.file)


def repository_files(root: Path) -> list[str]:
    """The files of the repository, without those of .gitignore. It also works in a copy without git."""
    lines = (root / ".gitignore").read_text("utf-8").splitlines()
    ignored = [".git", *(each.rstrip("/") for each in lines if each and not each.startswith("#"))]
    files = []
    for folder, folders, names in os.walk(root):
        place = Path(folder).relative_to(root)

        def kept(name: str, place: Path = place) -> bool:
            path = (place / name).as_posix()
            return not any(fnmatch(name, each) or fnmatch(path, each) for each in ignored)

        folders[:] = filter(kept, folders)
        files += [(place / name).as_posix() for name in names if kept(name)]
    return sorted(files)


def package_of(file: str) -> str:
    """src/noetl/engine/apply.py → src/noetl/engine; docs/guides/ui.md → docs."""
    parts = file.split("/")
    return "/".join(parts[:3] if parts[0] == "src" and len(parts) > 3 else parts[:1])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="print one number for each package")
    parser.add_argument("files", nargs="*", metavar="FILE", help="all files of the repository by default")
    options = parser.parse_args(arguments)
    words = table(TABLE.read_text("utf-8"))
    names = [Path(each).resolve().relative_to(ROOT).as_posix() for each in options.files] or repository_files(ROOT)
    every = [
        finding
        for name in names
        if reader_of(name) is not None
        for finding in check(name, (ROOT / name).read_text("utf-8"), words)
    ]
    findings = [each for each in every if not any(is_allowed(each, one) for one in words.allowed)]
    unused = [each for each in words.allowed if not any(is_allowed(one, each) for one in every)]
    if options.count:
        for package, number in Counter(package_of(each.file) for each in findings).most_common():
            print(f"{number:6} {package}")
        print(f"{len(findings):6} in all")
        return 0
    print(*findings, sep="\n", end="\n" if findings else "")
    if not options.files:
        for allowed in unused:
            print(f'{TABLE.name}: nothing in {allowed.file} still needs "{allowed.phrase}": remove the entry')
    return 1 if findings or (unused and not options.files) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
