"""Run the instructions of documentation pages: save files, run commands in one shell, and compare their output.

Commands are in `console` fences; sentences that match the patterns below describe edits of files. After a change of
the program, `python -m tests.documents PAGE…` updates the outputs on a page.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tests.documents_shell import CommandTimeout, Shell, fresh_environment
from tests.ports import free_port

ROOT = Path(__file__).parents[1]
READER = "/home/you"  # the home folder on the page

# Parts that differ between runs are replaced on both sides of a comparison.
WILDCARDS = {
    "id": re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){1,3}(?:-[0-9a-f]{12})?\b"),
    "instant": re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?"),
    "time": re.compile(r"(?:\b\d+ (?:min|h|d) )?\b\d+(?:\.\d+)? ?(?:ms|s|min|h)\b(?: ago)?|\bjust now\b"),
    "process": re.compile(r"\b(?:process|pid) \d+\b"),
    "port": re.compile(r"(?<=127\.0\.0\.1:)\d+"),
    # A slow call has a fact for its start.
    "facts": re.compile(r"(?<= after event )[\d,]+|\b[\d,]+(?= facts\b)"),
}
LEFT_OUT = "…"  # alone on a line: any lines; inside a line: any text

# Lines that depend on timing: the start of a long step, and messages of the shell about jobs.
FLEETING = re.compile(r"▶ .*|\[\d+\][+-]? .*|\S*(?:bash|sh): line \d+:.*(?:Killed|Terminated|Interrupt).*")

FENCE = re.compile(r"```(?P<language>\w*)\s*$")
COMMAND = "$ "
TAKE = re.compile(r"Take (?P<files>`[^`]+`(?:(?:, | and )`[^`]+`)*) from \[[^\]]+\]\((?P<page>[^)]+)\)")
CHANGE = re.compile(r"Change `(?P<old>[^`]+)` to `(?P<new>[^`]+)` in `(?P<file>[^`]+)`")
SAVE = re.compile(r"Save this as `(?P<file>[^`]+)`:$")
PUT = re.compile(r"In `(?P<file>[^`]+)`, put this (?P<where>before|after) the line `(?P<mark>[^`]+)`:$")
ADD = re.compile(r"Add this to the end of `(?P<file>[^`]+)`:$")
PORT = re.compile(r"127\.0\.0\.1:(\d+)")


class Save(NamedTuple):
    """Save a file with this content."""

    line: int
    file: str
    text: str


class Add(NamedTuple):
    """Append lines to a file."""

    line: int
    file: str
    text: str


class Put(NamedTuple):
    """Insert lines before or after a line that occurs once."""

    line: int
    file: str
    text: str
    mark: str
    where: str


class Change(NamedTuple):
    """Replace a text that occurs once in a file."""

    line: int
    file: str
    old: str
    new: str


class Take(NamedTuple):
    """Take over the files of another page."""

    line: int
    files: tuple[str, ...]
    page: str


class Command(NamedTuple):
    """A command and its output; a background command (`&`) has printed it before the next command starts."""

    line: int
    text: str
    shown: tuple[str, ...]

    @property
    def stays(self) -> bool:
        return self.text.endswith("&") and not self.text.endswith("&&")


class LaterOutput(NamedTuple):
    """More output of a background command: a fence without a command."""

    line: int
    shown: tuple[str, ...]


Edit: TypeAlias = Save | Add | Put | Change | Take
Deed: TypeAlias = Edit | Command | LaterOutput


class Differs(AssertionError):
    """The program does not behave as the page describes."""

    def __init__(self, page: Path, deed: Deed, words: str) -> None:
        super().__init__(f"{page.name}:{deed.line}: {words}")


# Reading


def read(page: Path) -> list[Deed]:
    """The instructions of a page, in order."""
    deeds: list[Deed] = []
    lines = page.read_text("utf-8").splitlines()
    begun = number = 0  # the first line of the paragraph, and the current line
    said = ""
    while number < len(lines):
        fence = FENCE.match(lines[number])
        if fence is not None:
            end = next(at for at in range(number + 1, len(lines)) if lines[at].rstrip() == "```")
            deeds += _fence(fence["language"], said, lines[number + 1 : end], number + 2)
            begun = number = end + 1
            said = ""
            continue
        number += 1
        if number == len(lines) or not lines[number].strip() or FENCE.match(lines[number]):
            if words := " ".join(line.strip() for line in lines[begun:number]).strip():
                said = words
                begun += lines[begun] == ""  # the line between two paragraphs
                deeds += _sentences(words, begun + 1)
            begun = number
    return deeds


def _sentences(words: str, line: int) -> Iterator[Deed]:
    found = sorted([*TAKE.finditer(words), *CHANGE.finditer(words)], key=lambda each: each.start())
    for each in found:
        if each.re is TAKE:
            yield Take(line, tuple(re.findall(r"`([^`]+)`", each["files"])), each["page"])
        else:
            yield Change(line, each["file"], each["old"], each["new"])


def _fence(language: str, said: str, lines: list[str], line: int) -> Iterator[Deed]:
    text = "".join(f"{each}\n" for each in lines)
    if language == "console":
        yield from _console(lines, line)
    elif (save := SAVE.search(said)) is not None:
        yield Save(line, save["file"], text)
    elif (put := PUT.search(said)) is not None:
        yield Put(line, put["file"], text, put["mark"], put["where"])
    elif (add := ADD.search(said)) is not None:
        yield Add(line, add["file"], text)


def _console(lines: list[str], line: int) -> Iterator[Deed]:
    at = [number for number, text in enumerate(lines) if text.startswith(COMMAND)]
    if not at:
        yield LaterOutput(line, tuple(lines))
        return
    for begin, end in zip(at, [*at[1:], len(lines)], strict=True):
        words = [lines[begin].removeprefix(COMMAND)]
        while words[-1].endswith("\\"):
            words.append(lines[begin + len(words)])
        yield Command(line + begin, "\n".join(words), tuple(lines[begin + len(words) : end]))


def files_of(page: Path, deeds: Sequence[Deed] | None = None) -> dict[str, str]:
    """The files that the instructions of a page create, by name."""
    files: dict[str, str] = {}
    for deed in read(page) if deeds is None else deeds:
        match deed:
            case Save(_, file, text):
                files[file] = text
            case Add(_, file, text):
                files[file] += text
            case Put(_, file, text, mark, where):
                lines = files[file].splitlines(keepends=True)
                places = [place for place, line in enumerate(lines) if line.strip() == mark]
                if len(places) != 1:
                    raise Differs(page, deed, f"{mark!r} does not occur in exactly one line of {file}")
                place = places[0] + (where == "after")
                files[file] = "".join([*lines[:place], text, *lines[place:]])
            case Change(_, file, old, new):
                if files.get(file, "").count(old) != 1:
                    raise Differs(page, deed, f"{old!r} does not occur exactly once in {file}")
                files[file] = files[file].replace(old, new)
            case Take(_, names, other):
                others = files_of(page.parent / other)
                files |= {name: others[name] for name in names}
    return files


# Comparing


def plain(text: str) -> str:
    """The text for a comparison: without lines that depend on timing, with placeholders and single spaces."""
    lines = [line.rstrip() for line in text.splitlines() if not FLEETING.fullmatch(line)]
    return "\n".join(_plain_line(line) for line in lines).strip("\n")


def _plain_line(line: str) -> str:
    indent = len(line) - len(line.lstrip())
    words = line.strip()
    for name, pattern in WILDCARDS.items():
        words = pattern.sub(f"<{name}>", words)
    return " " * indent + re.sub(r"\s+", " ", words)


def expected(shown: Sequence[str]) -> re.Pattern[str]:
    """A pattern that matches the output on the page."""
    pattern = ""
    for line in plain("\n".join(shown)).splitlines():
        if line.strip() == LEFT_OUT:
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part.rstrip(" ")) for part in line.split(LEFT_OUT)) + r"\n"
    return re.compile(pattern)


def fits(shown: Sequence[str], got: str) -> bool:
    return expected(shown).fullmatch(plain(got) + "\n" if plain(got) else "") is not None


def begins(shown: Sequence[str], got: str) -> int | None:
    """The number of compared lines if the output begins as on the page; None: it does not, or not yet."""
    found = expected(shown).match(plain(got) + "\n")
    return found[0].count("\n") if found is not None else None


# Doing


class Reader:
    """Runs a page in an empty folder of an empty home, with one shell."""

    def __init__(self, page: Path, place: Path, *, updates: bool = False) -> None:
        self.page = page
        self.updates = updates  # continue after a difference, and record the real output
        self.wrong: list[tuple[Command, str]] = []
        self.home = home = place / "you"
        self.environment = fresh_environment(place / "venv")
        self.folder = home / "tutorial"
        self.folder.mkdir(parents=True)
        self.deeds = read(page)
        self.ports: dict[str, str] = {}
        self.done: list[Deed] = []
        self._behind: dict[int, int] = {}  # background commands → the number of their compared lines
        self.environment |= {"HOME": str(home), "TERM": "dumb", "NO_COLOR": "1"}

    def follow(self) -> None:
        """Run all instructions, up to the first difference."""
        self.shell = Shell(self.folder, self.environment)
        try:
            for deed in self.deeds:
                self._do(deed)
        except CommandTimeout as error:
            words = _difference(deed, self._as_shown(error.got), "the command did not end")
            raise Differs(self.page, deed, words) from None
        finally:
            self.shell.close()

    def _do(self, deed: Deed) -> None:
        self.done.append(deed)
        match deed:
            case Command():
                self._run(deed)
            case LaterOutput():
                self._await(deed)
            case _:
                self._write(deed)

    def _write(self, deed: Edit) -> None:
        """Write a file after an edit. All edits of the page are applied again to its text."""
        changed = deed.files if isinstance(deed, Take) else (deed.file,)
        files = files_of(self.page, self.done)
        for name in changed:
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            self._exchange(files[name])
            file.write_text(self._here(files[name]), "utf-8")

    def _run(self, command: Command) -> None:
        self._exchange(command.text)
        self._exchange("\n".join(command.shown))
        number = self.shell.begin(self._here(command.text))
        if command.stays:
            self._behind[number] = 0
            self._await(command)
            return
        got = self._as_shown(self.shell.end(number))
        if fits(command.shown, got):
            return
        self.wrong.append((command, got))
        if not self.updates:
            raise Differs(self.page, command, _difference(command, got, "another output"))

    def _await(self, deed: Command | LaterOutput) -> None:
        """Wait until the command or a background command has printed the output on the page."""
        numbers = [max(self._behind)] if isinstance(deed, Command) else list(self._behind)

        def printed() -> bool:
            for number in numbers:
                seen = self._behind[number]
                lines = plain(self._as_shown(self.shell.output(number))).splitlines()
                for skipped in [0] if isinstance(deed, Command) else range(len(lines) - seen):
                    more = begins(deed.shown, "\n".join(lines[seen + skipped :]))
                    if more is not None:
                        self._behind[number] = seen + skipped + more
                        return True
            return False

        if not self.shell.until(printed):
            got = "\n".join(self._as_shown(self.shell.output(number)) for number in numbers)
            raise Differs(self.page, deed, _difference(deed, got, "the output did not appear"))

    def _exchange(self, text: str) -> None:
        """Replace the ports of the page, because several pages run at the same time."""
        for port in PORT.findall(text):
            if port not in self.ports:
                self.ports[port] = str(free_port())

    def _here(self, text: str) -> str:
        for shown, real in self.ports.items():
            text = re.sub(rf"\b{shown}\b", real, text)
        return text

    def _as_shown(self, text: str) -> str:
        for shown, real in self.ports.items():
            text = re.sub(rf"\b{real}\b", shown, text)
        return text.replace(str(self.home), READER)


def _difference(deed: Deed, got: str, words: str) -> str:
    shown = deed.shown if isinstance(deed, Command | LaterOutput) else ()
    command = f"\n$ {deed.text}" if isinstance(deed, Command) else ""
    page = "".join(f"\n  {line}" for line in shown) or "\n  nothing"
    real = "".join(f"\n  {line}" for line in got.splitlines()) or "\n  nothing"
    return f"{words}{command}\n— on the page:{page}\n— printed:{real}"


@contextmanager
def reading(page: Path, *, updates: bool = False) -> Iterator[Reader]:
    """A reader in a temporary folder, but not that of pytest, because PostgreSQL may run as another user."""
    with tempfile.TemporaryDirectory(prefix="page", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Reader(page, Path(folder), updates=updates)


def rewrite(page: Path) -> None:
    """Update the outputs on a page."""
    with reading(page, updates=True) as reader:
        reader.follow()
    lines = page.read_text("utf-8").splitlines()
    for command, got in reversed(reader.wrong):
        first = command.line + command.text.count("\n")
        printed = [line.rstrip() for line in got.strip("\n").splitlines() if not FLEETING.fullmatch(line)]
        lines[first : first + len(command.shown)] = printed
        print(f"{page.name}:{command.line}: updated")
    page.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    for given in sys.argv[1:]:
        rewrite(Path(given))
