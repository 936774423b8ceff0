"""A loop of 10,000 iterations is killed in the middle: the log has each result once and stays small (test 14)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.crash_workspace import KILLED, CrashWorkspace, Image
from tests.chaos.journey import Api, serving
from tests.playbooks import HEAD

MANY = 10_000
LOG_BYTES_MAX = 600  # for each iteration


def looping(mode: str) -> str:
    return HEAD + (
        "workflow:\n"
        "- step: start\n"
        f"  loop: {{in: '{{{{ range({MANY}) }}}}', iterator: n, spec: {{{mode}}}}}\n"
        "  tool: {kind: noop, input: {n: '{{ iter.n }}', square: '{{ iter.n * iter.n }}'}}\n"
    )


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as made:
        yield made


def iterations(image: Image, execution_id: str) -> Counter[int]:
    """The number of facts that report each iteration as done."""
    return Counter(each["index"] for each in image.decoded(execution_id) if each["fact"] == "loop.iteration.done")


@pytest.mark.parametrize(
    "mode", ["mode: sequential", "mode: parallel, max_in_flight: 100"], ids=["sequential", "parallel"]
)
def test_ten_thousand_iterations_end_once_each_after_a_kill_in_the_middle(mode: str, api: Api, tmp_path: Path) -> None:
    workspace = CrashWorkspace(tmp_path, api, 0)
    file = workspace.write(looping(mode), "loop.yaml")
    assert workspace.killed_at(f"worker.after-report:{MANY // 2}", "run", file).returncode == KILLED
    killed = workspace.look()
    id = killed.last
    assert id is not None
    assert 0.4 * MANY < len(iterations(killed, id)) < 0.6 * MANY

    document = workspace.go_on()
    done = workspace.look()
    assert document["steps"][0]["iterations"] == {"count": MANY, "succeeded": MANY, "failed": 0}
    assert iterations(done, id) == Counter(range(MANY))
    assert sum(map(len, done.facts[id])) <= LOG_BYTES_MAX * MANY
    given = workspace.call("output", "last")
    assert json.loads(given.stdout) == [{"n": n, "square": n * n} for n in range(MANY)]
    workspace.check_sound(id)
