"""Comparisons that can never hold: a status or an event's name against a word that it never is (D21, D40)."""

from __future__ import annotations

from noetl.net.program import TemplateUse
from noetl.playbook.model import Step
from noetl.playbook.report import ProblemReport
from noetl.playbook.source import Path

_STATUS = ("ok", "error")
_RENAMED = {"success": "ok", "failed": "error", "failure": "error", "done": "ok"}


def check_comparisons(use: TemplateUse, report: ProblemReport) -> None:
    for path, values, _ in use.template.compared:
        possible = _possible(path, use)
        if possible is None or any(value in possible for value in values):
            continue
        word, wrong = ".".join(map(str, path)), values[0] if values else "nothing"
        fix = _RENAMED.get(str(wrong)) if possible == _STATUS else report.near(str(wrong), possible)
        message = f'{word} is never "{wrong}" here: it is {" or ".join(possible)}'
        report.tell("never-equal", use.path, message, word=word, fix=f"'{fix}'" if fix else None)


def _possible(path: Path, use: TemplateUse) -> tuple[str, ...] | None:
    """All that a path can be; None: anything."""
    if path in (("output", "status"), ("event", "status")):
        return _STATUS
    if path != ("event", "name"):
        return None
    if use.place == "arc" and isinstance(use.owner, Step):
        return ("loop.done" if use.owner.loops else "step.done", "step.failed")
    return ("step.done", "step.failed", "loop.done")
