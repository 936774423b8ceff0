"""Notifications: the program that runs the tasks of one, and its digest.

A notification is an ordinary execution of one step. It runs under the digest of its playbook with the place of the
notification behind it, so that every process that has the playbook has its notifications, too.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl.net.credentials import entry_names
from noetl.net.program import CompiledStep, Program
from noetl.playbook.model import NOTIFY, Block, Credential, Executor, Step

_MARK = "#notify/"
_POLICIES = ("limits", "defaults", "results")  # of the playbook, that hold for its notifications, too


def notification_digest(digest: str, index: int) -> str:
    return f"{digest}{_MARK}{index}"


def split_digest(digest: str) -> tuple[str, int | None]:
    """The digest of the text, and the place of the notification in it; None: the playbook itself."""
    text, mark, index = digest.partition(_MARK)
    return (text, int(index)) if mark and index.isascii() and index.isdigit() else (digest, None)


def notification_program(program: Program, index: int) -> Program:
    """The playbook whose only step runs the tasks of the notification. Raises IndexError."""
    source = program.notifications[index].source.block
    playbook = program.playbook
    step = Step(name=NOTIFY, desc=source.desc, tasks=source.tasks, policy=source.policy, spec=source.spec, at=source.at)
    policy = {key: playbook.executor.policy[key] for key in _POLICIES if key in playbook.executor.policy}
    made = replace(
        playbook,
        executor=Executor(entry_step=NOTIFY, policy=policy, spec=playbook.executor.spec),
        keychain=_keychain(program, source),
        workload={},
        inputs=None,
        steps=(step,),
        blocks=(),
        triggers=(),
        notifications=(),
    )
    pipeline = replace(program.blocks[source.name], name=NOTIFY, block=False, source=step)
    compiled = CompiledStep(
        pipeline=pipeline, admit=None, admit_reads=(), join=False, inclusive=False, arcs=(), source=step
    )
    return Program(
        playbook=made,
        steps={NOTIFY: compiled},
        blocks={},
        bits={NOTIFY: 1},
        reach={NOTIFY: 0},
        limits=program.limits,
        templates=tuple(use for use in program.templates if use.owner is source and use.task is not None),
        digest=notification_digest(program.digest, index),
        folder=program.folder,
        limited=program.limited,
    )


def _keychain(program: Program, source: Block) -> tuple[Credential, ...]:
    """Only what it may use: an entry that does not resolve may be the reason for which the execution failed."""
    used: set[str] = set()
    for task in program.blocks[source.name].tasks:
        names = entry_names(task)
        if names is None or (task.kind == "playbook" and "document" in task.source.fields):
            return program.playbook.keychain
        store = (task.spec.get("result") or {}).get("store") or {}
        used |= {*names, store.get("auth", "")}
    return tuple(entry for entry in program.playbook.keychain if entry.name in used)
