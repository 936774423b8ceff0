"""The net: a playbook with its templates compiled and its arcs resolved; every part knows where it stands."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from noetl.net.scopes import Place
from noetl.playbook.model import Arc, Block, Guard, Pipeline, Playbook, Rule, Step, Task
from noetl.playbook.source import Path
from noetl.template.compile import Template

Condition: TypeAlias = Template | bool  # False also stands for one that could not be compiled


class Spot(NamedTuple):
    """A template at its place."""

    place: Place
    path: Path
    template: Template
    owner: Pipeline
    task: Task | None  # None: it belongs to the step itself
    loop: int | None = None  # which of the owner's loops it belongs to


class NetGuard(NamedTuple):
    guard: Guard
    when: Condition


class NetRule(NamedTuple):
    rule: Rule
    when: Condition

    @property
    def always(self) -> bool:
        """Does it match whatever the output is?"""
        return self.when is True


class NetTask(NamedTuple):
    task: Task
    rules: tuple[NetRule, ...]
    skips: tuple[NetRule, ...]  # asked before the tool runs (D26)


class NetArc(NamedTuple):
    arc: Arc
    when: Condition
    targets: tuple[str, ...] | None  # None: any step (a template without `to`)
    takes_failure: bool  # asked when the step has failed (D37)

    @property
    def takes_every_success(self) -> bool:
        return self.when is True and not self.takes_failure


class NetStep(NamedTuple):
    step: Step
    admit: tuple[NetGuard, ...] | None
    tasks: tuple[NetTask, ...]
    arcs: tuple[NetArc, ...]


class NetBlock(NamedTuple):
    block: Block
    tasks: tuple[NetTask, ...]


class Net(NamedTuple):
    playbook: Playbook
    steps: dict[str, NetStep]
    blocks: dict[str, NetBlock]
    spots: tuple[Spot, ...]  # every template there is

    @property
    def pipelines(self) -> tuple[NetStep | NetBlock, ...]:
        return (*self.steps.values(), *self.blocks.values())
