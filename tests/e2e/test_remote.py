"""The command line against a server in a process of its own: it says the same as against a file."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.processes import Started, Workspace
from tests.playbooks import HEAD
from tests.ports import free_port

HELLO = HEAD + (
    "workload: {name: you}\nworkflow:\n"
    '- {step: start, tool: {kind: noop, input: {text: "hello, {{ workload.name }}"}}}\n'
)
WAITING = HEAD.replace("path: t", "path: remote/waiting") + (
    "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n  next: {arcs: [{step: after}]}\n"
    "- step: after\n  tool: {kind: noop, input: {n: 1}}\n"
)
LARGE = "x" * 70_000  # more than the log holds
LOOP = HEAD + (
    f"workload: {{text: {LARGE}}}\n"
    'workflow:\n- step: start\n  loop: {in: "{{ range(3) }}", iterator: i}\n'
    '  tool: {kind: noop, input: {text: "{{ workload.text }}"}}\n'
)
WRONG = HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: stat}]}\n"
CALLER = HEAD.replace("path: t", "path: remote/caller") + (
    "workflow:\n- step: start\n  tool: {kind: playbook, path: CHILD}\n"
)


class Client(Workspace):
    """A folder, the command `noetl` in it, and a server that it goes to."""

    def __init__(self, folder: Path, url: str, db: Path) -> None:
        super().__init__(folder)
        self.db = db
        self.url = url
        del self.environment["NOETL_DB"]
        self.environment |= {"NOETL_SERVER": url, "XDG_CONFIG_HOME": str(folder / "config")}

    def file(self, text: str, name: str = "t.yaml") -> str:
        return str(self.write(text, name))


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[Started, str]]:
    workspace = Workspace(folder)
    with workspace.started("server", "--db", workspace.db, *options) as server:
        found = re.search(r"http://\S+", server.error_line())
        assert found is not None
        yield server, found[0]
        server.process.terminate()
        server.end()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("remote")
    with serving(folder, "--port", "0") as (_, url):
        yield Client(folder, url, folder / "noetl.db")


@pytest.fixture(scope="module")
def looped(client: Client) -> Client:
    """One that has run a loop with results that are stored."""
    assert client.call("run", client.file(LOOP)).returncode == 0
    return client


def test_a_run_is_told_as_one_in_this_process_is(client: Client) -> None:
    file = client.file(HELLO)
    here = client.call("run", file, "--set", "name=me", "--server", "local", "--db", client.folder / "here.db")
    there = client.call("run", file, "--set", "name=me")
    assert (there.returncode, there.stderr) == (0, "")
    assert _without_figures(there.stdout) == _without_figures(here.stdout)
    assert "text: hello, me" in there.stdout


def _without_figures(text: str) -> list[str]:
    """Without ids and times, which differ, and without starts of steps, which are not shown for short steps."""
    lines = re.sub(r"[0-9a-f-]{36}|\d+\.\d+ s", "…", text).splitlines()
    return [line for line in lines if not line.startswith("▶")]


def test_the_document_of_a_run_is_the_same(client: Client) -> None:
    code, document = client.json("run", client.file(HELLO))
    _, here = client.json("run", client.file(HELLO), "--server", "local", "--db", client.folder / "here.db")
    assert (code, list(document)) == (0, list(here))
    assert document["output"] == here["output"] == {"status": "ok", "data": {"text": "hello, you"}}


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--format", "json"],
        ["show", "last"],
        ["show", "last", "--format", "json"],
        ["events", "last"],
        ["events", "last", "--from", "4", "--format", "jsonl"],
        ["state", "last", "--at", "6"],
        ["state", "last", "--format", "json"],
        ["output", "last"],
        ["output", "last", "start"],
        ["replay", "last", "--format", "json"],
        ["audit", "last"],
        ["explain", "last", "start"],
        ["show", "0000"],
        ["playbooks", "--format", "json"],
        ["playbooks", "show", "t"],
        ["playbooks", "versions", "t", "--format", "json"],
        ["playbooks", "show", "nowhere"],
    ],
    ids=" ".join,
)
def test_what_is_said_of_a_server_is_what_its_file_says(looped: Client, arguments: list[str]) -> None:
    there, here = looped.call(*arguments), looped.call(*arguments, "--db", looped.db)
    flag = f" --db {looped.db}"  # which hints repeat
    said = here.stdout.replace(flag, "")
    assert (there.returncode, _ages_apart(there.stdout)) == (here.returncode, _ages_apart(said))
    assert there.returncode == 0 or there.stderr == here.stderr.replace(flag, "")


def _ages_apart(text: str) -> str:
    return re.sub(r"\d+ (s|min) ago|just now", "lately", text)


def test_what_is_registered_is_run_by_its_path_and_version(client: Client) -> None:
    for words in ("one", "two"):
        text = HEAD.replace("path: t", "path: remote/said") + (
            f"workload: {{n: 1}}\nworkflow: [{{step: start, tool: {{kind: noop, input: {{says: {words}}}}}}}]\n"
        )
        assert client.call("register", client.file(text, "said.yaml")).returncode == 0
    code, document = client.json("run", "remote/said@1")
    assert (code, document["output"]["data"]) == (0, {"says": "one"})
    done = client.call("run", "remote/said", "--set", "m=2")
    assert (done.returncode, done.stdout) == (2, "")
    done = client.call("run", "remote/said", "--set", "m=2", "--allow-extra")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "  says: two")
    assert '"m"' in done.stderr, "a value that it does not know"
    done = client.call("run", "remote/none")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such file, and no playbook is registered" in done.stderr


def test_problems_are_told_with_their_lines_as_by_check(client: Client) -> None:
    file = client.file(WRONG, "wrong.yaml")
    done = client.call("run", file)
    told = client.call("check", file, "--format", "plain").stdout.splitlines()[:-1]
    *problems, last = done.stderr.splitlines()
    assert (done.returncode, problems) == (2, told)
    assert last.startswith("noetl: the playbook has 1 problem; the request is logged as ")
    code, document = client.json("run", file)
    assert (code, document["error"]["kind"]) == (2, "problems")
    shown = client.json("show", document["execution_id"])[1]
    assert (shown["status"], shown["error"]["message"][:26]) == ("error", "the playbook has 1 problem")
    never = client.call("retry", document["execution_id"])
    assert (never.returncode, "it never started: the playbook has 1 problem" in never.stderr) == (1, True)
    assert [each["code"] for each in document["problems"] if each["severity"] == "error"] == ["unknown-step"]


def test_a_playbook_that_lies_beside_its_caller_is_to_be_registered_first(client: Client) -> None:
    child = client.write(HELLO.replace("path: t", "path: remote/child"), "child.yaml")
    done = client.call("run", client.file(CALLER.replace("CHILD", "./child.yaml"), "caller.yaml"))
    assert done.returncode == 2
    assert 'caller.yaml:6:32: "./child.yaml" is a file beside this one' in done.stderr
    assert f'first noetl register {child}, and call it by its path "remote/child"' in done.stderr
    assert client.call("register", child).returncode == 0
    done = client.call("run", client.file(CALLER.replace("CHILD", "remote/child"), "caller.yaml"))
    assert (done.returncode, "hello, you" in done.stdout) == (0, True)


def test_ctrl_c_ends_the_looking_on_and_the_execution_goes_on(client: Client) -> None:
    with client.started("run", client.file(WAITING)) as run:
        id = run.read_until("waits for the signal")[0]
        run.process.send_signal(signal.SIGINT)
        code, _, errors = run.end()
    assert code == 130
    assert f"the execution continues on the server; see it with: noetl show {id[:18]}" in errors
    assert client.json("show", id)[1]["status"] == "running"
    with client.started("resume", id) as looking:
        looking.read_until(id)
        assert client.call("signal", id, "go", "--data", "{by: ann}").returncode == 0
        assert looking.end()[0] == 0
    assert client.json("show", id)[1]["status"] == "ok"


def test_an_execution_is_started_paused_gone_on_with_cancelled_and_taken_up(client: Client) -> None:
    code, started = client.json("run", client.file(WAITING), "--detach")
    assert (code, started["status"]) == (0, "running")
    id = started["execution_id"]
    assert client.json("pause", id) == (0, {"execution_id": id, "status": "paused"})
    assert "already paused" in client.call("pause", id).stdout
    assert client.json("resume", id, "--detach") == (0, {"execution_id": id, "status": "running"})
    done = client.call("signal", id, "another")
    assert (done.returncode, "nothing waits for the signal" in done.stderr) == (1, True)
    assert client.json("cancel", id, "--reason", "enough") == (0, {"execution_id": id, "status": "cancelled"})
    assert client.call("cancel", id).returncode == 1
    code, shown = client.json("resume", id)
    assert (code, shown["status"]) == (1, "cancelled")
    with client.started("retry", id) as retry:
        retry.read_until("waits for the signal")
        client.call("signal", id, "go")
        assert retry.end()[0] == 0


def test_hints_carry_the_server_that_the_command_line_named_and_no_other(client: Client) -> None:
    """Whom the environment or the current context names, they go to anyway."""
    assert client.call("context", "set", "up", client.url).returncode == 0
    there = ("--server", "up")
    done = client.call("run", client.file(WAITING), "--detach", *there)
    id = done.stdout.strip()
    assert done.stderr.endswith(f"follow it with: noetl events {id[:18]} --server up --follow\n")
    with client.started("resume", id, *there) as looking:
        told = looking.read_until("waits for the signal")[-1]
        assert told.endswith(f"noetl signal {id[:18]} go --server up")
        paused = client.call("pause", id, *there).stdout
        code, closing, _ = looking.end()
    on = f"continue with: noetl resume {id[:18]} --server up"
    assert (paused, code, closing.splitlines()[-1]) == (f"{id[:18]}: paused; {on}\n", 130, on)
    assert f"─ noetl signal {id[:18]} go --server up\n" in client.call("show", id, *there).stdout
    assert "see `noetl list --server up`" in client.call("show", "0000", *there).stderr
    assert client.call("resume", id, "--detach").stderr.endswith(f"noetl events {id[:18]} --follow\n")
    client.call("cancel", id)


def test_pausing_ends_the_looking_on(client: Client) -> None:
    with client.started("run", client.file(WAITING), "--format", "json") as run:
        assert run.process.stderr is not None
        id = next(line for line in run.process.stderr if re.match(r"[0-9a-f-]{36}$", line)).strip()
        client.call("pause", id)
        code, document, _ = run.end()
    assert (code, json.loads(document)["status"]) == (130, "paused")
    client.call("cancel", id)


def test_events_are_followed_until_the_end(client: Client) -> None:
    id = client.json("run", client.file(WAITING), "--detach")[1]["execution_id"]
    with client.started("events", id, "--follow", "--format", "jsonl") as events:
        events.read_until("frame.parked")
        client.call("signal", id, "go")
        code, rest, _ = events.end()
    names = [json.loads(line)["name"] for line in rest.splitlines()]
    assert (code, names[0], names[-1]) == (0, "frame.resumed", "playbook.processed")


def test_what_a_child_waits_for_is_told_to_whoever_looks_at_its_parent(client: Client) -> None:
    assert client.call("register", client.file(WAITING)).returncode == 0
    with client.started("run", client.file(CALLER.replace("CHILD", "remote/waiting"))) as run:
        told = run.read_until("waits for the signal")[-1]
        child = told.rpartition("noetl signal ")[2].split()[0]
        assert client.call("signal", child, "go").returncode == 0
        assert run.end()[0] == 0


def test_secrets_of_a_server_are_kept_there(client: Client) -> None:
    set_there = client.call("secrets", "set", "api", "--value", "-", input="s3cret-value")
    assert (set_there.returncode, set_there.stdout) == (0, "api: version 1 is stored\n")
    assert [each["name"] for each in json.loads(client.call("secrets", "list", "--format", "json").stdout)] == ["api"]
    here = client.call("secrets", "list", "--format", "json", "--db", client.db)
    assert [each["name"] for each in json.loads(here.stdout)] == ["api"]
    assert client.call("secrets", "rm", "api").returncode == 0
    assert client.call("secrets", "rm", "api").returncode == 1
    assert client.call("secrets", "rotate").returncode == 2


def test_what_works_on_the_stores_themselves_is_refused_and_drops_nothing(looped: Client) -> None:
    done = looped.call("gc", "--older-than", "0s")
    assert (done.returncode, "name the file with --db PATH" in done.stderr) == (2, True)
    assert looped.call("output", "last", "start").returncode == 0


def test_a_run_looks_on_again_when_its_server_was_killed_and_is_back(tmp_path: Path) -> None:
    port = ("--port", str(free_port()))
    with serving(tmp_path, *port) as (server, url):
        client = Client(tmp_path, url, tmp_path / "noetl.db")
        with client.started("run", client.file(WAITING)) as run:
            id = run.read_until("waits for the signal")[0]
            server.process.kill()
            server.process.wait()
            assert client.call("show", id).returncode == 3
            with serving(tmp_path, *port):
                assert client.call("signal", id, "go").returncode == 0
                code, rest, errors = run.end()
    assert (code, errors) == (0, "")
    assert "✓ after" in rest


def test_nobody_there_is_said_with_the_address_and_exit_code_3(tmp_path: Path) -> None:
    client = Client(tmp_path, "http://127.0.0.1:1", tmp_path / "noetl.db")
    words = "noetl: no server answers at http://127.0.0.1:1: connection refused\n"
    for line in ("list", "show last", "run t.yaml", "cancel last", "secrets list", "token list", "playbooks"):
        client.write(HELLO)
        done = client.call(*line.split())
        assert (line, done.returncode, done.stderr) == (line, 3, words)
    code, document = client.json("run", "t.yaml")
    assert (code, document["error"]["kind"]) == (3, "unavailable")
    assert not client.db.exists()


def test_detach_needs_a_server(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    done = workspace.call("run", workspace.write(HELLO), "--detach")
    assert (done.returncode, "--detach needs a server" in done.stderr) == (2, True)
    assert not workspace.db.exists()


def test_an_embedded_run_imports_nothing_that_speaks_to_servers(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    program = (
        "import sys; from noetl.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "run", str(workspace.write(HELLO))],
        capture_output=True, text=True, check=True, env=workspace.environment, timeout=60,
    )  # fmt: skip
    heavy = {
        "aiohttp",
        "noetl.client",
        "noetl.session.remote",
        "noetl.server",
        "typer",
    }
    assert heavy & set(done.stderr.split()) == set()
    assert "noetl.session.connect" in done.stderr.split()


def test_modules_beside_the_file_go_to_the_server_with_it_d108(client: Client) -> None:
    client.write("def twice(n):\n    return 2 * n\n", "rates.py")
    text = HEAD.replace("path: t", "path: remote/libs") + (
        "workflow:\n- {step: start, tool: {kind: python, code: 'import rates; result = rates.twice(21)'}}\n"
    )
    file = client.file(text, "libs.yaml")
    code, document = client.json("run", file)
    assert (code, document["output"]["data"]) == (0, 42)
    shown = client.call("playbooks", "show", "remote/libs").stdout
    assert shown.endswith("libs:\n  rates.py: |\n    def twice(n):\n        return 2 * n\n")
    assert client.call("register", file).stdout.split() == ["remote/libs", "version", "1", "known", "with", "rates.py"]
    client.write("def twice(n):\n    return 3 * n\n", "rates.py")
    _, forked = client.json("fork", document["execution_id"], "--playbook", file, "--yes")
    assert forked["output"]["data"] == 63  # the task is done again, because its module differs
    assert client.json("run", "remote/libs@1")[1]["output"]["data"] == 42


def test_a_server_that_is_open_names_the_setting_for_local_addresses(client: Client) -> None:
    text = HEAD.replace("path: t", "path: remote/local") + (
        f"workflow:\n- {{step: start, tool: {{kind: http, url: '{client.url}/health'}}}}\n"
    )
    code, document = client.json("run", client.file(text, "local.yaml"))
    assert code == 1
    assert (
        "127.0.0.1 is a loopback address; on a server, NOETL_ALLOW_NETWORKS can allow it"
        in document["error"]["message"]
    )
