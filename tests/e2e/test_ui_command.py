"""`noetl ui`: one line says where the page is, and behind it is the user's own database."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path

from tests.e2e.processes import House
from tests.playbooks import HEAD


def test_the_page_is_where_it_says_and_shows_what_ran_before(tmp_path: Path) -> None:
    house = House(tmp_path)
    _, ran = house.json("run", house.write(HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n"))
    with house.started("ui", "--no-browser") as started:
        (page,) = started.read_until("http://")
        assert page.startswith("http://127.0.0.1:")
        assert page.endswith("/ui/")
        with urllib.request.urlopen(page.replace("/ui/", "/executions"), timeout=30) as answer:
            assert [each["execution_id"] for each in json.load(answer)["items"]] == [ran["execution_id"]]
        started.process.send_signal(signal.SIGTERM)
        code, out, _ = started.end()
    assert (code, out) == (0, "")


def test_a_postgresql_is_looked_at_through_its_servers(tmp_path: Path) -> None:
    done = House(tmp_path).call("ui", "--no-browser", "--db", "postgresql://db/noetl")
    assert (done.returncode, done.stdout) == (2, "")
    assert "open its address in the browser" in done.stderr
