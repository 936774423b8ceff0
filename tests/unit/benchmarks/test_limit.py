"""The time limit of a smoke run."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import run, slowest_first


def test_a_run_that_takes_too_long_is_stopped_and_says_where_and_how_long_each_module_took() -> None:
    with pytest.raises(SystemExit, match=r"^the benchmarks exceed 0 s in sizes: sizes \d+\.\d s$"):
        run(["sizes", "long_loop"], 0)


def test_a_run_in_time_has_the_seconds_of_each_module() -> None:
    seconds = run(["sizes", "goals"], 60)
    assert list(seconds) == ["sizes", "goals"]
    assert all(0 < spent < 60 for spent in seconds.values())


def test_the_slowest_module_is_the_first() -> None:
    assert slowest_first({"cli": 1.8, "scale_out": 21.84, "store": 3}) == "scale_out 21.8 s, store 3.0 s, cli 1.8 s"
