"""Compiled steps that a later version of a playbook keeps, so that an edit in an editor compiles one step again."""

from __future__ import annotations

from typing import NamedTuple

from noetl.net.origins import RefOrigins
from noetl.net.program import CompiledPipeline, CompiledStep, Program, TemplateUse
from noetl.playbook.model import Playbook


class KeptStep(NamedTuple):
    """A compiled step with everything that its compilation added to the program."""

    step: CompiledStep
    templates: list[TemplateUse]
    blocks: dict[str, CompiledPipeline]  # the bodies of a list of loops


def kept_steps(before: Program, playbook: Playbook, origins: RefOrigins, *, weighs_ctx: bool) -> dict[str, KeptStep]:
    """By name. Those whose text had problems are missing, because the problems have to be reported again.

    The caller keeps a step only if its source is the same. All steps are missing if another part of the playbook
    that the compiler reads differs.
    """
    old = before.playbook
    if before.origins is None or not origins.same_as(before.origins):
        return {}
    if (old.executor, old.blocks, old.libs) != (playbook.executor, playbook.blocks, playbook.libs):
        return {}
    kept = {
        name: KeptStep(step, [], {})
        for name, step in before.steps.items()
        if name not in before.faulty and step.pipeline.weighs_ctx == weighs_ctx
    }
    for use in before.templates:
        found = kept.get(use.owner.name)
        if found is not None and found.step.source is use.owner and use.place != "concurrency":
            found.templates.append(use)
    for name, block in before.blocks.items():
        found = kept.get(block.source.name)
        if found is not None and found.step.source is block.source:
            found.blocks[name] = block
    return kept
