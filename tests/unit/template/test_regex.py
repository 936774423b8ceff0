"""Regular expressions: limits on patterns, and the cost of searching."""

from __future__ import annotations

import pytest

from noetl.template.limits import FUEL_MAX, Meter
from noetl.template.regex import Pattern, Replacement, compiled_pattern
from noetl.template.values import TemplateError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(", 'the pattern "(" is not valid: missing ): ('),
        (r"(a)\1", r'the pattern "(a)\1" is not valid: invalid escape sequence: \1'),
        ("(?=a)", 'the pattern "(?=a)" is not valid: invalid perl operator: (?='),
        ("a{1001}", 'the pattern "a{1001}" is not valid: invalid repetition size: {1001}'),
        ("a" * 1_001, "the pattern has 1,001 characters (limit PATTERN_CHARS_MAX: 1,000)"),
        (r"\pL{300}", r'the pattern "\pL{300}" is not valid: pattern too large - compile failed'),
        ("(?i)" + "k" * 900, f'the pattern "(?i){"k" * 56}" is too large (limit PATTERN_PROGRAM_MAX: 2,000)'),
        ("\ud800", "the pattern contains half a surrogate pair"),
    ],
)
def test_a_rejected_pattern_has_a_reason(text: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TemplateError) as error:
        Pattern(text)
    assert (error.value.message, capfd.readouterr()) == (message, ("", ""))


@pytest.mark.parametrize("text", ["a", r"\s+", "[^a-z]*", r"a.\d+", r"x[\]a]+"])
def test_a_pattern_that_ends_with_its_match_is_near(text: str) -> None:
    assert Pattern(text).local


@pytest.mark.parametrize("text", ["a*b", "a|b", "(a)", "a{2}", "^a", "a$", "a+?", "(?i)a", "", r"\s+$"])
def test_a_pattern_that_may_look_further_is_not_near(text: str) -> None:
    assert not Pattern(text).local


def test_a_near_pattern_may_match_often_and_a_far_one_pays_for_each_match() -> None:
    text = "a b " * 500
    local, far = Meter(), Meter()
    assert Pattern(r"\s+").replace(local, text, Replacement("", Pattern("")), 0) == "ab" * 500
    assert Pattern(r"\s+?|x").replace(far, text, Replacement("", Pattern("")), 0) == "ab" * 500
    assert FUEL_MAX - local.fuel < 100_000 < FUEL_MAX - far.fuel


def test_a_match_has_its_groups() -> None:
    found = Pattern(r"(\pL)(x)?(?P<z>\w)").search(Meter(), "--äb")
    assert found == ["äb", "ä", None, "b"]
    assert Pattern("q").search(Meter(), "--äb") is None


@pytest.mark.parametrize("wanted", [2, -1, "y", True, None])
def test_a_group_that_is_not_there_is_an_error(wanted: object) -> None:
    with pytest.raises(TemplateError, match="the pattern has no group"):
        Pattern("(?P<x>a)").group(wanted)


def test_a_replacement_has_groups_names_and_backslashes() -> None:
    ready = Pattern("(?P<x>a)(b)?")
    filled = ready.replace(Meter(), "ab-a", Replacement(r"<\g<x>\2\\\g<0>\n>", ready), 0)
    assert filled == "<ab\\ab\\n>-<a\\a\\n>"


def test_a_pattern_that_is_known_late_is_paid_for() -> None:
    meter = Meter()
    assert compiled_pattern(meter, "a+").search(meter, "baa") == ["aa"]
    assert meter.fuel < FUEL_MAX - 200
