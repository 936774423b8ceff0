"""What is remembered of runs stays small, and agrees with the state."""

from __future__ import annotations

from noetl.views.documents import remembered
from noetl.views.replay import differences
from tests.unit.views.playing import scenarios


def test_every_run_of_every_scenario_is_remembered_as_the_state_has_it() -> None:
    for name, player in scenarios().items():
        runs = remembered("e", player.log)
        assert differences(runs.state, player.state) == []
        live = {record.id for record in runs.records() if record.ended_at is None}
        assert live == {run.id for run in player.state.runs.values() if run.output is None}, name


def test_only_what_runs_can_wait_and_only_what_failed_has_an_error() -> None:
    for player in scenarios().values():
        for record in remembered("e", player.log).records():
            assert record.waits_for is None or record.ended_at is None
            assert (record.error is not None) == (record.status in ("error", "cancelled"))
            assert record.status == "error" or not record.handled
