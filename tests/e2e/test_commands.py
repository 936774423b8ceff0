"""The command `noetl` as a person calls it: exit codes, streams, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import noetl
from tests.playbooks import HEAD

ROOT = Path(__file__).parents[2]
NOETL = Path(sys.executable).with_name("noetl")
HELLO = ROOT / "examples" / "hello.yaml"


def call(*arguments: str | Path, input: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NOETL, *arguments],
        input=input,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        check=False,
    )


def ended(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def modules_of(*arguments: str | Path) -> set[str]:
    """The modules that a call has imported."""
    program = (
        "import sys, noetl.__main__ as m\ntry: m.main()\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return set(done.stderr.split())


def test_the_version_is_said() -> None:
    assert ended(call("--version")) == (0, f"noetl {noetl.__version__}\n", "")
    assert ended(call("-V")) == (0, f"noetl {noetl.__version__}\n", "")


def test_the_version_and_a_check_import_only_what_they_need() -> None:
    heavy = {"typer", "rich", "pydantic", "jinja2", "msgspec", "yaml", "importlib.metadata", "asyncio"}
    assert modules_of("--version") & heavy == set()
    assert modules_of("check", HELLO) & heavy == {"msgspec", "yaml"}


def test_without_a_command_help_is_shown_and_every_command_teaches_by_examples() -> None:
    commands = ("check", "explain", "migrate", "schema")
    helped = call("--help")
    assert helped.returncode == 0
    assert all(command in helped.stdout for command in commands)
    for command in commands:
        done = call(command, "--help")
        assert (done.returncode, f"noetl {command} " in done.stdout, "Examples:" in done.stdout) == (
            0,
            True,
            True,
        )


@pytest.mark.parametrize(
    "arguments", [["chek"], ["check"], ["check", "--format", "xml", "x"], ["explain", "--grph", "x"]]
)
def test_wrong_usage_exits_with_2_and_speaks_on_standard_error(arguments: list[str]) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: noetl" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_clean_playbook_exits_with_0() -> None:
    words = "no problems; sound: every token can reach an end, assuming that each guard can be true and can be false"
    assert ended(call("check", "examples/hello.yaml")) == (0, f"examples/hello.yaml: {words}\n", "")


def test_the_example_of_make_run_is_checked_and_explained() -> None:
    """D90."""
    assert call("check", "examples/pagination.yaml").returncode == 0
    done = call("explain", "examples/pagination.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "└→ cleanup  on failure" in done.stdout


def test_standard_input_is_read_and_json_is_all_there_is_on_standard_output() -> None:
    """D78."""
    done = call("check", "-", "--format", "json", input=HEAD + "workflow: []\n")
    assert (done.returncode, done.stderr) == (2, "")
    assert [(each["file"], each["code"], each["line"]) for each in json.loads(done.stdout)] == [
        ("<stdin>", "missing-key", 4),
    ]


def test_files_that_can_not_be_read_are_said_and_exit_with_2(tmp_path: Path) -> None:
    done = call("check", str(tmp_path / "no.yaml"), str(tmp_path))
    assert ended(done) == (
        2,
        "",
        f"noetl: {tmp_path}/no.yaml: there is no such file\nnoetl: {tmp_path}: there is no playbook in this folder\n",
    )
    assert call("explain", str(tmp_path)).returncode == 2
    assert call("migrate", str(tmp_path / "no.yaml")).returncode == 2


def test_migrated_text_goes_through_a_pipe_and_checks_clean() -> None:
    """D79."""
    old = HEAD + "workflow:\n- {step: start, tool: {kind: noop}, next: [{step: end}]}\n"
    migrated = call("migrate", "-", input=old)
    assert (migrated.returncode, "note: " in migrated.stderr) == (0, True)
    assert call("check", "-", input=migrated.stdout).returncode == 0


def test_refused_migrations_exit_with_2_and_print_nothing_on_standard_output() -> None:
    """D61, D79."""
    done = call("migrate", "-", input=HEAD + "workflow:\n- {step: start, pipe: [], tool: {kind: noop}}\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("<stdin>:5:17: error: reserved-word: ")


def test_a_picture_and_the_schema_are_written_to_files(tmp_path: Path) -> None:
    assert ended(call("explain", HELLO, "--graph", "svg", "-o", tmp_path / "h.svg")) == (0, "", "")
    assert ended(call("schema", "-o", tmp_path / "s.json")) == (0, "", "")
    assert (tmp_path / "h.svg").read_text().startswith("<svg ")
    assert json.loads((tmp_path / "s.json").read_text())["type"] == "object"


def test_a_reader_that_has_seen_enough_ends_the_command_in_silence(tmp_path: Path) -> None:
    steps = "".join(f"- {{step: s{number}, tool: {{kind: noop}}}}\n" for number in range(2_000))
    file = tmp_path / "many.yaml"
    file.write_text(f"{HEAD}workflow:\n- {{step: start, tool: {{kind: noop}}}}\n{steps}")
    with subprocess.Popen([NOETL, "check", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 141)


def test_an_interrupt_exits_with_130_and_no_traceback() -> None:
    """The first file is answered before the second is waited for, so the signal comes while it waits."""
    with subprocess.Popen(
        [NOETL, "check", "no.yaml", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"noetl: no.yaml: there is no such file\n"
        process.send_signal(signal.SIGINT)
        assert (process.stderr.read(), process.wait()) == (b"", 130)


def test_a_locale_without_unicode_gets_escapes_and_no_crash() -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [NOETL, "explain", HELLO],
        capture_output=True,
        text=True,
        encoding="ascii",
        env=environment,
        check=True,
    )
    assert "\\u25cf start\n" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full: run it on Linux")
def test_a_full_disk_is_said_and_exits_with_3() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([NOETL, "check", HELLO], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "noetl: No space left on device\n")
