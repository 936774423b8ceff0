"""The same playbook does the same with a response of 1 KB and of 10 MB, and the log stays small (D52)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.processes import Workspace
from tests.e2e.serving import Api, serving

ANY_SIZE = Path(__file__).parent / "playbooks" / "any_size.yaml"
INLINE_BYTES_MAX = 65_536


class Done(NamedTuple):
    """What can be seen of an execution, without its sizes, times and ids."""

    code: int
    steps: list[tuple[Any, ...]]
    ctx: dict[str, Any]
    routed: dict[str, Any]  # by run: which arcs were asked, what they answered, where tokens went
    directives: dict[str, tuple[Any, ...]]  # by call
    lengths: list[int]  # of the events


def done(workspace: Workspace, api: Api, size: int) -> Done:
    code, document = workspace.json("run", ANY_SIZE, "--set", f"url={api.url}", "--set", f"bytes={size}")
    id = document["execution_id"]
    assert document["error"] is None
    lines = workspace.call("events", id, "--format", "jsonl").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    return Done(
        code,
        sorted((each["id"], each["status"], each["calls"], str(each.get("iterations"))) for each in document["steps"]),
        {key: without_place(value) for key, value in workspace.json("state", id)[1]["ctx"].items()},
        {
            each["step_run_id"]: (each["data"].get("asked"), [token["step"] for token in each["data"].get("tokens", [])])
            for each in events
            if each["name"] == "next.evaluated"
        },
        {
            each["task_run_id"]: (each["task_label"], each["data"]["directive"], each["data"].get("rule"))
            for each in events
            if each["name"] == "task.done"
        },
        [len(line.encode()) for line in lines],
    )  # fmt: skip


def without_place(value: Any) -> Any:
    """A Ref says where and how large: only that it is one is the same."""
    return {"type": value["type"]} if isinstance(value, dict) and "locator" in value else value


def test_a_playbook_does_the_same_with_1_kb_and_with_10_mb(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with serving() as api:
        small, large = done(workspace, api, 1_000), done(workspace, api, 10_000_000)
    assert small._replace(lengths=[]) == large._replace(lengths=[])
    assert max(large.lengths) < INLINE_BYTES_MAX
    assert small.ctx | {"whole_ref": 0, "list_ref": 0, "over_ref": 0} == {
        "name": "rows", "has_odd": True, "complete": True, "same_count": True, "last_is_total": True,
        "first": 0, "keys": ["complete", "rows", "total"], "second": 1, "pages": 4, "rows_right": True,
        "resolved": {"complete": True, "part": [{"id": 0}, {"id": 1}]}, "succeeded": 4,
        "back": {"pages": 4, "complete": True}, "whole_ref": 0, "list_ref": 0, "over_ref": 0,
    }  # fmt: skip
    assert [id for id, *_ in small.steps] == ["back#1", "each#1", "later#1", "over#1", "start#1"]
    assert small.routed["start#1"] == ([[0, False], [1, True], [2, True]], ["later", "each"])
    assert [small.directives[f"start#1/{place}"] for place in (1, 2, 3)] == [
        ("fetch", "continue", 1), ("whole", "continue", None), ("skipped", "skip", 0),
    ]  # fmt: skip
