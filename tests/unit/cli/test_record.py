"""`noetl record` and tests with its cassettes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import json
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest

from noetl.errors import PlaybookError
from noetl.output import Output, failed
from noetl.replay import cassette, recording
from noetl.replay.adapter import MadeCall
from noetl.replay.cassette import make_cassette
from noetl.replay.recording import RecordedCall, RecordedExecution
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
    assert '  "token" is replaced by ***, 5 times' in printed.out
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


CANARIES = [f'canary-{number}/&{number * 7919:x}+"q{number}"' for number in range(30)]
LEAKS = """\
import base64, html, json, urllib.parse
def main(secrets):
    forms = [str, lambda s: base64.b64encode(s.encode()).decode(), lambda s: s.encode().hex(), urllib.parse.quote,
             lambda s: json.dumps(json.dumps(s)), html.escape, repr, lambda s: "x" + s + "y" * 9]
    shown = {f"k{place}": forms[place % len(forms)](each) for place, each in enumerate(secrets)}
    print("printed", *shown.values())
    if len(secrets) < 3:
        raise ValueError(f"refused: {secrets}")
    return {"shown": shown, "pad": ["z" * 100] * (1000 if len(secrets) > 20 else 1), "all": base64.b64encode(" ".join(secrets).encode()).decode()}
"""


def test_a_cassette_has_none_of_thirty_canaries_in_any_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, canary in enumerate(CANARIES):
        monkeypatch.setenv(f"CANARY_{number}", canary)
    (tmp_path / "leaks.py").write_text(LEAKS)
    named = [f"{{{{ keychain.c{number} }}}}" for number in range(30)]
    entries = "".join(f"- {{name: c{number}, kind: env, variable: CANARY_{number}}}\n" for number in range(30))
    steps = [("start", named, "small"), ("small", named[:4], "fails"), ("fails", named[4:6], "")]
    (tmp_path / "orders.yaml").write_text(
        f"{HEAD}\nkeychain:\n{entries}workflow:\n"
        + "".join(
            f"- step: {step}\n  tool: {{kind: python, script: leaks.py, input: {{secrets: {json.dumps(texts)}}}}}\n"
            + (
                f"  set: {{ctx.{step}: '{{{{ output.data.all }}}}'}}\n  next: {{arcs: [{{step: {after}}}]}}\n"
                if after
                else ""
            )
            for step, texts, after in steps
        )
    )
    assert run_run("orders.yaml", db="a.db") == 1  # the last step fails
    assert noetl("record", "last", "-o", "orders.cassette.yaml", "--yes", "--db", "a.db") == 0
    files = [tmp_path / "orders.cassette.yaml", *(tmp_path / "orders.cassette").iterdir()]
    contents = [gzip.decompress(each.read_bytes()) if each.suffix == ".gz" else each.read_bytes() for each in files]
    assert len(contents) == 2
    assert sum(each.count(b"***") for each in contents) >= 30
    for number, canary in enumerate(CANARIES):
        core = f"canary-{number}/".encode()
        hidden = [
            core,
            core.hex().encode(),
            quote(core).encode(),
            quote(core, safe="").encode(),
            html.escape(canary).encode(),
        ]
        hidden += [base64.b64encode(b" " * before + core).strip(b"=")[4:-2] for before in range(3)]
        for form in hidden:
            assert not any(form in content for content in contents), (canary, form)


# How services quote credentials in their answers: no keychain has them, so no worker masks them.
QUOTES = (
    lambda secret: {"access_token": secret},
    lambda secret: {"credentials": {"user": "me", "value": [secret, 17]}},
    lambda secret: {"next": f"https://shop.invalid/pages?page=2&api_key={secret}&size=10"},
    lambda secret: {"echo": {"headers": {"Authorization": f"Bearer {secret}", "Set-Cookie": [f"id={secret}; Secure"]}}},
    lambda secret: {"body": json.dumps({"password": secret})},
    lambda secret: {"body": json.dumps({"inner": json.dumps({"client_secret": secret})})},
    lambda secret: {"log": f"GET /orders\nauthorization: Basic {secret}\naccept: */*"},
    lambda secret: {"redirect": quote(f"https://shop.invalid/?token={secret}&x=1", safe="")},
    lambda secret: {"note": f"login failed: password='{secret}'"},
    lambda secret: {"dsn": f"postgresql://me:{secret}@db.invalid/shop"},
)


async def leaked(folder: Path) -> list[str]:
    """The canaries in the files of a cassette that is made from answers of services, and the quotes around them."""
    canaries = [f"canary{number}x{number * 7919:x}" for number in range(30)]
    calls = [
        RecordedCall(
            frame=f"start#1[{number}]",
            task="get",
            occurrence=1,
            output=failed("http", json.dumps(data))
            if number % 3 == 2
            else Output(data=data, meta={"pad": "x" * 3_000}),
            input_hash="h",
        )
        for number, canary in enumerate(canaries)
        for data in [{**QUOTES[number % len(QUOTES)](canary), "pad": ["z"] * (2_000 if number % 3 == 1 else 1)}]
    ]
    at = datetime(2026, 11, 16, tzinfo=UTC)
    workload = {"password": canaries[0], "url": f"https://me.invalid/?token={canaries[1]}"}
    recorded = RecordedExecution(id="e", path="t", digest="d", workload=workload, ctx={}, started_at=at, calls=calls)

    async def no_body(_: dict[str, object]) -> bytes:
        raise AssertionError("nothing is stored")

    made = await make_cassette(recorded, folder / "t.cassette.yaml", no_body)
    contents = [made.text, *(gzip.decompress(each).decode() for each in made.bodies.values())]
    return [canary for canary in canaries if any(f"{canary}" in content for content in contents)]


def test_credentials_in_answers_of_services_are_redacted_however_they_are_quoted(tmp_path: Path) -> None:
    assert asyncio.run(leaked(tmp_path)) == []


@pytest.mark.parametrize("planted", ["_redacted", "_in_text"])
def test_a_cassette_with_a_secret_is_found(planted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bugs: credentials by their keys are kept, and those in texts."""
    as_it_is = {
        "_redacted": lambda writer, _key, value, **_: writer.redact(value),
        "_in_text": lambda _writer, found: found[0],
    }
    monkeypatch.setattr(cassette._Writer, planted, as_it_is[planted])
    assert len(asyncio.run(leaked(tmp_path))) >= 6


def test_an_answer_of_the_wrong_iteration_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: a call gets the recorded answer of the iteration before it."""
    recorded(folder)
    (folder / "orders.test.yaml").write_text(
        "playbook: orders.yaml\ntests: [{name: a, cassette: orders.cassette.yaml, expect: {ctx: {items: [/0, /1, /2]}}}]"
    )
    assert [each.mismatches for each in run_tests(folder / "orders.test.yaml")] == [()]
    right = recording._Index.find

    def wrong(index: recording._Index, call: MadeCall, _wanted: str | None) -> tuple[RecordedCall, bool] | None:
        other = call.frame.replace("[2]", "[1]")
        known = next((each for each in index.by_frame[other] if each.task == call.task), None)
        return (known, True) if other != call.frame and known is not None else right(index, call, _wanted)

    monkeypatch.setattr(recording._Index, "find", wrong)
    [result] = run_tests(folder / "orders.test.yaml")
    assert any("/2" in str(each) for each in result.mismatches)


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
