"""The tables of `noetl pools`."""

from __future__ import annotations

from noetl.api.admin import PoolItem
from noetl.cli.output.tables import pool_table


def test_pools_show_the_share_of_one_execution() -> None:
    found = [
        PoolItem(pool="default", workers=2, slots=32, busy=30, share=28),
        PoolItem(pool="gpu", workers=1, slots=4, busy=0),  # as a server of an older release answers
    ]
    assert [[cell.text.strip() for cell in row[1:]] for row in pool_table(found)] == [
        ["POOL", "WORKERS", "BUSY", "SHARE"],
        ["default", "2", "30 of 32", "28"],
        ["gpu", "1", "0 of 4", ""],
    ]
