"""Which ends of a step an arc may carry (D37)."""

from __future__ import annotations

import pytest

from noetl.net.graph import carries
from tests.playbooks import checked


def carried(when: str, *, loop: bool = False) -> str:
    looped = "loop: {in: [1], iterator: n}" if loop else ""
    program = checked(
        f"""
        workflow:
        - step: start
          {looped}
          tool: {{kind: noop}}
          next:
            arcs:
            - step: end
              when: "{when}"
        """
    ).program
    assert program is not None
    step = program.steps["start"]
    return carries(step.arcs[0], step)


@pytest.mark.parametrize(
    ("when", "what"),
    [
        ("{{ ctx.n > 1 }}", "success"),
        ("{{ event.name == 'step.failed' }}", "failure"),
        ("{{ event.name == 'step.done' }}", "success"),
        ("{{ event.status == 'error' }}", "failure"),
        ("{{ output.status == 'ok' and ctx.n }}", "success"),
        ("{{ ctx.n and event.name == 'step.failed' }}", "failure"),
        ("{{ event.name in ['step.done', 'step.failed'] }}", "both"),
        ("{{ output.error.kind == 'timeout' }}", "both"),
        ("{{ event.name == 'step.failed' or ctx.n }}", "both"),
        ("{{ event.name == 'a and b' }}", "both"),
        ("{{ (event.name == 'step.done' and ctx.a) and ctx.b }}", "both"),
    ],
)
def test_a_guard_is_asked_beforehand_as_far_as_it_reads_only_how_the_step_ended(when: str, what: str) -> None:
    """D37."""
    assert carried(when) == what


def test_a_looped_step_ends_by_loop_done() -> None:
    """D40."""
    assert carried("{{ event.name == 'loop.done' }}", loop=True) == "success"
    assert carried("{{ event.name == 'loop.done' }}") == "both"
