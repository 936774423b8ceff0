"""What may be written where: sizes (D55) and names that take a Ref (D54)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.engine.scopes import CTX_BYTES_MAX, ctx_misfit, is_ref, misfit, owner_of
from noetl.engine.stored import stored_bytes
from noetl.output import JSON, Failure
from noetl.playbook.model import INLINE_BYTES_MAX

REF: dict[str, JSON] = {"type": "blob", "locator": {"key": "e/1"}, "meta": {"bytes": 3}}


@pytest.mark.parametrize(
    "value",
    [None, True, 1, 1.5, "", "x" * (INLINE_BYTES_MAX - 2), ["x" * (INLINE_BYTES_MAX - 4)], {}, {"a": [1]}],
)
def test_a_value_up_to_64_kib_is_in_the_log_d91(value: JSON) -> None:
    assert misfit("ctx.a", value) is None
    assert stored_bytes(value) == 0


@pytest.mark.parametrize(
    "value",
    ["x" * (INLINE_BYTES_MAX - 1), "\x01" * 11_000, ["x" * (INLINE_BYTES_MAX - 3)], {"a": [{"$stored": {}}]}],
)
def test_a_larger_value_is_stored_and_so_is_one_with_the_key_of_a_mark_d91(value: JSON) -> None:
    assert stored_bytes(value) == len(msgspec.json.encode(value))


def test_all_of_ctx_has_a_limit_too_d55() -> None:
    part = "x" * (CTX_BYTES_MAX // 16)
    assert ctx_misfit({str(n): part for n in range(15)}) is None
    assert ctx_misfit({str(n): part for n in range(16)}) == Failure(
        kind="payload-too-large",
        message="ctx would be over 1,048,576 bytes in all: keep references instead",
    )


def test_names_that_end_in_ref_take_a_ref_and_no_others_do_d54() -> None:
    assert misfit("ctx.rows_ref", REF) is None
    assert misfit("ctx.rows_ref", [1]) == Failure(kind="reference", message='"ctx.rows_ref" takes a Ref, by its name')
    assert misfit("ctx.rows_ref", None) is None
    assert misfit("step.rows", REF, "e") == Failure(
        kind="reference", message='a Ref needs a name that ends in _ref, not "step.rows"'
    )


TABLE: dict[str, JSON] = {"type": "relational", "locator": {"system": "postgres", "table": "t"}}


def test_a_mapping_that_only_looks_like_a_ref_is_data_d99() -> None:
    assert misfit("step.rows", REF, "other") is None
    assert misfit("step.rows", TABLE, "e") is None
    assert misfit("ctx.rows_ref", TABLE, "e", origin=True) is None
    message = '"ctx.rows_ref" takes a Ref, and this is data that looks like one: assign output.ref'
    assert misfit("ctx.rows_ref", TABLE, "e") == Failure(kind="reference", message=message)


@pytest.mark.parametrize(
    ("locator", "owner"),
    [
        ({"key": "e/1"}, "e"),
        ({"store": "s3", "bucket": "b", "key": "e/1"}, "e"),
        ({"execution_id": "e", "run": "start#1"}, "e"),
        ({"system": "s3", "bucket": "b", "key": "e/1"}, None),
        ({"system": "postgres", "execution_id": "e", "run": "start#1"}, None),
        ({"execution_id": 1, "key": ["e/1"]}, None),
        ({}, None),
        ("e/1", None),
    ],
)
def test_a_ref_names_the_execution_that_stored_it_d99(locator: JSON, owner: str | None) -> None:
    assert owner_of({"type": "blob", "locator": locator}) == owner


@pytest.mark.parametrize(
    "value",
    [
        None,
        "blob",
        [],
        {},
        {"type": "blob"},
        {"type": "map", "locator": {}},
        {**REF, "name": 1},
        {"type": [], "locator": 1},
    ],
)
def test_what_only_looks_like_a_ref_is_none_d53(value: JSON) -> None:
    assert not is_ref(value)
