"""A disk that is full, damaged or read-only: a clear message, no loss, and progress when it is usable (tests 9, 15)."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.crash_workspace import KILLED, CrashWorkspace
from tests.chaos.disks import SmallDisk, small_disk
from tests.chaos.journey import IN_FLIGHT, ITEMS, Api, serving
from tests.e2e.processes import NOETL, Workspace
from tests.playbooks import HEAD

COUNT = 60
SPACE_AFTER_S = 1.5  # of the 10 s in which a commit is retried

# The output of `start` is too large for the log; `read` fetches it from the result store.
STORING = HEAD + (
    'workload: {text: ""}\n'
    "workflow:\n"
    "- step: start\n"
    '  tool: {kind: noop, input: {text: "{{ workload.text }}"}}\n'
    '  set: {ctx.text_ref: "{{ output.ref }}"}\n'
    "  next: {arcs: [{step: read}]}\n"
    "- step: read\n"
    '  tool: {kind: resolve, ref: "{{ ctx.text_ref }}"}\n'
    '  set: {ctx.chars: "{{ output.data.text | length }}"}\n'
    "  next: {arcs: [{step: last}]}\n"
    '- {step: last, tool: {kind: noop, input: {chars: "{{ ctx.chars }}"}}}\n'
)
LOOPING = HEAD + (
    'workload: {url: "", count: 0, items: []}\n'
    "workflow:\n"
    "- step: start\n"
    '  loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel}}\n'
    '  tool: {kind: noop, input: {id: "{{ iter.item.id }}"}}\n'
)
TEXT = "text that is large enough for the result store " * 2_000


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as made:
        yield made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


def at_request(number: int, what: Callable[[], None]) -> Callable[[int], None]:
    def on_request(count: int) -> None:
        if count == number:
            what()

    return on_request


def expected(api: Api, folder: Path) -> object:
    """The output of the journey on a disk with enough space."""
    folder.mkdir()
    return CrashWorkspace(folder, api, COUNT).go_on()["output"]


@pytest.mark.parametrize(
    ("request_number", "leave", "words"),
    [
        (25, 0, "storage full: no space for "),  # in the middle of a loop, for the log
        (8, 40_000, "storage full: no space for result "),  # for the first large result
    ],
)
def test_a_run_reports_a_full_disk_and_continues_without_loss_when_there_is_space(
    request_number: int, leave: int, words: str, api: Api, disk: SmallDisk, tmp_path: Path
) -> None:
    with serving() as other:
        output = expected(other, tmp_path / "elsewhere")
    workspace = CrashWorkspace(disk.folder, api, COUNT)
    api.on_request = at_request(request_number, lambda: disk.fill(leave))
    done = workspace.call(*workspace.start, "--format", "json")
    document = json.loads(done.stdout)
    id = document["execution_id"]
    assert (done.returncode, document["status"], document["error"]["kind"]) == (
        3,
        "interrupted",
        "unavailable",
    )
    assert document["error"]["message"].startswith(words)
    assert done.stderr.splitlines()[-1] == f"noetl: nothing is lost; continue with: noetl resume {id[:18]}"
    assert workspace.look().last == id
    disk.make_space()
    assert workspace.go_on()["output"] == output
    assert api.repeated() <= IN_FLIGHT
    workspace.check_sound(id)


def test_a_full_disk_loses_no_large_value_of_a_scope(api: Api, disk: SmallDisk) -> None:
    workspace = CrashWorkspace(disk.folder, api, COUNT)
    playbook = Path(__file__).parents[1] / "e2e" / "playbooks" / "large_values.yaml"
    done = workspace.call("run", playbook, "--set", "bytes=300000", "--format", "json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (3, "interrupted")
    assert document["error"]["message"].startswith("storage full: no space for result ")
    disk.grow(400)
    assert workspace.go_on()["output"]["data"]["collected"] == [0, 1, 2, 1, 2, 3, 2, 3, 4]
    workspace.check_sound(document["execution_id"])


def test_a_run_continues_by_itself_when_there_is_space_again(api: Api, disk: SmallDisk, tmp_path: Path) -> None:
    with serving() as other:
        output = expected(other, tmp_path / "elsewhere")
    workspace = CrashWorkspace(disk.folder, api, COUNT)
    asked: list[int] = []  # the number of requests when there was space again

    def make_space() -> None:
        asked.append(api.requests)
        disk.make_space()

    def fill() -> None:
        disk.fill()
        asyncio.get_running_loop().call_later(SPACE_AFTER_S, make_space)

    api.on_request = at_request(25, fill)
    code, document = workspace.json(*workspace.start)
    assert (code, document["output"]) == (0, output)
    # No call began while the log could not be written.
    assert asked[0] <= 25 + IN_FLIGHT
    assert api.repeated() == 0
    workspace.check_sound("last")


def test_a_loop_whose_items_cannot_be_stored_is_reported_and_starts_when_they_can(api: Api, tmp_path: Path) -> None:
    workspace = CrashWorkspace(tmp_path, api, COUNT)
    in_the_way = workspace.write("", f"{workspace.db.name}-results")
    file = workspace.write(LOOPING, "looping.yaml")
    code, document = workspace.json("run", file, "--workload", "workload.json")
    assert (code, document["status"], document["error"]) == (
        3,
        "interrupted",
        {"kind": "unavailable", "message": f'"{in_the_way}" cannot be created: Not a directory'},
    )
    in_the_way.unlink()
    document = workspace.go_on()
    assert document["steps"][0]["iterations"] == {"count": len(ITEMS), "succeeded": len(ITEMS), "failed": 0}
    workspace.check_sound("last")


def test_a_limit_on_the_size_of_files_is_reported_like_a_full_disk(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    file = workspace.write(HEAD + "workflow:\n- {step: start, tool: {kind: noop, input: {n: 1}}}\n")
    done = subprocess.run(
        ["prlimit", "--fsize=60000", NOETL, "run", file],
        capture_output=True, text=True, check=False, timeout=180,
        # Coverage writes a file, which would exceed the limit, too.
        env={name: value for name, value in workspace.environment.items() if not name.startswith("COVERAGE_")},
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == f'noetl: "{workspace.db}": disk I/O error; the disk may be full, over a quota, or broken\n'
    assert workspace.call("run", file).returncode == 0


def flip(file: Path) -> None:
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 1
    file.write_bytes(body)


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (flip, "has changed since it was stored"),
        (shorten, "has changed since it was stored"),
        (Path.unlink, "no result "),
    ],
)
def test_a_damaged_result_fails_the_step_that_reads_it_and_the_audit_finds_it(
    damage: Callable[[Path], None], words: str, tmp_path: Path, api: Api
) -> None:
    workspace = CrashWorkspace(tmp_path, api, COUNT)
    workspace.write(json.dumps({"text": TEXT}), "text.json")
    start = ("run", workspace.write(STORING, "storing.yaml"), "--workload", "text.json")
    assert workspace.killed_at("worker.after-report", *start).returncode == KILLED
    assert workspace.call("audit").returncode == 0
    (file,) = (file for file in Path(f"{workspace.db}-results").rglob("*") if file.is_file())
    damage(file)
    key = f"{file.parent.name}/{file.name}"

    code, document = workspace.json("resume", "last")
    assert (code, document["status"], document["error"]["kind"], document["error"]["run"]) == (
        1, "error", "reference", "read#1",
    )  # fmt: skip
    assert key in document["error"]["message"]
    assert words in document["error"]["message"]

    code, audit = workspace.json("audit")
    assert (code, [each["code"] for each in audit["findings"]]) == (1, ["result"])
    assert key in audit["findings"][0]["message"]
    output = workspace.call("output", "last", "start")
    assert (output.returncode, output.stdout, key in output.stderr) == (3, "", True)


def test_a_read_only_folder_is_reported_clearly(disk: SmallDisk) -> None:
    workspace = Workspace(disk.folder)
    file = workspace.write(HEAD + "workflow:\n- {step: start, tool: {kind: noop, input: {n: 1}}}\n")
    assert workspace.call("run", file).returncode == 0
    disk.forbid_writing()
    for arguments in (
        ("run", file),
        ("resume", "last"),
        ("run", file, "--db", disk.folder / "new" / "noetl.db"),
    ):
        done = workspace.call(*arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert "cannot be opened: " in done.stderr


def test_a_database_path_below_a_plain_file_is_reported_clearly(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    file = workspace.write(HEAD + "workflow:\n- {step: start, tool: {kind: noop, input: {n: 1}}}\n")
    code, document = workspace.json("run", file, "--db", file / "noetl.db")
    assert (code, document["error"]) == (
        3,
        {"kind": "unavailable", "message": f'"{file / "noetl.db"}" cannot be opened: Not a directory'},
    )
