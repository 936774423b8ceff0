"""The corpus of harmful inputs: none of them violates an invariant. New files in its folders are tested automatically."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.fuzz import Fuzzer
from tests.hostile.invariants import CORPUS, JUDGES, judge_yaml, verdict

TURNS = 100_000 if os.environ.get("NOETL_TEST_SIZE") == "night" else 3_000
FILES = sorted(file for file in CORPUS.rglob("*") if file.is_file())


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CORPUS)))
def test_an_input_of_the_corpus_does_no_harm(file: Path) -> None:
    assert verdict(JUDGES[file.parent.name], file.read_bytes()) is None


def test_the_corpus_has_inputs_of_every_kind() -> None:
    assert {file.parent.name for file in FILES} == set(JUDGES)


def test_randomly_damaged_inputs_do_no_harm(tmp_path: Path) -> None:
    fuzzer = Fuzzer(18, list(JUDGES), tmp_path)
    for _ in range(TURNS):
        fuzzer.turn()
    assert fuzzer.kept == {}, "the output describes the faults"
    assert set(fuzzer.tried) == set(JUDGES)


def test_an_unexpected_error_is_reported_with_its_place() -> None:
    def broken(data: bytes) -> None:
        judge_yaml(data)
        raise KeyError("unexpected")

    fault = verdict(broken, b"a: 1")
    assert fault is not None
    assert fault.startswith("KeyError: 'unexpected' (test_corpus.py:")
