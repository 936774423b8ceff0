"""The corpus: inputs that once did harm, or were made to. None does, and a new one is found by its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.fuzz import Fuzzer
from tests.hostile.judged import CORPUS, JUDGES, judge_yaml, verdict

TURNS = 100_000 if os.environ.get("NOETL_TEST_SIZE") == "night" else 3_000
FILES = sorted(file for file in CORPUS.rglob("*") if file.is_file())


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CORPUS)))
def test_an_input_that_once_did_harm_does_none(file: Path) -> None:
    assert verdict(JUDGES[file.parent.name], file.read_bytes()) is None


def test_the_corpus_has_inputs_of_every_kind() -> None:
    assert {file.parent.name for file in FILES} == set(JUDGES)


def test_inputs_that_are_spoilt_by_chance_do_no_harm(tmp_path: Path) -> None:
    fuzzer = Fuzzer(18, list(JUDGES), tmp_path)
    for _ in range(TURNS):
        fuzzer.turn()
    assert fuzzer.kept == {}, "the output says what went wrong"
    assert set(fuzzer.tried) == set(JUDGES)


def test_an_error_that_nobody_expects_is_told_with_its_place() -> None:
    def broken(data: bytes) -> None:
        judge_yaml(data)
        raise KeyError("nobody expects this")

    told = verdict(broken, b"a: 1")
    assert told is not None
    assert told.startswith("KeyError: 'nobody expects this' (test_corpus.py:")
