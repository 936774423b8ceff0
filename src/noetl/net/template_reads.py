"""What the templates of a playbook read, as far as it decides what is recorded and kept."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.net.program import SAVED, TemplateUse
from noetl.output import OUTPUT_FIELDS
from noetl.playbook.model import Playbook
from noetl.template.compile import Read


def output_parts(uses: Iterable[TemplateUse], tasks: set[str]) -> set[str]:
    """The parts of outputs that tasks, `set` and arcs read: "data", "ref", "meta", …"""
    found: set[str] = set()
    for use in uses:
        if use.task is None and use.place not in ("step set", "arc"):
            continue
        for read in use.template.reads:
            if read.path[0] == "output" or read.path[0] in tasks:
                found.update(OUTPUT_FIELDS if len(read.path) == 1 else (str(read.path[1]),))
    return found


def reads_failed_iterations(uses: Iterable[TemplateUse], playbook: Playbook) -> bool:
    """Does a template read the failed iterations of a loop? Outputs of blocks are read by the names of tasks, too."""
    if not any(owner.loops for owner in playbook.pipelines):
        return False
    roots = {"output", *(task.name for owner in playbook.pipelines for task in owner.tasks)}
    reads = (read.path for use in uses for read in use.template.reads)
    return any(len(path) > 1 and path[1] == "failed" and path[0] in roots for path in reads)


def saved_reads(uses: Iterable[TemplateUse]) -> frozenset[str] | None:
    paths = {read.path for use in uses for read in use.template.reads if read.path[0] == SAVED}
    return None if any(len(path) == 1 for path in paths) else frozenset(str(path[1]) for path in paths)


def reads_failure(reads: Iterable[Read]) -> bool:
    """Does the guard or the value read the event, the status or the error?

    Then it is evaluated after a failure, too (D37, D102).
    """
    return any(
        read.path[0] == "event" or read.path[:2] in (("output", "status"), ("output", "error")) for read in reads
    )
