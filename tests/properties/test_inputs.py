"""Typed inputs (D104): a value that fits fits again unchanged, also after its way through text, JSON and the log."""

from __future__ import annotations

import json
from datetime import UTC

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.cli.workload import read_workload
from noetl.net.inputs import CompiledInput, ValueMismatch
from noetl.output import JSON, clean
from noetl.playbook.language import INPUT_TYPES
from noetl.playbook.model import InputType
from noetl.playbook.write import emit
from noetl.session.declared import DeclaredWorkload
from tests.playbooks import checked
from tests.sizes import examples

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=20)
VALUES: dict[InputType, st.SearchStrategy[JSON]] = {
    "string": TEXTS,
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "boolean": st.booleans(),
    "date": st.dates().map(str),
    "datetime": st.datetimes(timezones=st.just(UTC)).map(lambda at: at.isoformat().replace("+00:00", "Z")),
    "list": st.lists(st.integers(0, 9)),
    "map": st.dictionaries(TEXTS, st.integers(0, 9), max_size=3),
    "file": TEXTS.map(lambda text: f"/{text}"),
}
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | TEXTS
    | st.sampled_from(["1", "true", "2026-01-31"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def compiled(type: InputType) -> CompiledInput:
    program = checked(f"input: {{x: {{type: {type}}}}}\nworkflow:\n- step: start\n  tool: {{kind: noop}}\n").program
    assert program is not None
    assert program.inputs is not None
    return program.inputs.fields["x"]


INPUTS = {type: compiled(type) for type in VALUES}


@settings(max_examples=examples(2_000))
@given(st.sampled_from(list(VALUES)), ANYTHING)
def test_a_value_either_fits_for_good_or_is_refused(type: InputType, value: JSON) -> None:
    try:
        fitted = INPUTS[type].fit(value)
    except ValueMismatch:
        return
    assert INPUTS[type].fit(fitted) == fitted
    assert INPUTS[type].fit(json.loads(json.dumps(fitted))) == fitted
    if type not in ("list", "map"):
        assert clean(fitted) is fitted


@settings(max_examples=examples(2_000))
@given(st.data(), st.sampled_from(list(VALUES)))
def test_a_value_of_the_type_is_kept(data: st.DataObject, type: InputType) -> None:
    value = data.draw(VALUES[type])
    fitted = INPUTS[type].fit(value)
    assert fitted == value
    assert isinstance(fitted, bool) == isinstance(value, bool)


@settings(max_examples=examples(2_000))
@given(st.data(), st.sampled_from(list(VALUES)))
def test_the_command_line_gives_the_same_value(data: st.DataObject, type: InputType) -> None:
    value = data.draw(VALUES[type])
    text = emit(value)
    given = read_workload(None, [f"x={text}"]).values_for(DeclaredWorkload(types={"x": type}))
    assert INPUTS[type].fit(given["x"]) == value


@settings(max_examples=examples(2_000))
@given(st.from_regex(r"\A[0-9][0-9_.+-]{0,8}\Z", fullmatch=True))
def test_text_that_looks_like_a_number_stays_text(text: str) -> None:
    """`--set version=1.10` of a string."""
    given = read_workload(None, [f"x={text}"]).values_for(DeclaredWorkload(types={"x": "string"}))
    assert given == {"x": text}


def test_every_type_is_tried() -> None:
    assert tuple(VALUES) == INPUT_TYPES
