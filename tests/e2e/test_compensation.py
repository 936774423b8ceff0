"""Compensation for a user (D116): after a failure, after `noetl cancel --compensate`, and after kill -9 in its middle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

# Each step notes what it does. `undo second` waits for the flag, and `breaks` fails unless it waits for a signal.
BOOKING = (
    HEAD
    + """\
workload: {flag: "", log: "", waits: false}
workflow:
- step: start
  input: {name: one}
  tool: &note
    kind: python
    input: {log: "{{ workload.log }}", word: "{{ input.name }}"}
    code: |
      def main(log, word):
          open(log, "a").write(f"{word} ")
          return {"id": f"id-{word}"}
  compensate:
    tool:
      kind: python
      input: {log: "{{ workload.log }}", word: "undo-{{ input.name }}-{{ output.data.id }}"}
      code: |
        def main(log, word):
            open(log, "a").write(f"{word} ")
  next: {arcs: [{step: second}]}
- step: second
  input: {name: two}
  tool: *note
  compensate:
    tool:
    - {name: look, kind: noop, input: {id: "{{ output.data.id }}"}}
    - name: undo
      kind: python
      input: {log: "{{ workload.log }}", flag: "{{ workload.flag }}", id: "{{ look.data.id }}"}
      code: |
        import os, time
        def main(log, flag, id):
            open(log, "a").write(f"undoing-{id} ")
            print("undoing", id, flush=True)
            while not os.path.exists(flag):
                time.sleep(0.01)
            if open(flag).read() == "broken":
                raise ValueError("it cannot be undone")
            open(log, "a").write(f"undone-{id} ")
  next: {arcs: [{step: breaks, when: "{{ not workload.waits }}"}, {step: waits}]}
- step: breaks
  tool: {kind: python, code: "def main():\\n    raise ValueError('broken')\\n"}
- step: waits
  tool: {kind: wait, signal: never}
"""
)


class Booking(Workspace):
    """A folder with the playbook, the flag that lets `undo second` continue, and what the steps have done."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.flag, self.log = folder / "flag", folder / "log"

    def start(self, *more: str) -> list[str | Path]:
        return ["run", self.write(BOOKING), "--set", f"flag={self.flag}", "--set", f"log={self.log}", *more]

    @property
    def done(self) -> list[str]:
        return self.log.read_text().split()


@pytest.fixture
def booking(tmp_path: Path) -> Booking:
    return Booking(tmp_path)


def test_completed_steps_are_undone_after_a_failure(booking: Booking) -> None:
    booking.flag.touch()
    code, document = booking.json(*booking.start())
    assert booking.done == ["one", "two", "undoing-id-two", "undone-id-two", "undo-one-id-one"]
    assert (code, document["status"], document["error"]["step"]) == (1, "error", "breaks")
    assert document["compensation"] == {"status": "done", "uncompensated": []}
    assert [(each["id"], each["status"], each.get("compensates")) for each in document["steps"]] == [
        ("start#1", "ok", None), ("second#1", "ok", None), ("breaks#1", "error", None),
        ("second#1/compensate#1", "ok", "second#1"), ("start#1/compensate#1", "ok", "start#1"),
    ]  # fmt: skip
    assert "its completed steps were undone" in booking.call("show", "last").stdout
    refused = booking.call("retry", "last")
    assert (refused.returncode, "cannot continue; run it again" in refused.stderr) == (1, True)
    assert [booking.call(*words).returncode for words in (("audit",), ("replay", "last"))] == [0, 0]


def test_what_cannot_be_undone_is_listed_and_retried(booking: Booking) -> None:
    booking.flag.write_text("broken")
    code, document = booking.json(*booking.start())
    assert booking.done == ["one", "two", "undoing-id-two", "undo-one-id-one"], "the other one is undone all the same"
    assert (code, document["compensation"]) == (1, {"status": "incomplete", "uncompensated": ["second#1"]})
    assert "not undone: second#1" in booking.call("show", "last").stdout
    booking.flag.write_text("")
    code, document = booking.json("retry", "last")
    assert booking.done[4:] == ["undoing-id-two", "undone-id-two"]
    assert (code, document["status"], document["compensation"]["status"]) == (1, "error", "done")
    assert document["error"]["step"] == "breaks", "the cause stays"
    assert [booking.call(*words).returncode for words in (("audit",), ("replay", "last"))] == [0, 0]


def test_a_compensation_that_is_killed_goes_on_where_it_was(booking: Booking) -> None:
    with booking.started(*booking.start()) as run:
        run.read_until("undoes second#1, start#1")
        run.read_until("undoing id-two")
        shown = booking.json("show", "last")[1]
        assert shown["status"] == "running"
        assert shown["compensation"] == {"status": "running", "uncompensated": ["second#1", "start#1"]}
        assert shown["error"]["step"] == "breaks"
        run.process.kill()
        run.end()
    booking.flag.touch()
    code, document = booking.json("resume", "last")
    assert (code, document["compensation"]) == (1, {"status": "done", "uncompensated": []})
    # The call that was killed is repeated; nothing else is.
    assert booking.done == ["one", "two", "undoing-id-two", "undoing-id-two", "undone-id-two", "undo-one-id-one"]
    assert [booking.call(*words).returncode for words in (("audit",), ("replay", "last"))] == [0, 0]


def test_cancel_undoes_completed_steps_only_if_it_is_asked_to(booking: Booking) -> None:
    booking.flag.touch()
    for options, undone in (([], 0), (["--compensate"], 3)):
        booking.log.write_text("")
        with booking.started(*booking.start("--set", "waits=true")) as run:
            run.read_until("waits for the signal")
            code, document = booking.json("cancel", "last", *options)
            assert (code, document["status"]) == (0, "cancelled")
            assert run.end()[0] == 1
        assert booking.done == ["one", "two", "undoing-id-two", "undone-id-two", "undo-one-id-one"][: 2 + undone]
    _, document = booking.json("show", "last")
    assert document["compensation"]["status"] == "done"
    assert booking.call("audit").returncode == 0


def test_cancel_undoes_what_no_process_runs(booking: Booking) -> None:
    booking.flag.touch()
    with booking.started(*booking.start("--set", "waits=true")) as run:
        run.read_until("waits for the signal")
        run.process.kill()
        run.end()
    code, document = booking.json("cancel", "last", "--compensate")
    assert (code, document["status"]) == (0, "cancelled")
    assert booking.done[2:] == ["undoing-id-two", "undone-id-two", "undo-one-id-one"]


def test_a_second_cancel_stops_the_compensations(booking: Booking) -> None:
    with booking.started(*booking.start()) as run:
        run.read_until("undoes second#1, start#1")
        run.read_until("undoing id-two")
        refused = booking.call("cancel", "last", "--compensate")
        assert (refused.returncode, "being compensated already" in refused.stderr) == (1, True)
        code, document = booking.json("cancel", "last")
        assert (code, document["status"]) == (0, "cancelled")
        run.end()
    document = json.loads(booking.call("show", "last", "--format", "json").stdout)
    assert document["compensation"] == {"status": "incomplete", "uncompensated": ["second#1", "start#1"]}
    booking.flag.touch()
    code, document = booking.json("retry", "last")
    assert (document["status"], document["compensation"]["status"]) == ("error", "done")
    assert booking.done[-2:] == ["undone-id-two", "undo-one-id-one"]
