"""Any text migrates to a stable text or is refused with places; no comment is lost."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import PlaybookError, Problem
from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.writer import write
from noetl.playbook.migrate import Migration, migrate
from noetl.playbook.write import emit
from tests.properties.documents import canonical
from tests.sizes import examples

ROOT = Path(__file__).parents[2]
OLD = [
    path.read_text("utf-8")
    for path in sorted([*ROOT.glob("tests/fixtures/seeds/*.yaml"), *ROOT.glob("tests/fixtures/migrate/*.before.yaml")])
]
PIECES = [
    "outcome", "args", "vars: 1", "set_ctx: {a: 1}", "set_iter:", "eval:", "- ", ": ", "{", "}", "[", "]",
    '"', "'", "|", ">", "&a ", "*a", "#", "\n", "  ", "else:", "then:", "do: retry", "next: b", "null", "? ",
    'when: "{{ args.x }}"', "!!str ", "---\n", "{{ outcome }}", "\t", "é", "\r\n", 'args: "{{ x }}"', "- *a",
    "spec:", "name: x", "spec: {}", "policy:", "rules: 3", "tool: *a", "set_prev: 1", "next:\n    - x",
    "set_shared: {t: {sum: 1}}", "\u2028",
]  # fmt: skip
BLOCK = re.compile(r":\s*[|>][-+0-9]*\s*(#.*)?$")

Edit = tuple[str, float, int]  # the operation, its position as a fraction of the text, and the piece or the length
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "cut", "drop line", "repeat line", "insert line", "indent"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(0, len(PIECES) - 1),
    ),
    min_size=1,
    max_size=4,
)


def damaged(text: str, edits: list[Edit]) -> str:
    for what, share, number in edits:
        place = int(share * (len(text) + 1))
        lines = text.split("\n")
        line = int(share * len(lines))
        indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
        match what:
            case "insert":
                text = text[:place] + PIECES[number] + text[place:]
                continue
            case "cut":
                text = text[:place] + text[place + number :]
                continue
            case "drop line":
                lines.pop(line)
            case "repeat line":
                lines.insert(number % len(lines), lines[line])
            case "insert line":
                lines.insert(line, indent + PIECES[number])
            case _:
                lines[line] = "  " + lines[line] if number % 2 else lines[line][number % 4 :]
        text = "\n".join(lines)
    return text


def migrated(text: str, *, exact: bool = False, annotate: bool = False) -> Migration | tuple[Problem, ...]:
    """The migration, or the problems that prevent it."""
    try:
        return migrate(text, "t.yaml", exact=exact, annotate=annotate)
    except PlaybookError as error:
        return error.problems


def commented(text: str) -> tuple[str, list[str]]:
    """The text with a comment above and behind every line that may have one."""
    lines: list[str] = []
    words: list[str] = []
    inside: int | None = None
    for number, line in enumerate(text.split("\n")):
        indent = len(line) - len(line.lstrip())
        if inside is not None and (not line.strip() or indent > inside):
            lines.append(line)
            continue
        inside = indent if BLOCK.search(line) else None
        if line.strip() and not line.lstrip().startswith("#"):
            words += [f"# above {number}.", f"# behind {number}."]
            lines += [" " * indent + words[-2], f"{line}   {words[-1]}"]
        else:
            lines.append(line)
    return "\n".join(lines), words


@given(st.sampled_from(OLD), EDITS, st.booleans(), st.booleans())
@settings(max_examples=examples(600), deadline=None)
def test_a_damaged_text_migrates_to_a_stable_text_or_is_refused_with_places(
    text: str, edits: list[Edit], exact: bool, annotate: bool
) -> None:
    migration = migrated(damaged(text, edits), exact=exact, annotate=annotate)
    if isinstance(migration, Migration):
        assert migrate(migration.text, exact=exact, annotate=annotate).text == migration.text
    else:
        assert migration
        assert all(problem.at.file == "t.yaml" and problem.at.line >= 1 for problem in migration)


@given(st.sampled_from(OLD), EDITS)
@settings(max_examples=examples(300), deadline=None)
def test_a_text_that_can_be_parsed_can_be_written_back(text: str, edits: list[Edit]) -> None:
    migration = migrated(damaged(text, edits))
    if isinstance(migration, Migration) and migration.changed:
        layout = read(migration.text.replace("\r\n", "\n"), "t.yaml")
        assert layout is not None
        assert write(layout) == migration.text.replace("\r\n", "\n")


@given(st.sampled_from(OLD))
@settings(max_examples=examples(60), deadline=None)
def test_a_migration_keeps_every_comment(text: str) -> None:
    before, words = commented(text)
    after = migrate(before).text
    assert [word for word in words if after.count(word) != 1] == []


@given(canonical())
@settings(max_examples=examples(100), deadline=None)
def test_a_migration_does_not_change_a_canonical_playbook(made: dict[str, object]) -> None:
    text = emit(made)
    assert migrate(text, annotate=True, exact=True) == Migration(text, "canonical", (), False)


@given(st.text(max_size=200))
@settings(max_examples=examples(200), deadline=None)
def test_any_text_is_migrated_or_refused(text: str) -> None:
    assert migrated(text)
