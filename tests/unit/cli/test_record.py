"""`noetl record` and tests with its cassettes."""

from __future__ import annotations

import gzip
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from noetl.errors import PlaybookError
from noetl.testing import run_tests
from tests.unit.cli.invoke import noetl, run_run
from tests.unit.replay.suites import HEAD

PAGED = (
    HEAD
    + """
workload: {pages: 3, api_key: geheim, url: ""}
workflow:
- step: start
  loop: {in: "{{ range(workload.pages) }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool:
  - {name: stamp, kind: noop, set: {iter.at: "{{ now() }}"}}
  - name: get
    kind: http
    url: "{{ workload.url }}/{{ iter.n }}"
    headers: {X-At: "{{ now() if iter.n != 1 else 'retried' }}", X-Id: "{{ uuid() if iter.n == 2 else '' }}", X-Run: "{{ execution_id }}"}
    spec: {retry: {attempts: 3, delay: 0.01}}
  set: {ctx.items: "{{ output.data | map(attribute='id') | list }}"}
  next: {arcs: [{step: child}]}
- step: child
  tool: {kind: playbook, path: child.yaml, input: {url: "{{ workload.url }}"}}
"""
)
CHILD = (
    HEAD.replace("shop/orders", "shop/child")
    + """
workload: {url: ""}
workflow:
- step: start
  tool: {kind: http, url: "{{ workload.url }}/large"}
  set: {ctx.size: "{{ output.data.pad | length }}"}
  next: {arcs: [{step: tell}]}
- step: tell
  tool: {kind: noop, input: {size: "{{ ctx.size }}"}}
"""
)


class Shop(BaseHTTPRequestHandler):
    """Answers with a number; every second request for page 1 fails; `/large` is large."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        status = 503 if self.path == "/1" and self.asked.count("/1") == 1 else 200
        body: dict[str, object] = {"id": self.path, "token": "t0ps3cr3t"}
        if self.path == "/large":
            body["pad"] = "x" * 100_000
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An execution of the playbook in a database; the server is gone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").write_text(PAGED)
    (tmp_path / "child.yaml").write_text(CHILD)
    Shop.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        assert run_run("orders.yaml", f"url=http://127.0.0.1:{server.server_port}", "api_key=geheim", db="a.db") == 0
    finally:
        server.shutdown()
        server.server_close()
    return tmp_path


def recorded(folder: Path) -> Path:
    assert noetl("record", "last", "-o", "orders.cassette.yaml", "--yes", "--db", "a.db") == 0
    return folder / "orders.cassette.yaml"


def test_the_plan_is_shown_and_nothing_is_written_without_yes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert noetl("record", "last", "-o", "orders.cassette.yaml", "--db", "a.db") == 0
    printed = capsys.readouterr()
    assert "  start.get: 3 calls" in printed.out
    assert '  "api_key" is replaced by ***, 1 time' in printed.out
    assert '  "token" is replaced by ***, 4 times' in printed.out
    assert "--yes" in printed.err
    assert not (folder / "orders.cassette.yaml").exists()


def test_a_cassette_has_no_secrets_and_large_bodies_beside_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert noetl("record", "last", "-o", "o.cassette.yaml", "--yes", "--db", "a.db", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["bodies"], document["written"], document["left_out"]) == (1, True, 0)
    text = (folder / "o.cassette.yaml").read_text()
    [body] = (folder / "o.cassette").iterdir()
    for content in (text, gzip.decompress(body.read_bytes()).decode()):
        assert "t0ps3cr3t" not in content
        assert "geheim" not in content
    assert "x" * 5_000 not in text


def test_a_test_with_a_cassette_needs_no_service(folder: Path) -> None:
    recorded(folder)
    (folder / "orders.test.yaml").write_text(
        """
playbook: orders.yaml
tests:
- name: as recorded
  cassette: orders.cassette.yaml
  expect:
    status: ok
    route: [start, child]
    ctx: {items: [/0, /1, /2]}
    output: {size: 100000}
    retries: {start.get: 1}
- name: a stub goes first
  cassette: orders.cassette.yaml
  stubs: [{call: start.get, when: "{{ iter.n == 2 }}", output: {id: two}}]
  expect: {ctx: {items: [/0, /1, two]}}
- name: a fourth page was not recorded
  cassette: orders.cassette.yaml
  workload: {pages: 4}
"""
    )
    first, second, third = run_tests(folder / "orders.test.yaml")
    assert (first.mismatches, second.mismatches) == ((), ())
    # Also the headers with the time and the id of the execution were the same.
    assert [each.answer for each in first.calls if each.call == "start.get"] == ["same"] * 4
    [missing, *_] = third.mismatches
    assert str(missing).startswith("start.get: expected a stub or a recorded call, got call ")
    assert " in start#1[3] has none; " in str(missing)


def test_an_answer_belongs_to_its_iteration(folder: Path) -> None:
    """Parallel iterations end in any order; each gets its own answer, not the next one."""
    text = recorded(folder).read_text()
    for index in range(3):
        assert f"frame: start#1[{index}]" in text
    (folder / "orders.test.yaml").write_text(
        "playbook: orders.yaml\ntests: [{name: a, cassette: orders.cassette.yaml, workload: {pages: 2},"
        " expect: {ctx: {items: [/0, /1]}}}]"
    )
    [result] = run_tests(folder / "orders.test.yaml")
    assert result.mismatches == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "yaml-syntax"),
        ("cassette: 2", "is not a cassette of version 1"),
        ("cassette: 1\ncalls: [{}]", "is not a valid cassette"),
    ],
)
def test_a_damaged_cassette_is_a_problem_of_the_test_file(folder: Path, text: str, said: str) -> None:
    (folder / "x.yaml").write_text(text)
    (folder / "orders.test.yaml").write_text("playbook: orders.yaml\ntests: [{name: a, cassette: x.yaml}]")
    with pytest.raises(PlaybookError, match=said):
        run_tests(folder / "orders.test.yaml")


def test_a_missing_body_fails_the_test(folder: Path) -> None:
    recorded(folder)
    for body in (folder / "orders.cassette").iterdir():
        body.unlink()
    (folder / "orders.test.yaml").write_text(
        "playbook: orders.yaml\ntests: [{name: a, cassette: orders.cassette.yaml, expect: {status: error}}]"
    )
    [result] = run_tests(folder / "orders.test.yaml")
    assert "the recorded answer of start.start_task is missing" in str(result.mismatches[0])
