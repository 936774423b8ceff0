"""scripts/wording.py finds banned phrases in prose, at the right place, and leaves code alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.wording import (
    TABLE,
    Allowed,
    check,
    is_allowed,
    main,
    package_of,
    reader_of,
    repository_files,
    table,
)

WORDS = table(
    """
    [phrases]
    'grey box' = 'gray box'
    'box(?:es)?' = 'container'

    [[allow]]
    file = "docs/*.md"
    phrase = "box(?:es)?"
    reason = "the name of a product"
    """
)


def found(file: str, text: str) -> list[tuple[int, int, str]]:
    return [(each.line, each.column, each.text) for each in check(file, text, WORDS)]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('"""The box."""\n', [(1, 8, "box")]),
        ("x = 1  # Two boxes.\n", [(1, 14, "boxes")]),
        ("x = 1  # A Grey\n    # box.\n", [(1, 12, "Grey box")]),
        ("f('in the box')\n", [(1, 11, "box")]),
        ("f('in the grey '\n  'box')\n", [(1, 11, "grey box")]),
        ("f(f'the {name} of the box')\n", [(1, 23, "box")]),
        ("f(f'the {box.name} is {other}')\n", []),
        ("f(f'the {f(\"a\")} ' f'box')\n", [(1, 22, "box")]),
        ("f('box')\n", []),
        ("box = boxes\n", []),
        ('"""See `box` and tests/box, box.py, the_box, box-office."""\n', []),
        ("x = 'an İ in the box'\n", [(1, 18, "box")]),
    ],
)
def test_python_prose_is_comments_and_strings_with_a_space(text: str, places: list[tuple[int, int, str]]) -> None:
    assert found("src/noetl/some.py", text) == places


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("// The box.\nconst box = 1;\n", [(1, 8, "box")]),
        ("/* The grey\n * box. */\n", [(1, 8, "grey box")]),
        ('const a = "in the box";\n', [(1, 19, "box")]),
        ('import { a } from "./box";\n', []),
        ("const a = `in ${box.name} of a box`;\n", [(1, 32, "box")]),
        ("<p>\n  A grey\n  box\n</p>\n", [(2, 5, "grey box")]),
        ("<p>{name} has a box</p>\n", [(1, 17, "box")]),
    ],
)
def test_script_prose_is_comments_strings_and_jsx_text(text: str, places: list[tuple[int, int, str]]) -> None:
    assert found("ui/src/app/Some.tsx", text) == places


def test_markdown_prose_is_outside_of_code() -> None:
    text = "# A box\n\n`box`, [a text](box.md#box) and\n\n```yaml\nbox: box\n```\n\nthe last grey\nbox\n"
    assert found("docs/some.md", text) == [(1, 5, "box"), (9, 10, "grey box")]


def test_yaml_prose_is_comments_and_descriptions() -> None:
    text = "box: a box # A box.\nmetadata:\n  description: Fills a box\n"
    assert found("examples/some.yaml", text) == [(1, 16, "box"), (3, 24, "box")]


def test_generated_files_and_fixtures_are_skipped() -> None:
    names = [
        "docs/reference/cli.md",
        "docs/examples/hello.md",
        "tests/fixtures/a/b.md",
        "ui/src/api/schema.ts",
    ]
    assert [reader_of(each) for each in [*names, "uv.lock", "docs/a.png"]] == [None] * 6
    assert reader_of("docs/reference/_parts/events.md") is not None


def test_a_phrase_is_allowed_for_a_file_and_no_other() -> None:
    [finding] = check("docs/some.md", "a box", WORDS)
    assert WORDS.allowed == [Allowed("docs/*.md", "box(?:es)?", "the name of a product")]
    assert is_allowed(finding, WORDS.allowed[0])
    assert not is_allowed(finding._replace(file="README.md"), WORDS.allowed[0])


def test_a_finding_names_the_place_the_phrase_and_the_alternative() -> None:
    [finding] = check("docs/some.md", "one\ntwo Boxes", WORDS)
    assert str(finding) == 'docs/some.md:2:5: "Boxes": write container'


def test_findings_are_counted_by_package() -> None:
    files = ["src/noetl/engine/facts.py", "src/noetl/clock.py", "docs/guides/ui.md", "README.md"]
    assert [package_of(each) for each in files] == ["src/noetl/engine", "src", "docs", "README.md"]


def test_the_table_is_well_formed_and_each_exception_has_a_reason() -> None:
    words = table(TABLE.read_text("utf-8"))
    assert [key for key, each in words.phrases.items() if each.groups] == []
    assert [key for key in words.phrases if not re.search(r"[a-z]", words.alternatives[key])] == []
    assert [each for each in words.allowed if each.phrase not in words.phrases or not each.reason] == []


def test_the_files_of_the_repository_are_those_that_git_does_not_ignore(tmp_path: Path) -> None:
    for name in (".git/config", "a/out/b.md", "a/c.md", "out/d.md", "e.log", "f/g/h.md", "f/i.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("out/\n*.log\nf/g/\n")
    assert repository_files(tmp_path) == [".gitignore", "a/c.md", "f/i.md"]


def test_a_file_without_a_banned_phrase_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(Path(__file__).parents[2] / "LICENSE"), __file__]) == 0
    assert capsys.readouterr().out == ""
