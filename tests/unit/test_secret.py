"""A secret shows its value only to code that asks for it by name."""

from __future__ import annotations

import copy
import json
import pickle

import msgspec
import pytest

from noetl.secret import Secret

VALUE = "hunter2-canary"


def test_no_way_of_writing_it_shows_it() -> None:
    secret = Secret(VALUE)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>40}",
        f"{secret}",
        repr([secret]),
        repr({"a": secret}),
    ]
    assert not any(VALUE in text for text in shown)
    assert secret.reveal() == VALUE


def test_no_encoder_takes_it() -> None:
    for encode in (msgspec.json.encode, msgspec.msgpack.encode, json.dumps, pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError) as told:
            encode(Secret(VALUE))
        assert VALUE not in str(told.value)


def test_secrets_are_compared_by_value() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != VALUE
    assert len({Secret(VALUE), Secret(VALUE)}) == 1
