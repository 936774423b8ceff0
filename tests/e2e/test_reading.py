"""The commands that look at executions, as a person calls them: exit codes, streams, signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from noetl.engine.commands import Signal
from noetl.runtime.embedded import open_embedded
from tests.unit.cli.executed import ENDED, LARGE, LEFT, large_file, mixed_file, parked

HELLO = Path(__file__).parents[2] / "examples" / "hello.yaml"
NOETL = Path(sys.executable).with_name("noetl")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return mixed_file(tmp_path_factory.mktemp("reading"))


def call(*arguments: str, db: str | None = None) -> tuple[int, str, str]:
    """`db`: named by the environment, and not by an option."""
    environment = {name: value for name, value in os.environ.items() if name != "NOETL_DB"}
    if db is not None:
        environment["NOETL_DB"] = db
    done = subprocess.run(
        [NOETL, *arguments], capture_output=True, text=True, encoding="utf-8", env=environment, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_database_is_named_by_an_option_or_by_the_environment(mixed: str) -> None:
    by_option = call("list", "--db", mixed)
    assert by_option == call("list", db=mixed)
    assert by_option == (
        0,
        "ID             PATH        STATUS       STARTED     DURATION\n"
        "0199b3c2-0004  demo/mixed  interrupted  2024-01-02  0.00 s\n"
        "0199b3c2-0000  demo/mixed  error        2024-01-02  0.00 s\n",
        "",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--open"],
        ["show", "last"],
        ["state", ENDED, "--at", "14"],
        ["events", "0199b3c2-0000", "--from", "30"],
        ["replay", ENDED],
        ["audit"],
    ],
    ids=lambda each: each[0],
)
def test_json_is_exactly_one_document_on_standard_output(mixed: str, arguments: list[str]) -> None:
    code, out, err = call(*arguments, "--db", mixed, "--format", "json")
    assert (code, err) == (0, "")
    assert isinstance(json.loads(out), dict | list)


def test_output_can_be_piped_and_says_beside_it_that_the_execution_failed(mixed: str) -> None:
    assert call("output", ENDED, "each", db=mixed) == (
        0,
        '[\n  {\n    "double": 0\n  },\n  {\n    "double": 2\n  }\n]\n',
        "",
    )
    assert call("output", ENDED, db=mixed) == (
        1,
        '{\n  "by": "hi"\n}\n',
        'error: rule: rule else of task "flaky_task" says fail\n',
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "0199b3c2"], 2, 'several execution ids start with "0199b3c2"'),
        (["show", "0299"], 2, 'no execution id starts with "0299"'),
        (["state", "last", "--at", "99"], 2, "--at 99: there is no such fact"),
        (["output", "last"], 1, f"{LEFT} has not ended"),
        (["list", "--limit", "0"], 2, "greater than or equal to 1"),
        (["list", "--status", "lost"], 2, '--status "lost" is unknown'),
    ],
)
def test_what_can_not_be_told_is_said_on_standard_error(mixed: str, arguments: list[str], code: int, said: str) -> None:
    ended, out, err = call(*arguments, db=mixed)
    assert (ended, out) == (code, "")
    assert said in err


def test_a_file_that_is_no_database_or_a_result_that_is_gone_is_exit_code_3(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("no database at all, but long enough to be looked at" * 100)
    code, out, err = call("show", "last", db=str(text))
    assert (code, out) == (3, "")
    assert "is not a database" in err
    db = large_file(tmp_path)
    for file in (tmp_path / "large.db-results" / LARGE).iterdir():
        file.unlink()
    code, out, err = call("output", "last", db=db)
    assert (code, out) == (3, "")
    assert "its file is missing" in err


def test_a_step_of_an_execution_is_explained_and_a_file_still_is(mixed: str) -> None:
    assert call("explain", "0199b3c2-0000", "never", db=mixed) == (
        0,
        '"never" did not run: no token reached it\n'
        "after start#1, arc 3 of start when ctx.n > 100: its guard was false\n"
        "  ctx.n = 2\n",
        "",
    )
    code, out, err = call("explain", "last", db=mixed)
    assert (code, out, err) == (
        2,
        "",
        "noetl: name the step to explain; its steps are start, each, gate, ask, flaky, never\n",
    )
    assert call("explain", "last", "ask", "--graph", "dot", db=mixed)[0] == 2
    assert call("explain", str(HELLO))[1].startswith("hello  examples/hello")


async def follow(db: Path, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        NOETL, "events", LEFT, "--db", str(db), "--follow", *arguments, stdout=PIPE, stderr=PIPE
    )


async def until(process: Process, word: bytes) -> list[bytes]:
    """The lines up to the one with that word."""
    assert process.stdout is not None
    lines: list[bytes] = []
    while not lines or word not in lines[-1]:
        lines.append(await process.stdout.readline())
        assert lines[-1], "it ended too soon"
    return lines


def test_a_log_is_followed_until_its_end(tmp_path: Path) -> None:
    db = tmp_path / "own.db"

    async def work() -> tuple[int | None, list[bytes], bytes]:
        async with open_embedded(db) as workspace, asyncio.timeout(120):
            await parked(workspace, LEFT)
            process = await follow(db, "--format", "jsonl")
            lines = await until(process, b"frame.parked")
            await workspace.command(LEFT, Signal(name="approve"))
            out, err = await process.communicate()
            return process.returncode, [*lines, *out.splitlines(keepends=True)], err

    code, lines, err = asyncio.run(work())
    assert (code, err) == (0, b"")
    told = [json.loads(line) for line in lines]
    assert [each["seq"] for each in told if "part" not in each] == list(range(1, 34))
    assert told[-1]["name"] == "playbook.processed"
    assert call("events", LEFT, "--format", "jsonl", db=str(db))[1] == b"".join(lines).decode()


def test_who_follows_may_leave(tmp_path: Path) -> None:
    db = tmp_path / "own.db"

    async def work() -> tuple[int | None, bytes]:
        async with open_embedded(db) as workspace, asyncio.timeout(120):
            await parked(workspace, LEFT)
            process = await follow(db)
            await until(process, b"frame.parked")
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
            return process.returncode, err

    assert asyncio.run(work()) == (130, b"")


def test_who_follows_what_nobody_runs_is_told_so(mixed: str) -> None:
    async def work() -> bytes:
        async with asyncio.timeout(120):
            process = await follow(Path(mixed))
            assert process.stderr is not None
            said = await process.stderr.readline()
            process.send_signal(signal.SIGINT)
            await process.communicate()
            return said

    said = f"no process runs it now: continue with noetl resume 0199b3c2-0004-7000 --db {mixed}\n"
    assert asyncio.run(work()) == said.encode()
