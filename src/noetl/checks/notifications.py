"""Notifications: what they cannot do, and the time after which an execution is late."""

from __future__ import annotations

from noetl.net.scopes import task_writes
from noetl.playbook.model import Playbook
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport


def check_notifications(playbook: Playbook, report: ProblemReport) -> None:
    expected: Path = ("executor", "spec", "expected_s")
    late = [each for each in playbook.notifications if "late" in each.on]
    if playbook.executor.expected_s is None:
        for each in late:
            message = '"late" needs executor.spec.expected_s, which defines when an execution is late'
            place = (*each.at, "on", each.on.index("late"))
            report.add("missing-key", place, message, fix="executor: {spec: {expected_s: 3600}}")
    elif not late:
        message = '"expected_s" has no effect: no entry of "notify" has `late` under "on"'
        report.add("no-effect", expected, message, key=True, fix="notify: [{on: [late], tool: …}]")
    for each in playbook.notifications:
        for task in each.block.tasks:
            if task.kind == "workbook":
                message = "a notification runs on its own, and cannot call a block: write the tasks here"
                report.add("bad-value", (*task.at, "kind"), message)
        for writes, at in task_writes(each.block):
            for target in writes:
                if target.startswith("iter."):
                    message = f'"{target}": there is no iteration here; write to step.* or ctx.*'
                    report.add("not-in-scope", (*at, target), message, key=True)
