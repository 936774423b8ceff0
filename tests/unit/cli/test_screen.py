"""Styled lines on a stream."""

from __future__ import annotations

import io

import pytest

from noetl.cli.output.screen import PLAIN_COLUMNS, Screen
from noetl.views.styled_text import Styled


def test_without_a_terminal_lines_are_plain_and_controls_visible() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.line(Styled("red", "error"), " [bold]no markup[/] \x1b[31m")
    screen.lines([[Styled("a")], []])
    assert (stream.getvalue(), screen.colour, screen.columns) == (
        "red [bold]no markup[/] ␛[31m\na\n\n",
        False,
        PLAIN_COLUMNS,
    )


def test_colours_are_written_when_asked_for_and_text_is_never_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = io.StringIO()
    Screen(stream, colour=True).line(Styled("red", "error"), " [bold]:smile: \x1b[32m")
    assert stream.getvalue() == "\x1b[1;31mred\x1b[0m [bold]:smile: ␛[32m\n"


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    Screen(stream, colour=True).line(Styled("good", "good"))
    assert stream.getvalue() == "good\n"


def test_a_long_line_is_written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    Screen(stream, colour=True).line("word " * 100)
    assert stream.getvalue().count("\n") == 1
