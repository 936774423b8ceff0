"""The subset of JSONPath that tools support."""

from __future__ import annotations

import pytest

from noetl.output import JSON
from noetl.tools.errors import InvalidInput
from noetl.tools.jsonpath import PATH_CHARS_MAX, find, parse

DATA = {"a": {"b": [{"k k": 1, "x": 2}, {"x": 3}, 4]}, "it's": [[1], [2]], "n": None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", DATA),
        ("$.a.b[0]['k k']", 1),
        ('$["a"].b[-1]', 4),
        ("$['it\\'s'][1][0]", 2),
        ("$.n", None),
        ("$.a.b[*].x", [2, 3]),
        ("$.a.b[*]", [{"k k": 1, "x": 2}, {"x": 3}, 4]),
        ("$.a.*[0].x", [2]),
        ("$['it\\'s'][*][0]", [1, 2]),
        ("$.n[*].x", []),
    ],
)
def test_a_path_selects_a_value_and_with_a_star_all_matches(path: str, value: JSON) -> None:
    assert find(path, DATA) == value


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a.b", r'must begin with "\$"'),
        ("$..x", "'..' is not supported"),
        ("$.a[?(@.x)]", "filters are not supported"),
        ("$.a[0:2]", "use the field `slice`"),
        ("$.a[", r"character 4: expected .name"),
        ("$.a b", r'character 4: expected .name.* found " b"'),
        ("$.", "character 2"),
        ("$.1a", "character 2"),
        ("$" + ".a" * PATH_CHARS_MAX, "limit PATH_CHARS_MAX"),
    ],
)
def test_a_syntax_error_names_its_position(path: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("$.a.c", r"\$\['a'\] has no key 'c'; its keys are: b"),
        ("$.a.b[3]", "is a list of 3 items and has no 3"),
        ("$.n.x", r"\$\['n'\] is neither a list nor a mapping"),
        ("$.a[0]", "has no key 0"),
        ("$.a.b.x", "is a list of 3 items and has no 'x'"),
    ],
)
def test_a_path_without_a_match_names_the_part_that_is_missing(path: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        find(path, DATA)
