"""What happens when the store does not say yes: nothing is shown, nothing is used that is not on record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from noetl.adapters.memory.store import MemoryStore
from noetl.clock import SystemClock
from noetl.control.deps import ControlSettings
from noetl.control.executions import FACTS_PER_COMMIT, FACTS_PER_TURN
from noetl.control.live_execution import ANSWERS_PER_TURN, turn
from noetl.control.snapshots import fold
from noetl.engine.commands import Pause, Resume
from noetl.engine.state import State
from noetl.errors import Conflict, Fenced, Unavailable
from noetl.ports import Append
from noetl.views.replay import ReplayDifference, differences
from tests.unit.control.houses import MemoryHouse, run_house

ONE = "workflow:\n- {step: start, tool: {kind: http, url: x}}\n"


class SilentStore(MemoryStore):
    """It does what it is asked for, and once it does not say so."""

    silent = False

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        done = await super().append(appends)
        if self.silent:
            self.silent = False
            raise Unavailable("no answer")
        return done


def test_a_state_that_may_not_be_on_record_is_used_by_nobody_who_kept_hold_of_it() -> None:
    house = MemoryHouse({"t": ONE})
    store = SilentStore(SystemClock(), 1)
    house.store = house.control.store = house.owners._store = store

    async def work(house: MemoryHouse) -> None:
        await house.start("e", "t")
        held = house.control.executions["e"]
        store.silent = True
        with pytest.raises(Unavailable):
            await house.control.command("e", Pause())
        with pytest.raises(Unavailable, match="reloaded from the log"):
            await house.control.read(held, lambda: None)
        await house.control.command("e", Resume())

    run_house(house, work, slots=0)
    names = [type(fact).__name__ for row in store.rows["e"] for fact in row.facts]
    assert names[-2:] == ["Paused", "Resumed"]


def test_an_execution_is_read_from_its_snapshot_and_what_follows_it() -> None:
    house = MemoryHouse({"t": ONE}, settings=ControlSettings(snapshot_bytes=1))

    async def work(house: MemoryHouse) -> tuple[int | None, object, object]:
        await house.start("e", "t")
        before = house.control.executions.pop("e")
        await asyncio.gather(*house.control._background._tasks)
        kept = await house.store.snapshot("e")
        await house.control.command("e", Pause())
        return kept and kept.seq, before.state.runs, house.control.executions["e"].state.runs

    seq, before, after = run_house(house, work, slots=0)
    assert seq is not None
    assert before == after


def test_what_shares_a_commit_shares_its_instant_so_that_live_is_what_the_log_says_p4() -> None:
    house = MemoryHouse({"t": ONE})

    async def work(house: MemoryHouse) -> list[ReplayDifference]:
        await house.start("e", "t")
        await asyncio.gather(*(house.control.command("e", each) for each in (Pause(), Resume())))
        rows = house.store.rows["e"]
        assert len(rows) == 2
        folded = State(execution_id="e")
        fold(folded, rows)
        return differences(folded, house.control.executions["e"].state)

    assert run_house(house, work, slots=0) == []


def test_much_that_follows_of_one_command_is_committed_in_pieces_and_others_have_their_turn() -> None:
    many = "workflow:\n- step: start\n  loop: {in: '{{ range(3000) }}', iterator: n}\n  tool: []\n"
    house = MemoryHouse({"many": many, "t": ONE})

    async def work(house: MemoryHouse) -> list[str]:
        starting = asyncio.ensure_future(house.start("e", "many"))
        while "e" not in house.store.rows:
            await turn()
        await house.start("short", "t")
        begun = list(house.store.rows)
        assert not starting.done(), "it is still at it"
        await starting
        return begun

    assert run_house(house, work, slots=0) == ["e", "short"]
    lengths = [len(row.facts) for row in house.store.rows["e"]]
    assert sum(lengths) > 3_000
    assert max(lengths) < FACTS_PER_COMMIT + 2 * FACTS_PER_TURN


def test_whoever_leads_and_is_gone_while_all_are_answered_leaves_nobody_waiting() -> None:
    house = MemoryHouse({"t": ONE})

    async def work(house: MemoryHouse) -> int:
        await house.start("e", "t")
        live = house.control.executions["e"]
        asking = [
            asyncio.ensure_future(house.control.submit(live, None, lambda: asking[0].cancel()))
            for _ in range(3 * ANSWERS_PER_TURN)
        ]
        told = await asyncio.gather(*asking, return_exceptions=True)
        assert await house.control.read(live, lambda: live.busy) is False
        return sum(isinstance(each, BaseException) for each in told)

    assert run_house(house, work, slots=0) == 1
