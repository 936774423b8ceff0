"""A process is killed at each failpoint (test 3); the next process continues its executions without loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from noetl.failpoints import FAILPOINTS, VARIABLE
from tests.chaos.crash_workspace import KILLED, CrashWorkspace
from tests.chaos.journey import IN_FLIGHT, Api, serving
from tests.e2e.processes import Workspace
from tests.e2e.serving import serving as serving_flaky
from tests.playbooks import HEAD

SHORT, LONG = 20, 300  # iterations; a long journey writes a snapshot
LATER = (
    "sqlite.before-commit:2", "sqlite.before-commit:40", "sqlite.after-commit:45", "sqlite.append.torn:40",
    "control.before-commit:20", "control.after-commit:3", "control.after-commit:40",
    "control.before-dispatch:35", "worker.before-call:12", "worker.after-call:30", "worker.after-store:2",
    "worker.after-report:150", "files.put.after-rename:2", "files.put.after:3", "worker.after-store-value:5",
    "worker.before-store-value:9", "worker.before-decide:2",
)  # fmt: skip

IN_CHILD = "worker.after-call:36"  # of a short journey

# The log grows by 18 MB, so that its file is written back into the database.
HEAVY = HEAD + (
    'workload: {text: ""}\n'
    "workflow:\n"
    "- step: start\n"
    '  loop: {in: "{{ range(300) }}", iterator: n, spec: {mode: parallel, max_in_flight: 10}}\n'
    '  tool: {kind: noop, input: {n: "{{ iter.n }}", text: "{{ workload.text }}"}}\n'
    "  next: {arcs: [{step: last}]}\n"
    "- {step: last, tool: {kind: noop, input: {all: done}}}\n"
)
WAITING = HEAD + (
    "workflow:\n"
    "- step: start\n"
    "  tool: {kind: wait, signal: go}\n"
    '  set: {ctx.got: "{{ output.data }}"}\n'
    "  next: {arcs: [{step: last}]}\n"
    '- {step: last, tool: {kind: noop, input: {got: "{{ ctx.got }}"}}}\n'
)


FLAKY = HEAD + (
    'workload: {url: ""}\n'
    "workflow:\n"
    "- step: start\n"
    '  tool: {kind: http, method: POST, url: "{{ workload.url }}/flaky/a?fails=2", json: {}, '
    "spec: {retry: {attempts: 3, delay: 0.01}}}\n"
)


class Undisturbed(NamedTuple):
    output: dict[str, Any]
    paths: frozenset[str]


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Undisturbed]:
    """The result of a journey without kills, computed once for each number of iterations."""
    made: dict[int, Undisturbed] = {}

    def journey(count: int) -> Undisturbed:
        if count not in made:
            with serving() as api:
                workspace = CrashWorkspace(tmp_path_factory.mktemp("undisturbed"), api, count)
                document = workspace.go_on()
                paths = frozenset(api.seen[document["execution_id"]])
                made[count] = Undisturbed(document["output"], paths)
        return made[count]

    return journey


def check_the_end(workspace: CrashWorkspace, document: dict[str, Any], expected: Undisturbed) -> None:
    execution_id = document["execution_id"]
    assert document["output"] == expected.output
    assert frozenset(workspace.api.seen[execution_id]) == expected.paths
    assert len(workspace.api.keys[execution_id]) == len(expected.paths), (
        "an effect was repeated with another idempotency key"
    )
    assert workspace.api.repeated() <= IN_FLIGHT
    workspace.check_sound(execution_id)
    assert [file.name for file in Path(f"{workspace.db}-locks").iterdir()] == ["making.lock"]


def by_journey(name: str, count: int, api: Api, folder: Path, expected: Undisturbed) -> None:
    workspace = CrashWorkspace(folder, api, count)
    assert workspace.killed_at(name, *workspace.start).returncode == KILLED, "the process did not reach the failpoint"
    check_the_end(workspace, workspace.go_on(), expected)


def by_resume(name: str, api: Api, folder: Path, expected: Undisturbed) -> None:
    """Two processes are killed: the second one while it takes over the execution of the first."""
    workspace = CrashWorkspace(folder, api, SHORT)
    assert workspace.killed_at("worker.after-call:20", *workspace.start).returncode == KILLED
    workspace.look()
    assert workspace.killed_at(name, "resume", "last").returncode == KILLED, "the process did not reach the failpoint"
    check_the_end(workspace, workspace.go_on(), expected)


def by_signal(name: str, api: Api, folder: Path) -> None:
    """The signal is in the log and still in the inbox: the next owner receives it again."""
    workspace = CrashWorkspace(folder, api, SHORT)
    workspace.environment[VARIABLE] = name
    with workspace.started("run", workspace.write(WAITING, "waiting.yaml")) as run:
        assert run.read_until("… start")[-1].startswith("… start")
        assert Workspace(folder).call("signal", "last", "go", "--data", "{n: 1}").returncode == 0
        assert run.end()[0] == KILLED, "the process did not reach the failpoint"
    del workspace.environment[VARIABLE]
    assert workspace.go_on()["output"]["data"] == {"got": {"n": 1}}
    workspace.check_sound("last")


def by_much(name: str, api: Api, folder: Path) -> None:
    workspace = CrashWorkspace(folder, api, SHORT)
    text = "this much text is stored in the log " * 1_600
    workspace.write(f'{{"text": "{text}"}}', "text.json")
    start = ("run", workspace.write(HEAVY, "heavy.yaml"), "--workload", "text.json")
    assert workspace.killed_at(name, *start).returncode == KILLED, "the process did not reach the failpoint"
    document = workspace.go_on()
    assert (document["steps"][0]["iterations"], document["output"]["data"]) == (
        {"count": 300, "succeeded": 300, "failed": 0}, {"all": "done"},
    )  # fmt: skip
    workspace.check_sound("last")


def by_values(name: str, api: Api, folder: Path) -> None:
    """Large values of ctx, step and iter survive the kill."""
    workspace = CrashWorkspace(folder, api, SHORT)
    playbook = Path(__file__).parents[1] / "e2e" / "playbooks" / "large_values.yaml"
    start = ("run", playbook, "--set", "bytes=50000")
    assert workspace.killed_at(name, *start).returncode == KILLED, "the process did not reach the failpoint"
    document = workspace.go_on()
    assert document["output"]["data"] == {
        "ids": list(range(8)), "report": 8, "reported": 8, "collected": [0, 1, 2, 1, 2, 3, 2, 3, 4],
        "all": 64, "each": [8] * 8, "half": 32,
    }  # fmt: skip
    workspace.check_sound("last")


def by_tries(name: str, api: Api, folder: Path) -> None:
    """The next process makes the call again, with all its tries and the same idempotency key."""
    workspace = CrashWorkspace(folder, api, SHORT)
    with serving_flaky() as flaky:
        start = ("run", workspace.write(FLAKY, "flaky.yaml"), "--set", f"url={flaky.url}")
        assert workspace.killed_at(name, *start).returncode == KILLED, "the process did not reach the failpoint"
        assert workspace.go_on()["output"]["data"] == {"turn": 3}
        assert len({each["Idempotency-Key"] for each in flaky.headers["/flaky/a"]}) == 1
    workspace.check_sound("last")


@pytest.mark.parametrize("name", [*FAILPOINTS, *LATER])
def test_the_next_process_continues_after_a_kill_at_a_failpoint(
    name: str, api: Api, undisturbed: Callable[[int], Undisturbed], tmp_path: Path
) -> None:
    match name:
        case "sqlite.hold.before-take-over" | "sqlite.hold.after-take-over":
            by_resume(name, api, tmp_path, undisturbed(SHORT))
        case "sqlite.inbox.before-done":
            by_signal(name, api, tmp_path)
        case "sqlite.checkpoint.before":
            by_much(name, api, tmp_path)
        case _ if "store-value" in name or "before-decide" in name:
            by_values(name, api, tmp_path)
        case "worker.before-next-try":
            by_tries(name, api, tmp_path)
        case "sqlite.snapshot.before" | "sqlite.snapshot.after" | "control.before-snapshot":
            by_journey(name, LONG, api, tmp_path, undisturbed(LONG))
        case _:
            by_journey(name, SHORT, api, tmp_path, undisturbed(SHORT))


@pytest.mark.parametrize("name", ["control.before-commit", "control.after-commit", "control.after-commit:2"])
def test_a_repeated_cancel_reaches_the_child_after_the_first_one_was_killed(
    name: str, api: Api, tmp_path: Path
) -> None:
    workspace = CrashWorkspace(tmp_path, api, SHORT)
    assert workspace.killed_at(IN_CHILD, *workspace.start).returncode == KILLED
    assert workspace.killed_at(name, "cancel", "last").returncode == KILLED, "the process did not reach the failpoint"
    requests = api.requests
    assert workspace.json("cancel", "last")[1]["status"] == "cancelled"
    code, listed = workspace.json("list", "--status", "cancelled")
    assert (code, len(listed), api.requests) == (0, 2, requests)
    workspace.check_sound("last")


@pytest.mark.parametrize("name", ["control.before-commit", "control.after-commit"])
def test_a_repeated_pause_works_after_the_first_one_was_killed(
    name: str, api: Api, undisturbed: Callable[[int], Undisturbed], tmp_path: Path
) -> None:
    workspace = CrashWorkspace(tmp_path, api, SHORT)
    assert workspace.killed_at(IN_CHILD, *workspace.start).returncode == KILLED
    assert workspace.killed_at(name, "pause", "last").returncode == KILLED, "the process did not reach the failpoint"
    code, document = workspace.json("pause", "last")
    assert (code, document["status"]) == (0, "paused")
    check_the_end(workspace, workspace.go_on(), undisturbed(SHORT))
