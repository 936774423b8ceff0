"""Canaries: secrets go through whole processes in every way we know, and are found nowhere after it (P8, test 21).

D20, D57: raw, quoted for URLs and JSON, in hex and in base64, in the database, its files and all that is said.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, quote_plus

import pytest

from tests.e2e.processes import ROOT, Workspace
from tests.playbooks import HEAD

MANY = 30
MARKER = "marker-that-is-no-secret"
AWKWARD = ["", "/+=?", ' "q" \\', "ü€🎉", "&<tag>", "it's", "a b\tc"]
PLAIN = {10, 11, 12, 28}  # go into headers, where not every character may stand


def canary(number: int) -> str:
    body = hashlib.sha256(f"canary {number}".encode()).hexdigest()[:20]
    return f"cnry{number:02}{body}{'' if number in PLAIN else AWKWARD[number % len(AWKWARD)]}"


def forms(value: str) -> Iterator[bytes]:
    """As a person with a text editor would look for it."""
    body = value.encode()
    yield from (body, quote(value).encode(), quote(value, safe="").encode(), quote_plus(value).encode())
    yield from (json.dumps(value)[1:-1].encode(), json.dumps(value, ensure_ascii=False)[1:-1].encode())
    yield from (body.hex().encode(), body.hex().upper().encode(), repr(value)[1:-1].encode())
    yield body[:24]  # without what is awkward about it
    for before in range(3):
        text = base64.b64encode(b"\0" * before + body)[4 if before else 0 :]
        core = text[: len(text) // 4 * 4 - 4]
        yield from (core, core.translate(bytes.maketrans(b"+/", b"-_")))


class Echo(BaseHTTPRequestHandler):
    """Echoes each request; `/status/N` with that status; `/token` issues tokens."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        sent = self.rfile.read(length).decode()
        body: dict[str, object] = {
            "path": self.path,
            "headers": dict(self.headers),
            "sent": sent,
            "note": MARKER,
        }
        status = int(self.path.split("/")[2].partition("?")[0]) if self.path.startswith("/status/") else 200
        if self.path.startswith("/token"):
            assert parse_qs(sent)["grant_type"] == ["client_credentials"]
            body = {"access_token": canary(28), "expires_in": 3600}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET  # noqa: N815  # the name that the library calls

    def log_message(self, *_: object) -> None:
        """Silence."""


@contextmanager
def echoing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


ALL_FORMS = """\
import base64, json, sys, urllib.parse
def main(t):
    body = t.encode()
    print(t, file=sys.stderr)
    return {
        "raw": t, "in a list": [[t]], t: 1, "url": urllib.parse.quote_plus(t), "json": json.dumps(t),
        "hex": body.hex(), "HEX": body.hex().upper(), "twice": json.dumps(json.dumps({"x": t})),
        "base64": [base64.b64encode(b"x" * n + body + b"y" * n).decode() for n in range(4)],
        "urlsafe": base64.urlsafe_b64encode(body).decode(), "note": "marker-that-is-no-secret",
    }
"""
CODES = {
    "returned": ALL_FORMS,
    "raised": "def main(t): raise ValueError(f'no {t} here')",
    "repr": "def main(t): return int(t)",
    "printed": "def main(t):\n    import sys\n    print(t)\n    print(ascii(t), file=sys.stderr)",
    "slow": "def main(t):\n    import time\n    print(t, flush=True)\n    time.sleep(60)",
    "large": "def main(t): return ['x' * 1000 + t] * 200 + ['marker-that-is-no-secret']",
    "exit": "def main(t):\n    import sys\n    sys.exit(t)",
    "no json": "def main(t): return {t: object()}",
}


def python(code: str, key: str, **more: object) -> dict[str, object]:
    return {"kind": "python", "input": {"t": f"{{{{ keychain.{key} }}}}"}, "code": CODES[code], **more}


def http(url: str, **more: object) -> dict[str, object]:
    return {"kind": "http", "url": url, **more}


def steps(at: str, scratch: Path) -> list[tuple[int, object, dict[str, object]]]:
    """(canary, what the step does with it, more of the step)."""

    def key(number: int) -> str:
        return f"{{{{ keychain.k{number} }}}}"

    retry = {"policy": {"rules": [{"when": "{{ output.status == 'error' }}", "then": {"do": "retry", "attempts": 2}}]}}
    keep = "def main(t, file): open(file, 'w').write(t)"
    look = "def main(file): return open(file).read()"
    file = str(scratch)
    return [
        (0, python("returned", "k0"), {}),
        (1, python("raised", "k1"), {}),
        (2, python("repr", "k2"), {}),
        (3, python("printed", "k3"), {}),
        (4, python("raised", "k4", spec=retry), {}),
        (5, python("slow", "k5", spec={"timeout": 0.5}), {}),
        (6, http(f"{at}/v", params={"token": key(6)}), {}),
        (7, http(f"{at}/status/404", params={"token": key(7)}), {}),
        (8, http(f"http://127.0.0.1:9/{key(8)}"), {}),
        (9, http(f"{at}/status/500", params={"token": key(9)}, spec=retry), {}),
        (10, http(f"{at}/v", headers={"X-Api": key(10)}), {}),
        (11, http(f"{at}/status/401", auth="k11"), {}),
        (12, http(f"{at}/v", auth="k12"), {}),
        (13, http(f"{at}/v", method="POST", json={"t": key(13)}), {}),
        (14, http(f"{at}/v", response="bytes", params={"t": key(14)}), {}),
        (15, python("large", "k15"), {}),
        (16, http(f"{at}/v", method=key(16)), {}),
        (17, http("{{ (keychain.k17 | fromjson).url }}"), {}),
        (18, python("exit", "k18"), {}),
        (19, python("returned", "k19"), {"loop": {"in": "{{ range(3) }}", "iterator": "n", "spec": {"mode": "parallel"}}}),
        (20, {"kind": "workbook", "block": "echo"}, {}),
        (21, {"kind": "playbook", "path": "child.yaml"}, {}),
        (
            22,
            [
                {"kind": "python", "input": {"t": key(22), "file": file}, "code": keep},
                {"kind": "python", "input": {"file": file}, "code": look},
            ],
            {},
        ),
        (23, python("no json", "k23"), {}),
        (24, {**python("returned", "k24"), "input": {"t": "{{ keychain.k24.password }}"}}, {}),
        (25, python("returned", "k25"), {}),
        (26, python("returned", "k26"), {}),
        (27, python("returned", "k27"), {}),
        (28, http(f"{at}/v", auth="k28"), {}),
        (29, {"kind": "noop", "input": {"t": key(29), "note": MARKER}}, {}),
    ]  # fmt: skip


def entry(number: int, at: str, folder: Path) -> dict[str, object]:
    """Most are variables; each other kind has its canary."""
    name = {"name": f"k{number}"}
    variable = f"CANARY_{number}"
    match number:
        case 12:
            return {**name, "kind": "basic", "user": "ann", "password": {"env": variable}}
        case 24:
            dsn = {"host": "db.example", "user": "ann", "password": {"env": variable}}
            return {**name, "kind": "postgres_credential", **dsn}
        case 25:
            return {**name, "kind": "file", "path": str(folder / "secret")}
        case 26:
            return {**name, "kind": "stored", "key": "canary"}
        case 27:
            return {**name, "kind": "secret_manager", "provider": "env", "key": variable}
        case 28:
            client = {"client_id": "c", "client_secret": {"env": "CANARY_0"}}
            return {**name, "kind": "oauth2_client", "token_url": f"{at}/token", **client}
    return {**name, "kind": "env", "variable": variable}


def playbook(at: str, folder: Path) -> str:
    """One step after the other, whether the one before failed or not."""
    made = steps(at, folder / "kept")
    assert [number for number, _, _ in made] == list(range(MANY))
    on = {"when": "{{ event.name is defined }}"}
    names = ["start", *(f"s{number}" for number in range(1, MANY)), "end"]
    workflow = [
        {"step": names[number], "tool": tool, "next": {"arcs": [{"step": names[number + 1], **on}]}, **more}
        for number, tool, more in made
    ]
    parts = {
        "keychain": [entry(number, at, folder) for number in range(MANY)],
        "workflow": workflow,
        "workbook": {"echo": {"tool": python("returned", "k20")}},
    }
    return HEAD + "".join(f"{name}: {json.dumps(part)}\n" for name, part in parts.items())


def child(at: str, folder: Path) -> str:
    keychain = json.dumps([entry(21, at, folder)])
    task = json.dumps(python("returned", "k21"))
    return f"{HEAD.replace('path: t', 'path: child')}keychain: {keychain}\nworkflow:\n- {{step: start, tool: {task}}}\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "own").mkdir()
    made = Workspace(tmp_path / "own")
    made.environment |= {f"CANARY_{number}": canary(number) for number in range(MANY)}
    return made


def test_no_canary_is_found_anywhere_after_it_went_through_everything(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(canary(25) + "\n")
    stored = workspace.call("secrets", "set", "canary", input=canary(26))
    assert (stored.returncode, stored.stderr) == (0, "")
    said = [stored.stdout]
    with echoing() as at:
        workspace.write(child(at, outside), "child.yaml")
        done = workspace.call("run", workspace.write(playbook(at, outside)))
        id = done.stdout.partition("\n")[0]
        said += [done.stdout, done.stderr]
    for command in (
        ("events", id, "--format", "jsonl"),
        ("events", id),
        ("show", id, "--format", "json"),
        ("state", id, "--format", "json"),
        ("explain", id, "s1"),
        ("output", id),
        ("list", "--format", "json"),
        ("secrets", "list"),
    ):
        looked = workspace.call(*command)
        said += [looked.stdout, looked.stderr]
    shown = json.loads(workspace.call("show", id, "--format", "json").stdout)
    ran = {step["step"]: step["status"] for step in shown["steps"]}
    assert len(ran) == MANY
    assert {name for name, status in ran.items() if status != "ok"} == {
        "s1", "s2", "s4", "s5", "s7", "s8", "s9", "s11", "s16", "s17", "s18", "s23",
    }  # fmt: skip

    kept = {
        file: file.read_bytes() for file in workspace.folder.rglob("*") if file.is_file() and file.suffix != ".yaml"
    }
    assert any(file.parent != workspace.folder and MARKER.encode() in body for file, body in kept.items())
    assert MARKER.encode() in kept[workspace.db] + kept.get(Path(f"{workspace.db}-wal"), b"")
    assert MARKER in said[3]
    heap = b"\n".join([*kept.values(), *(text.encode() for text in said)])
    found = [(number, form) for number in range(MANY) for form in forms(canary(number)) if form in heap]
    assert found == []
    assert heap.count(b"***") > 100


def test_a_request_whose_credential_does_not_resolve_is_on_record_and_told_by_name_d65(
    workspace: Workspace,
) -> None:
    text = (
        HEAD
        + "keychain: [{name: api, kind: env, variable: NO_SUCH_VARIABLE}]\n"
        + "workflow: [{step: start, tool: {kind: noop}}]\n"
    )
    code, document = workspace.json("run", workspace.write(text))
    message = 'keychain entry "api": the environment variable "NO_SUCH_VARIABLE" is not set'
    assert (code, document["status"], document["steps"]) == (1, "error", [])
    assert document["error"] == {"kind": "credential", "message": message}
    events = workspace.call("events", document["execution_id"], "--format", "jsonl").stdout.splitlines()
    names = [json.loads(line)["name"] for line in events]
    assert names == ["playbook.execution.requested", "playbook.request.evaluated", "playbook.processed"]


def test_a_stored_secret_is_used_and_a_new_version_is_on_record_d84(workspace: Workspace) -> None:
    text = (
        HEAD
        + "keychain: [{name: api, kind: stored}]\n"
        + "workflow: [{step: start, tool: {kind: secrets, input: {name: api}}}]\n"
    )
    file = workspace.write(text)
    for version in (1, 2):
        assert workspace.call("secrets", "set", "api", input=f"value number {version}").returncode == 0
        code, document = workspace.json("run", file)
        data = {"name": "api", "resolves": True, "version": f"stored-{version}"}
        assert (code, document["output"]["data"]) == (0, data)
    events = workspace.call("events", "last", "--format", "jsonl").stdout
    assert '"keychain":{"api":"stored-2"}' in events
    assert workspace.call("secrets", "rotate").returncode == 0
    assert workspace.call("run", file).returncode == 0
    assert workspace.call("secrets", "rm", "api").returncode == 0
    assert workspace.call("run", file).returncode == 1


def test_the_keychain_example_of_the_documents_runs_with_stored_secrets_d97(workspace: Workspace) -> None:
    from tests.services import PASSWORD, postgres

    server = postgres()
    seed = (ROOT / "tests/fixtures/seeds/002_2.1_keychain.yaml").read_text("utf-8")
    keychain = seed[seed.index("keychain:") :].partition("workflow:")[0]
    text = f"""{HEAD}{keychain}
workflow:
- step: start
  tool:
  - name: ask
    kind: postgres
    auth: pg_k8s
    query: "SELECT length({{{{ keychain.openai_token }}}}) AS characters"
"""
    file = workspace.write(text)
    code, document = workspace.json("run", file)
    assert (code, document["status"], document["error"]["kind"]) == (1, "error", "credential")
    message = document["error"]["message"]
    assert message.startswith('2 keychain entries do not resolve: keychain entry "openai_token": it has no field')
    assert "add provider and key to the entry, or store the value: noetl secrets set openai_token" in message
    assert message.endswith("or store a JSON object of them: noetl secrets set pg_k8s")

    login = {"host": "127.0.0.1", "port": server.port, "user": "postgres", "password": PASSWORD, "database": "postgres"}
    assert workspace.call("secrets", "set", "openai_token", input="sk-canary-0123").returncode == 0
    assert workspace.call("secrets", "set", "pg_k8s", input=json.dumps(login)).returncode == 0
    code, document = workspace.json("run", file)
    assert (code, document["output"]["data"]) == (0, [{"characters": 14}])
    events = workspace.call("events", "last", "--format", "jsonl").stdout
    assert '"keychain":{"openai_token":"stored-1","pg_k8s":"stored-1"}' in events


def test_a_cassette_of_an_execution_with_30_canaries_has_none_of_them(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(canary(25) + "\n")
    assert workspace.call("secrets", "set", "canary", input=canary(26)).returncode == 0
    with echoing() as at:
        workspace.write(child(at, outside), "child.yaml")
        id = workspace.call("run", workspace.write(playbook(at, outside))).stdout.partition("\n")[0]
    made = workspace.call("record", id, "-o", str(tmp_path / "tape" / "x.cassette.yaml"), "--yes")
    assert (made.returncode, made.stderr) == (0, "")
    files = {file: file.read_bytes() for file in (tmp_path / "tape").rglob("*") if file.is_file()}
    bodies = [gzip.decompress(body) if file.suffix == ".gz" else body for file, body in files.items()]
    assert len(bodies) > 1, "one answer is large"
    assert sum(body.count(MARKER.encode()) for body in bodies) > MANY / 2
    found = [
        (number, form)
        for number in range(MANY)
        for form in forms(canary(number))
        for body in (*bodies, made.stdout.encode())
        if form in body
    ]
    assert found == []


def test_neither_rows_nor_the_details_of_a_database_show_a_canary(workspace: Workspace, tmp_path: Path) -> None:
    from tests.services import PASSWORD, postgres

    server = postgres()
    dsn = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{server.port}/postgres"
    workspace.environment["DSN"] = dsn
    table = f"canaries_{tmp_path.name[-8:].replace('-', '_')}"
    on = {"when": "{{ event.name is defined }}"}
    make = f"CREATE TABLE {table} (token text PRIMARY KEY)"
    put = f"INSERT INTO {table} VALUES ({{{{ keychain.k0 }}}})"
    tasks: dict[str, dict[str, object]] = {
        "start": {"command": make},
        "put": {"command": put},
        "again": {"command": put},
        "wrong": {"query": "SELECT {{ keychain.k1 }}::text::int"},
        "look": {"query": f"SELECT token, '{MARKER}' AS note FROM {table} WHERE token = {{{{ keychain.k0 }}}}"},
        "copy": {
            "copy": {
                "query": f"SELECT token, repeat('x', 90000) FROM {table} WHERE token = {{{{ keychain.k0 }}}}",
                "to": "csv",
            }
        },
        "drop": {"command": f"DROP TABLE {table}"},
    }
    names = [*tasks, "end"]
    workflow = [
        {
            "step": name,
            "tool": {"kind": "postgres", "auth": "pg", **tasks[name]},
            "next": {"arcs": [{"step": names[place + 1], **on}]},
        }
        for place, name in enumerate(tasks)
    ]
    pg = {"name": "pg", "kind": "postgres_credential", "dsn": {"env": "DSN"}}
    keychain = [entry(0, "", tmp_path), entry(1, "", tmp_path), pg]
    text = HEAD + f"keychain: {json.dumps(keychain)}\nworkflow: {json.dumps(workflow)}\n"
    code, document = workspace.json("run", workspace.write(text))
    said = workspace.call("events", "last", "--format", "jsonl").stdout + json.dumps(document)
    ran = {step["step"]: step["status"] for step in document["steps"]}
    assert {name for name, status in ran.items() if status != "ok"} == {"again", "wrong"}, document
    assert "violates unique constraint" in said
    assert MARKER in said
    assert code == 0
    kept = [file.read_bytes() for file in workspace.folder.rglob("*") if file.is_file() and file.suffix != ".yaml"]
    heap = b"\n".join([*kept, said.encode()])
    secrets = [canary(0), canary(1), dsn, PASSWORD]
    assert [form for each in secrets for form in forms(each) if form in heap] == []


STREAMS = 300  # rows with a canary: more than a chunk, so that some canary is at the border of two

# Each task writes its result in chunks to the result store, and the log contains only a Ref.
STREAMED: dict[str, dict[str, object]] = {
    "shell": {
        "kind": "shell",
        "input": {"env": {"T": "{{ keychain.k0 }}"}},
        "sh": f'i=0; while [ $i -lt {STREAMS} ]; do printf "%s-%0300d-{MARKER}\\n" "$T" $i; i=$((i+1)); done',
    },
    "csv": {"kind": "duckdb", "to": "csv"},
    "json": {"kind": "duckdb", "to": "json"},
    "parquet": {"kind": "duckdb", "to": "parquet"},
}
for each in ("csv", "json", "parquet"):
    STREAMED[each]["query"] = (
        f"SELECT i, {{{{ keychain.k0 }}}} || i AS t, repeat('x', 300) AS x, '{MARKER}' AS m FROM range({STREAMS}) r(i)"
    )


def test_no_canary_is_in_a_result_that_was_streamed_to_the_store(workspace: Workspace, tmp_path: Path) -> None:
    on = {"when": "{{ event.name is defined }}"}
    names = ["start", *list(STREAMED)[1:], "end"]
    workflow = [
        {"step": name, "tool": tool, "next": {"arcs": [{"step": names[place + 1], **on}]}}
        for place, (name, tool) in enumerate(zip(names, STREAMED.values(), strict=False))
    ]
    text = HEAD + f"keychain: {json.dumps([entry(0, '', tmp_path)])}\nworkflow: {json.dumps(workflow)}\n"
    _, document = workspace.json("run", workspace.write(text))
    ran = {step["step"]: step["status"] for step in document["steps"]}
    assert ran == {"start": "ok", "csv": "ok", "json": "ok", "parquet": "error"}, document
    kept = [file.read_bytes() for file in workspace.folder.rglob("*") if file.is_file() and file.suffix != ".yaml"]
    heap = b"\n".join(kept)
    assert heap.count(MARKER.encode()) >= 3 * STREAMS
    assert [form for form in forms(canary(0)) if form in heap] == []
    assert heap.count(b"***") >= 3 * STREAMS
    said = workspace.call("show", "last").stdout
    assert "the rows contain the value of a credential, which Parquet cannot mask" in said
