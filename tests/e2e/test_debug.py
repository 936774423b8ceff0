"""A debugged execution survives the death of its process, and other processes reach it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.processes import PATIENCE_S, SLOW, Workspace
from tests.e2e.terminals import terminal
from tests.playbooks import HEAD

PAGES = (
    HEAD.replace("path: t", "path: shop/pages")
    + """\
workload: {log: ""}
workflow:
- step: start
  loop: {in: [1, 2, 3], iterator: page}
  tool:
  - name: get
    kind: python
    input: {log: "{{ workload.log }}", page: "{{ iter.page }}"}
    code: "def main(log, page): open(log, 'a').write(f'{page} '); return page"
  - {name: keep, kind: noop, set: {ctx.last: "{{ _prev }}"}}
"""
)


def test_a_killed_debugger_is_attached_again_and_nothing_is_repeated(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    file, log = workspace.write(PAGES), tmp_path / "log"
    point = ("--break", "start.keep", "--when", "iter.index == 1")
    with workspace.started("debug", file, "--set", f"log={log}", *point) as run:
        id = run.read_until("■ start.keep")[0]
        run.process.kill()
        run.process.wait()
    assert log.read_text() == "1 2 "
    listed = workspace.call("show", id)
    assert "■ start#1[1] is held before start.keep" in listed.stdout
    commands = "print _prev\nset ctx.seen 5\nstep\ncontinue\n"
    again = workspace.call("debug", id[:18], input=commands)
    assert again.returncode == 0, again.stderr
    assert "\n2\n" in again.stdout
    assert "■ start.get  start#1[2]  a step has ended here" in again.stdout
    assert log.read_text() == "1 2 3 "
    code, document = workspace.json("show", id)
    assert (code, document["status"], document["changes"][0]["set"]) == (0, "ok", {"ctx.seen": 5})
    assert workspace.call("audit", id).returncode == 0
    assert workspace.call("replay", id).returncode == 0


def test_a_child_is_held_as_soon_as_it_starts_and_after_its_process_was_killed(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.write(PAGES, "pages.yaml")
    call = "{kind: playbook, path: ./pages.yaml, input: {log: '{{ workload.log }}'}}"
    file = workspace.write(f"{HEAD}workload: {{log: ''}}\nworkflow:\n- step: start\n  tool: {call}\n")
    log = tmp_path / "log"
    point = ("--break", "start/start.keep", "--when", "iter.index == 1")
    with workspace.started("debug", file, "--set", f"log={log}", *point) as run:
        lines = run.read_until("in the child")
        assert "■ start.keep  start#1/start#1[1]  breakpoint start.keep" in lines
        id, child = lines[0], lines[-1].split()[3]
        run.process.kill()
        run.process.wait()
    assert log.read_text() == "1 2 "
    for each in (id, child):
        assert "■ start#1[1] is held before start.keep" in workspace.call("show", each).stdout
    with workspace.started("resume", id[:18]) as owner:
        owner.read_until("waits for")
        debugged = workspace.call("debug", id[:18], input="print _prev\nset ctx.seen 5\ncontinue\n")
        assert debugged.returncode == 0, debugged.stdout + debugged.stderr
        assert "\n2\n" in debugged.stdout
        assert owner.end()[0] == 0
    assert log.read_text() == "1 2 3 "
    for each in (id, child):
        assert workspace.call("audit", each).returncode == 0
        assert workspace.call("replay", each).returncode == 0


def test_another_process_debugs_an_execution_that_runs(tmp_path: Path) -> None:
    """`noetl resume` runs it and waits at the breakpoint; the debugger sends its commands to that process."""
    workspace = Workspace(tmp_path)
    file, log = workspace.write(PAGES), tmp_path / "log"
    held = workspace.call("debug", file, "--set", f"log={log}", "--break", "start.keep", input="")
    id = held.stdout.split("\n", 1)[0]
    with workspace.started("resume", id[:18]) as owner:
        owner.read_until("waits for the debugger")
        debugged = workspace.call("debug", id[:18], input="clear all\nset ctx.mine 1\ncontinue\n")
        assert debugged.returncode == 0, debugged.stderr
        code, _, _ = owner.end()
    assert code == 0
    assert log.read_text() == "1 2 3 "


def test_a_person_debugs_at_a_terminal(tmp_path: Path) -> None:
    """Colours, completion, history, the width of the window, and Ctrl-C, after which the terminal is as before."""
    workspace = Workspace(tmp_path)
    _, flag, log = workspace.slow()
    arguments = (tmp_path / "t.yaml", "--set", f"flag={flag}", "--set", f"log={log}")
    with terminal(workspace, "debug", *arguments) as shown:
        assert shown.edits_lines()
        first = shown.read_until("(noetl) ")
        assert "\x1b[1;36mstart\x1b[0m" in first
        shown.type("pri\tworkload.f\t\r")
        assert "print workload.flag\r\n" + f"{flag}\r\n" in shown.read_until("(noetl) ")
        shown.type("\x1b[A\r")  # the line before
        assert "print workload.flag\r\n" + f"{flag}\r\n" in shown.read_until("(noetl) ")
        longest = max(SLOW.splitlines()[:12], key=len)
        shown.resize(60)
        shown.type("list\r")
        narrow = shown.read_until(longest[:40])  # before it, the prompt may be drawn once more
        assert longest not in narrow + shown.read_until("(noetl) ")
        shown.type("continue\r")
        shown.read_until("continue\r\n")
        shown.type("\x03")  # `slow` runs, or `start`
        shown.read_until("stopping before the next step or task")
        flag.touch()
        shown.read_until("(noetl) ")
        shown.type("print ct")
        shown.read_until("ct")
        shown.type("\x03")
        assert "paused" in shown.read_until("--no-breakpoints\r\n")
        assert shown.process.wait(PATIENCE_S) == 130
        assert shown.edits_lines()
