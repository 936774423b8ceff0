"""The examples as a reader runs them: the commands of their heads, with the services of examples/services.py."""

from __future__ import annotations

import asyncio
import json
import shlex
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from examples import services
from scripts.examples import runs
from tests.e2e.processes import ROOT, Workspace
from tests.services import connected, database, postgres


class Reader(Workspace):
    """Somebody with a copy of the examples: services on a free port, files in a folder that is gone afterwards."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder)
        self._elsewhere = {f"http://127.0.0.1:{services.PORT}": address, "/tmp/": f"{folder}/"}
        for file in (*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples/agent_tools").glob("*.yaml")):
            self.write(self.here(file.read_text("utf-8")), str(file.relative_to(ROOT)))

    def here(self, text: str) -> str:
        for there, here in self._elsewhere.items():
            text = text.replace(there, here)
        return text

    def follow(self, name: str) -> None:
        """Run the commands in the head of an example, and compare the end of their output with the output shown there."""
        for command, printed in runs(name):
            program, *arguments = shlex.split(command)
            if program == "export":
                variable, _, value = arguments[0].partition("=")
                self.environment.setdefault(variable, value)
            elif program == "noetl":
                done = self.call(*arguments)
                assert done.returncode == 0, done.stdout + done.stderr
                assert done.stdout.rstrip("\n").endswith(self.here(printed))

    def run(self, name: str, *sets: str) -> tuple[int, Any]:
        """The exit code, and the data that came out."""
        given = [part for each in sets for part in ("--set", each)]
        code, document = self.json("run", f"examples/{name}.yaml", *given)
        return code, document["output"]["data"]

    def rows(self, file: str, query: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.folder / file)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


@pytest.fixture
def asked() -> Iterator[dict[str, services.Service]]:
    """The services by name; each knows what it was asked."""
    with services.serving() as running:
        yield running


@pytest.fixture
def reader(tmp_path: Path, asked: dict[str, services.Service]) -> Reader:
    return Reader(tmp_path, asked["city"].url.removesuffix("/city"))


@pytest.mark.parametrize("name", ["hello", "word_count", "quantum_sweep", "transfer"])
def test_an_example_that_asks_nobody_prints_what_its_head_says(name: str, reader: Reader) -> None:
    reader.follow(name)


def test_pagination_stores_every_row_once_and_asks_again_only_for_pages_that_were_busy(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    async def work() -> list[tuple[Any, ...]]:
        async with database() as name, connected(name) as connection:
            reader.environment["WAREHOUSE_DSN"] = postgres().dsn(name)
            await asyncio.to_thread(reader.follow, "pagination")
            query = "SELECT endpoint, count(*), count(DISTINCT id) FROM items GROUP BY endpoint ORDER BY endpoint"
            return [tuple(row) for row in await connection.fetch(query)]

    assert asyncio.run(work()) == [("invoices", 130, 130), ("patients", 250, 250), ("visits", 420, 420)]
    pages = Counter((each.parts[-1], int(each.query["page"])) for each in asked["pages"].seen)
    ends = {"invoices": 3, "patients": 3, "visits": 5}
    assert pages == {(name, page): 1 + (page % 3 == 0) for name, end in ends.items() for page in range(1, end + 1)}


def test_choose_and_repeat_reads_every_page_and_looks_until_the_export_is_ready(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    reader.follow("choose_and_repeat")
    pages = Counter((each.parts[-1], int(each.query["page"])) for each in asked["pages"].seen)
    ends = {"invoices": 3, "visits": 5}
    assert pages == {(name, page): 1 + (page % 3 == 0) for name, end in ends.items() for page in range(1, end + 1)}
    assert asked["reports"].lines() == ["POST /exports", *["GET /exports/2026-03"] * 3]


def test_nested_loops_reach_every_room_of_every_hotel(reader: Reader, asked: dict[str, services.Service]) -> None:
    reader.follow("nested_loops")
    found = reader.rows("noetl-rooms.db", "SELECT city, hotel, count(*) FROM rooms GROUP BY city, hotel")
    hotels = services.Hotels.hotels
    assert sorted(found) == sorted((city, *each) for city in hotels for each in hotels[city].items())
    many = Counter(asked["hotels"].lines())
    assert many == {f"GET /cities/{city}/hotels": 1 for city in hotels} | {
        # Pages of four; the second one is busy when it is first asked for.
        f"GET /cities/{city}/hotels/{hotel}/rooms": -(-rooms // 4) + (rooms > 4)
        for city in hotels
        for hotel, rooms in hotels[city].items()
    }


def test_fan_out_join_reports_once_whether_or_not_the_air_is_known(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    reader.follow("fan_out_join")
    assert sorted(asked["city"].lines()) == ["GET /air", "GET /weather"]
    told = {"text": "lisbon: sunny, air 12", "branches": ["air_quality#1", "weather#1"]}
    assert reader.run("fan_out_join") == (0, told)
    assert reader.run("fan_out_join", "with_air_quality=false") == (
        0,
        {"text": "lisbon: sunny, air not known", "branches": ["weather#1"]},
    )
    assert Counter(asked["city"].lines()) == {"GET /air": 1 + 2, "GET /weather": 3}


def test_the_saga_gives_back_what_it_booked_in_reverse_until_it_is_given_back(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    reader.follow("saga")
    travel = cast(services.Travel, asked["travel"])
    assert travel.lines() == [
        "POST /flights", "POST /hotels", "POST /charges",
        "DELETE /hotels/h-2", "DELETE /hotels/h-2", "DELETE /flights/f-1",
    ]  # fmt: skip
    assert {each.headers["authorization"] for each in travel.seen} == {"Bearer any"}
    assert travel.booked == {}
    assert reader.run("saga") == (0, {"booked": True, "flight": "f-3", "hotel": "h-4"})
    assert travel.booked == {"f-3": "flights", "h-4": "hotels"}


def test_compensations_give_back_what_was_booked_in_reverse(reader: Reader, asked: dict[str, services.Service]) -> None:
    reader.follow("compensation")
    travel = cast(services.Travel, asked["travel"])
    assert travel.booked == {"f-1": "flights", "h-2": "hotels"}
    code, document = reader.json("run", "examples/compensation.yaml", "--set", "amount=1640")
    assert (code, document["status"], document["compensation"]["status"]) == (1, "error", "done")
    assert travel.lines()[3:] == [
        "POST /flights", "POST /hotels", "POST /charges",
        "DELETE /hotels/h-4", "DELETE /hotels/h-4", "DELETE /flights/f-3",
    ]  # fmt: skip
    assert travel.booked == {"f-1": "flights", "h-2": "hotels"}


def test_an_approval_by_signal_places_one_order(reader: Reader, asked: dict[str, services.Service]) -> None:
    _, begin, approve = runs("approval")
    with reader.started(*shlex.split(begin.command)[1:]) as running:
        assert "waits for the signal" in running.read_until("waits for the signal")[-1]
        assert reader.call(*shlex.split(approve.command)[1:]).returncode == 0
        code, stdout, _ = running.end()
    assert (code, stdout.rstrip("\n").endswith(approve.printed)) == (0, True)
    assert asked["purchases"].lines() == ["POST /board", "POST /orders"]


def test_a_refusal_orders_nothing_and_the_wait_outlives_its_process(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    with reader.started("run", "examples/approval.yaml") as running:
        running.read_until("waits for the signal")
    refused = reader.call("signal", "last", "decision", "--data", "{approved: false, by: bob}")
    assert "the signal is logged; continue with: noetl resume" in refused.stdout
    code, document = reader.json("resume", "last")
    assert (code, document["output"]["data"]) == (0, {"ordered": False, "reason": "refused by bob"})
    assert asked["purchases"].lines() == ["POST /board"]


def test_nobody_is_asked_about_small_things_and_who_does_not_answer_has_not_approved(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    assert reader.run("approval", "amount=20") == (0, {"ordered": True, "approved_by": "nobody"})
    assert asked["purchases"].lines() == ["POST /orders"]
    text = (reader.folder / "examples/approval.yaml").read_text("utf-8")
    reader.write(text.replace("timeout_s: 172800", "timeout_s: 0.5"), "examples/approval.yaml")
    assert reader.run("approval") == (0, {"ordered": False, "reason": "nobody answered in time"})
    assert asked["purchases"].lines("POST /orders") == ["POST /orders"]


def test_polling_orders_once_and_asks_until_the_export_is_ready_or_broken(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    reader.follow("polling")
    assert asked["reports"].lines() == [
        "POST /exports", *["GET /exports/2026-03"] * 3, "GET /files/2026-03.csv",
    ]  # fmt: skip
    asked["reports"].seen.clear()
    assert reader.run("polling", "month=2026-13") == (0, {"noted": True})
    assert asked["reports"].lines() == [
        "POST /exports", *["GET /exports/2026-13"] * 3, "GET /exports/2026-13/errors", "POST /incidents",
    ]  # fmt: skip


def test_a_sync_begins_where_the_last_one_ended_and_a_retry_at_the_page_that_failed(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    def since() -> list[int]:
        """The cursors that were asked for, since this was last called. Each but 0 is busy at first."""
        cursors = [int(each.query["since"]) for each in orders.seen]
        orders.seen.clear()
        return cursors

    orders = cast(services.Orders, asked["orders"])
    reader.follow("incremental_sync")
    assert since() == [0, 5, 5, 10, 10]
    assert reader.rows("noetl-orders.db", "SELECT id, amount FROM orders ORDER BY id") == [
        (1, 110.0), *((id, 10.0 * (id - 1)) for id in range(2, 12)),
    ]  # fmt: skip
    orders.changes += [{"id": id, "status": "paid", "amount": 5} for id in range(1, 8)]
    orders.closed_from = 17
    assert (reader.run("incremental_sync")[0], since()) == (1, [12, 12, 17])
    orders.closed_from = None
    code, document = reader.json("retry", "last")
    assert (code, document["output"]["data"]) == (0, {"changes": 7, "pages": 2, "cursor": 19})
    assert since() == [17, 17]
    assert reader.rows("noetl-orders.db", "SELECT count(*), sum(status = 'paid') FROM orders") == [(11, 7)]


def test_an_agent_refunds_once_and_is_stopped_when_it_goes_round_in_circles(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    reader.follow("agent_loop")
    model = asked["model"]
    assert model.lines() == [
        *["POST /v1/chat/completions"] * 2, "GET /orders/1007",  # too many requests at first
        "POST /v1/chat/completions", "POST /refunds", "POST /v1/chat/completions",
        "POST /v1/chat/completions", "GET /orders/9999", *["POST /v1/chat/completions"] * 2,
        "GET /orders/9999", "POST /v1/chat/completions",
    ]  # fmt: skip
    (refund,) = [each for each in model.seen if each.line == "POST /refunds"]
    assert refund.body == {"order": "1007", "amount": 40}
    assert refund.headers["idempotency-key"].endswith("-call-2")
    talk = model.seen[5].body["messages"]
    assert [each["role"] for each in talk] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert talk[-1] == {"role": "tool", "tool_call_id": "call-2", "content": '{"refunded":40}'}
    # The model receives the errors: an order that does not exist, a tool that does not exist.
    answers = [each["content"] for each in model.seen[-1].body["messages"] if each["role"] == "tool"]
    missing = '{"message":"nothing here"}'
    assert answers == [missing, '{"error":"there is no tool search"}', missing]


def test_an_agents_plan_is_checked_corrected_and_run(reader: Reader, asked: dict[str, services.Service]) -> None:
    reader.follow("agent_plan")
    planner = asked["planner"]
    assert planner.lines() == [
        *["POST /v1/chat/completions"] * 2, "GET /orders/1007",  # the second plan can run
        *["POST /v1/chat/completions"] * 3,
    ]  # fmt: skip
    told = planner.seen[1].body["messages"][-1]["content"]
    assert '"code":"unknown-step"' in told
    assert r"leads to \"tell\"" in told
    assert planner.seen[2].headers["authorization"] == "Bearer any", "the plan has the credential of its caller"
    listed = json.loads(reader.call("list", "--format", "json").stdout)
    assert [each["path"] for each in listed][-2:] == ["plans/order", "examples/agent_plan"]
    assert reader.call("playbooks").stdout.count("plans/order") == 0, "it is not registered"


def test_children_hand_over_references_and_a_branch_that_fails_is_left_out(
    reader: Reader, asked: dict[str, services.Service]
) -> None:
    reader.follow("child_playbooks")
    branches = list(services.Branches.receipts)
    assert sorted(asked["branches"].lines()) == [f"GET /{branch}/receipts" for branch in sorted(branches)]
    log = reader.call("events", "last", "--format", "jsonl").stdout
    assert ("receipts_ref" in log, "coffee beans" in log) == (True, False)
    assert reader.run("child_playbooks", "branches=[nowhere, bern]") == (
        0,
        [{"branch": "bern", "receipts": 1200, "amount": 3594}],
    )


def test_the_services_run_by_themselves_and_say_what_there_is() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/services.py", "shops"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no service 'shops'; there are pages, hotels" in done.stderr
