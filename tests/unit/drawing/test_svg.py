"""The SVG: valid, standalone, escaped, with everything in it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from noetl.checks.checker import check
from noetl.drawing.chart import Box, Chart, ChartLine, chart
from noetl.drawing.svg import BOXES_MAX, DrawingTooLarge, svg
from tests.playbooks import kinds

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
SVG = "{http://www.w3.org/2000/svg}"


def drawn(file: Path) -> str:
    program = check(file.read_bytes(), kinds(), file.name).program
    assert program is not None
    return svg(chart(program))


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_becomes_well_formed_svg_with_every_step_in_it(file: Path) -> None:
    program = check(file.read_bytes(), kinds(), file.name).program
    assert program is not None
    assert set(program.steps) <= set(texts(drawn(file)))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_everything_is_inside_the_picture(file: Path) -> None:
    root = ElementTree.fromstring(drawn(file))
    _, _, wide, high = map(float, root.attrib["viewBox"].split())
    group = root.find(f"{SVG}g")
    assert group is not None
    dx, dy = map(float, re.findall(r"-?[\d.]+", group.attrib["transform"]))
    for rect in group.iter(f"{SVG}rect"):
        x, y = float(rect.attrib["x"]) + dx, float(rect.attrib["y"]) + dy
        assert 0 <= x <= x + float(rect.attrib["width"]) <= wide
        assert 0 <= y <= y + float(rect.attrib["height"]) <= high


def test_a_picture_needs_nothing_from_outside_and_knows_light_and_dark() -> None:
    picture = drawn(EXAMPLES[0])
    assert re.findall(r"(?:href|src|@import|url\((?!#))", picture) == []
    assert "prefers-color-scheme:dark" in picture


def test_failure_lines_look_different_and_guards_are_short_with_all_of_it_in_the_title() -> None:
    guard = "ctx.a_rather_long_name == 'and a rather long value' and ctx.more"
    picture = svg(
        Chart(
            "t",
            None,
            (Box("entry"), Box("step", "a"), Box("step", "b")),
            (
                ChartLine(0, 1),
                ChartLine(1, 2, guard),
                ChartLine(1, 2, "event.name == 'step.failed'", "failure"),
            ),
        )
    )
    paths = [each for each in ElementTree.fromstring(picture).iter(f"{SVG}path") if "marker-end" in each.attrib]
    assert [(each.attrib["class"], each.attrib["marker-end"]) for each in paths] == [
        ("line", "url(#tip)"),
        ("line", "url(#tip)"),
        ("line failure", "url(#failure-tip)"),
    ]
    assert [each.findtext(f"{SVG}title") for each in paths] == [None, guard, "event.name == 'step.failed'"]
    assert texts(picture) == ["t", "ctx.a_rather_long_name == 'and a…", "failed", "a", "b"]


def test_badges_show_loops_joins_forks_and_admission() -> None:
    box = Box("step", "s", kinds=("http", "noop"), loop="↻ n ×3", join=True, fork=True, gate=True)
    assert texts(svg(Chart("t", "Does things", (box,), ()))) == [
        "t",
        "Does things",
        "s",
        "http · noop",
        "↻ n ×3",
        "◇ admission",
        "⋈ joins all",
        "⇉ forks",
    ]


def test_text_of_the_author_stays_text() -> None:
    evil = '</text><script>alert("1")</script>\x00\x1b\ud800&amp;'
    picture = svg(Chart(evil, evil, (Box("step", evil, desc=evil, kinds=(evil,)),), ()))
    shown = evil.replace("\x00", "␀").replace("\x1b", "␛").replace("\ud800", "\\ud800")
    root = ElementTree.fromstring(picture)
    assert root.findtext(f"{SVG}title") == shown
    assert [each.tag for each in root.iter() if "script" in each.tag] == []


def test_lines_that_lead_back_and_an_empty_chart_are_drawn() -> None:
    boxes = (Box("step", "a"), Box("step", "b"))
    lines = (ChartLine(0, 1), ChartLine(1, 0, "again", back=True), ChartLine(1, 1, "self", back=True))
    assert texts(svg(Chart("t", None, boxes, lines))) == ["t", "again", "self", "a", "b"]
    assert texts(svg(Chart("t", None, (), ()))) == ["t"]


def test_more_than_anybody_can_look_at_is_refused() -> None:
    with pytest.raises(DrawingTooLarge, match="2,001 boxes, 0 lines"):
        svg(Chart("t", None, (Box("step", "s"),) * (BOXES_MAX + 1), ()))
