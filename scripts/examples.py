"""Writes docs/examples and its pictures from the files in examples/; `--check` lists the outdated ones.

The comment at the head of an example is the text of its page: what it shows, how to run it, what it prints.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from noetl.checks.checker import check
from noetl.drawing.chart import chart
from noetl.drawing.svg import svg
from noetl.net.program import Program
from noetl.tool import Tools

ROOT = Path(__file__).parents[1]
FILES = ROOT / "examples"
PAGES = ROOT / "docs/examples"
PICTURES = ROOT / "docs/images/examples"
NOTE = "<!-- Written by scripts/examples.py from the files in examples/; do not edit. -->\n\n"
INTRODUCTION = """\
# Examples

Each example is a file in `examples/`. The tests run the commands of its page and compare the output. Choose
the example that is closest to your task, and adapt it.

Most examples call another system. `python examples/services.py` starts mock services on this machine, each
under its own name at `http://127.0.0.1:8700`. They fail now and then, like real services, and print the
requests they receive. They need only Python. The pages show the last lines of each command's output.
Install an extra from the checkout, for example with `pip install '.[duckdb]'`.

`noetl explain FILE` displays a playbook as a tree, and `noetl show last` displays what an execution did.
`make run` runs one more example, `examples/report.yaml`, with a mock shop API that fails intermittently.
"""


class Example(NamedTuple):
    """A page: its file, its requirements besides NoETL, and the playbooks that it calls."""

    name: str
    needs: str = "`services.py`"
    calls: tuple[str, ...] = ()


EXAMPLES = (
    Example("hello", "nothing"),
    Example("word_count", "nothing"),
    Example("typed_inputs", "nothing"),
    Example("pagination", "`services.py`, PostgreSQL, the extras `postgres` and `duckdb`"),
    Example("choose_and_repeat"),
    Example("nested_loops"),
    Example("fan_out_join"),
    Example("saga"),
    Example("compensation"),
    Example("approval"),
    Example("polling"),
    Example("incremental_sync"),
    Example("transfer", "the extras `objects` and `duckdb`"),
    Example("quantum_sweep", "the extra `quantum`"),
    Example("agent_loop"),
    Example("agent_plan"),
    Example("child_playbooks", "`services.py`, the extra `duckdb`", ("child_playbooks_branch",)),
)


class Text(NamedTuple):
    """A file in two parts: the comment at its head, without the `#` signs, and the playbook."""

    head: str
    playbook: str


class Run(NamedTuple):
    """One command of a head, and its output there."""

    command: str
    printed: str


@cache
def text(name: str) -> Text:
    lines = (FILES / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    end = next(place for place, line in enumerate(lines) if not line.startswith("#"))
    head = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:end])
    return Text(head, "\n".join(lines[end:]))


def runs(name: str) -> list[Run]:
    """The commands of a head in order, without the leading `$`."""
    indented = [line[2:] for line in text(name).head.splitlines() if line.startswith("  ")]
    parts = re.split(r"^\$ ", "\n".join(indented), flags=re.MULTILINE)[1:]
    return [Run(*(part.partition("\n")[place].rstrip("\n") for place in (0, 2))) for part in parts]


@cache
def written() -> dict[Path, str]:
    """All pages and pictures, by file."""
    pages = {PAGES / f"{example.name}.md": page(example) for example in EXAMPLES}
    names = [name for example in EXAMPLES for name in (example.name, *example.calls)]
    pictures = {PICTURES / f"{name}.svg": svg(chart(program(name))) for name in names}
    return pages | {PAGES / "index.md": index()} | pictures


def page(example: Example) -> str:
    parts = [f"# {title(example.name)}", as_markdown(text(example.name).head), *shown(example.name)]
    for name in example.calls:
        parts += [f"## {title(name)}", as_markdown(text(name).head), *shown(name)]
    return NOTE + "\n\n".join(parts) + "\n"


def shown(name: str) -> list[str]:
    """The picture, and the file without its head."""
    return [
        f"![The net of {name}](../images/examples/{name}.svg)",
        f"`examples/{name}.yaml`:",
        f"```yaml\n{text(name).playbook}\n```",
    ]


def index() -> str:
    rows = [
        f"| [{title(each.name)}]({each.name}.md) | {text(each.name).head.splitlines()[0]} | {each.needs} |"
        for each in EXAMPLES
    ]
    table = "\n".join(["| example | description | needs |", "|---|---|---|", *rows])
    return f"{NOTE}{INTRODUCTION}\n{table}\n"


def as_markdown(head: str) -> str:
    """Convert a head to Markdown: indented lines are commands and their output."""
    return re.sub(
        r"(?:^  .*\n?)+",
        lambda found: f"```console\n{re.sub('^  ', '', found[0], flags=re.MULTILINE).rstrip()}\n```\n",
        head,
        flags=re.MULTILINE,
    ).rstrip()


def title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def program(name: str) -> Program:
    file = FILES / f"{name}.yaml"
    found = check(file.read_bytes(), Tools.installed().kinds(), file.name).program
    if found is None:
        raise SystemExit(f"{file} is not a playbook: run noetl check {file}")
    return found


def stale() -> list[str]:
    """The files whose content is outdated, and those that are no longer generated."""
    different = [
        file for file, content in written().items() if not file.exists() or file.read_text(encoding="utf-8") != content
    ]
    there = {file for folder in (PAGES, PICTURES) for file in folder.glob("*.*")}
    return sorted(str(file.relative_to(ROOT)) for file in {*different, *(there - written().keys())})


def main(arguments: list[str]) -> int:
    old = stale()
    if "--check" in arguments:
        for name in old:
            print(f"{name} is out of date: run `python scripts/examples.py`")
        return 1 if old else 0
    for name in old:
        file = ROOT / name
        if file in written():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(written()[file], encoding="utf-8")
            print(f"{name} written")
        else:
            file.unlink()
            print(f"{name} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
