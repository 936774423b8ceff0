"""Stored run records: the same ones come back, and reading continues from them as if they had been read."""

from __future__ import annotations

import asyncio

import pytest

from noetl.engine.snapshot import freeze
from noetl.slices import in_slices
from noetl.views.documents import show_document
from noetl.views.runs import Runs
from noetl.views.stored_runs import freeze_runs, thaw_runs
from tests.unit.views.playing import scenarios

POINTS = 8  # of each log


def test_records_come_back_as_they_were_and_go_on_as_if_they_had_not_been_stored() -> None:
    for name, player in scenarios().items():
        for end in sorted({len(player.log) * point // POINTS for point in range(1, POINTS + 1)} - {0}):
            runs = Runs("e")
            for event in player.log[:end]:
                runs.feed(event)
            runs.stored = end
            again = thaw_runs(asyncio.run(in_slices(freeze_runs(runs))))
            assert vars(again) == vars(runs), (name, end)
            for event in player.log[end:]:
                runs.feed(event)
                again.feed(event)
            assert show_document(again) == show_document(runs), (name, end)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", freeze(Runs("e").state)])
def test_other_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not"):
        thaw_runs(body)
