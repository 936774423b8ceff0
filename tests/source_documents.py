"""The code blocks of the five source documents, and the playbooks in tests/fixtures/seeds that contain them.

Two of the documents have fenced blocks. The other three lost fences and indentation: there, a block is a run of lines that
look like YAML, JSON or a call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SEEDS = Path(__file__).parent / "fixtures" / "seeds"
DOCUMENTS = sorted((SEEDS / "documents").glob("*.txt"))

_HEADING = re.compile(r"^(?:#+ )?(?P<section>\d+(?:\.\w+)*|Appendix \w)[.)]? \S")
_CODE = re.compile(
    r"""^(?:-\ )?(?:
        [a-z_][\w.]*:(?:\s.*)?      # a key of YAML, with or without its value
        | \#\s.*                    # a comment
        | "\w+":.*                  # a key of JSON
        | \.\.\.\s\#.*
        | [{}]
    )$""",
    re.VERBOSE,
)
_PLACEHOLDER = re.compile(r"\[?\.\.\.(?:[a-z ]+\.\.\.)?\]?|<[^>\n]+>")
_ALTERNATIVES = re.compile(r"^((?:- )?\w+: )(\w+(?: ?\| ?\w+)+)(?= |$)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block: `name` is the document and the section, with a number from the second block of a section on."""

    name: str
    text: str

    def __str__(self) -> str:
        return self.name


@cache
def blocks() -> tuple[Block, ...]:
    return tuple(block for document in DOCUMENTS for block in _blocks_of(document))


def sections(document: str) -> list[str]:
    """The numbers of all headings of a document, without those in code."""
    text = (SEEDS / "documents" / f"{document}.txt").read_text("utf-8")
    lines = "".join(text.split("```")[::2]).splitlines()
    return list(dict.fromkeys(found["section"] for line in lines if (found := _HEADING.match(line))))


def stands_in(block: Block, playbook: str, added: tuple[str, ...] = ()) -> bool:
    """Whether a playbook contains the block word for word: placeholders have values, one of the alternatives is there."""
    lines = [line for line in _lines(playbook) if line not in added]
    return re.search(_pattern(block.text), "\n".join(lines), re.DOTALL) is not None


def _blocks_of(document: Path) -> Iterator[Block]:
    seen: Counter[str] = Counter()
    text = document.read_text("utf-8")
    for section, lines in _fenced(text) if "```" in text else _flat(text):
        name = f"{document.stem} §{section}"
        seen[name] += 1
        yield Block(name if seen[name] == 1 else f"{name}/{seen[name]}", "\n".join(lines))


def _fenced(text: str) -> Iterator[tuple[str, list[str]]]:
    section = ""
    outside, *parts = text.split("```")
    for inside, after in zip(parts[::2], parts[1::2], strict=True):
        section = _last_section(outside) or section
        yield section, inside.splitlines()[1:]  # without the name of its language
        outside = after


def _last_section(text: str) -> str | None:
    found = [heading["section"] for line in text.splitlines() if (heading := _HEADING.match(line))]
    return found[-1] if found else None


def _flat(text: str) -> Iterator[tuple[str, list[str]]]:
    section, in_call = "", False
    block: list[str] = []
    for line in [*text.splitlines(), "The end"]:
        if in_call or line.endswith(" = merge(") or _CODE.match(line):
            block.append(line)
            in_call = (in_call or line.endswith("(")) and line != ")"
        elif line or not block:
            if len(block) > 1:  # one line is a heading or a part of a sentence
                yield section, block
            block = []
            if found := _HEADING.match(line):
                section = found["section"]


def _lines(text: str) -> list[str]:
    """The lines without indentation, because three documents lost it, and without the columns of comments."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _pattern(block: str) -> str:
    text = "\n".join(_lines(block))
    parts, last = [], 0
    for found in sorted([*_PLACEHOLDER.finditer(text), *_ALTERNATIVES.finditer(text)], key=lambda each: each.start()):
        if found.start() < last:
            continue
        parts.append(re.escape(text[last : found.start()]))
        if found.re is _PLACEHOLDER:
            parts.append(".+?")
        else:
            words = "|".join(map(re.escape, re.split(r" ?\| ?", found[2])))
            parts.append(f"{re.escape(found[1])}(?:{words})")
        last = found.end()
    return "".join([*parts, re.escape(text[last:])])
