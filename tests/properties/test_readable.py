"""YAML that importers write for readers is exactly the data that they were given."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.importers.readable import readable
from noetl.output import JSON
from noetl.playbook.source import parse, plain
from tests.sizes import examples

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["null", "1", "{{ a }}", "- x", "a: b", "#"]
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
@settings(max_examples=examples(300), deadline=None)
def test_what_is_written_reads_as_the_same_data(value: dict[str, JSON]) -> None:
    parsed = parse(readable(value))
    assert parsed.problems == []
    assert plain(parsed.document.root) == value
