"""Spec layering: kind defaults < executor < step < loop < task (D60, D63), with the source of each value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Executor, Pipeline, Playbook, Task


class SpecLayer(NamedTuple):
    """One contribution to a task's spec."""

    name: str  # "kind defaults", "executor.spec", "step.spec.http", …
    values: dict[str, JSON]


class EffectiveSpec(NamedTuple):
    """The merged spec of a task, and the layer that each value comes from."""

    values: dict[str, JSON]
    origin: dict[str, str]  # "timeout.connect" → "step.spec"


def merge(outer: JSON, inner: JSON) -> JSON:
    """Scalars: inner wins; maps: deep; lists: replaced."""
    if isinstance(outer, dict) and isinstance(inner, dict):
        return {**outer, **{key: merge(outer.get(key), value) for key, value in inner.items()}}
    return inner


def layers(playbook: Playbook, pipeline: Pipeline, task: Task, kinds: Kinds) -> list[SpecLayer]:
    """Outermost first. On each level, general settings override those for the kind."""
    return [*playbook_layers(playbook, task.kind, kinds), *task_layers(pipeline, task, kinds)]


def playbook_layers(playbook: Playbook, kind: str, kinds: Kinds) -> list[SpecLayer]:
    """The layers that are the same for all tasks of a kind."""
    found = [SpecLayer("kind defaults", dict(kinds[kind].defaults) if kind in kinds else {})]
    found.append(SpecLayer("executor.spec.policy", _from_policy(playbook.executor)))
    found += _split("executor.spec", playbook.executor.spec, kind, kinds)
    return [layer for layer in found if layer.values]


def task_layers(pipeline: Pipeline, task: Task, kinds: Kinds) -> list[SpecLayer]:
    """The layers of one task: of its step, its loops, and its own."""
    named = [("step.spec", pipeline.spec)]
    named += [("loop.spec", loop.spec) for loop in pipeline.loops]
    named.append(("task.spec", task.spec))
    found = [layer for name, spec in named if spec for layer in _split(name, spec, task.kind, kinds)]
    return [layer for layer in found if layer.values]


def _split(name: str, spec: dict[str, JSON], kind: str, kinds: Kinds) -> Iterator[SpecLayer]:
    own = spec.get(kind)
    if isinstance(own, dict):
        yield SpecLayer(f"{name}.{kind}", own)
    yield SpecLayer(name, {key: value for key, value in spec.items() if key not in kinds})


def effective_spec(playbook: Playbook, pipeline: Pipeline, task: Task, kinds: Kinds) -> EffectiveSpec:
    """The spec that the task runs with."""
    values: dict[str, JSON] = {}
    origin: dict[str, str] = {}
    for layer in layers(playbook, pipeline, task, kinds):
        leaves = dict(_leaves(layer.values))
        values = merge(values, layer.values)
        # A scalar replaces a map, and a map a scalar; the origins of replaced values are dropped below.
        origin = {**origin, **dict.fromkeys(leaves, layer.name)}
    remaining = dict(_leaves(values))
    return EffectiveSpec(values, {path: origin[path] for path in remaining})


def _from_policy(executor: Executor) -> dict[str, JSON]:
    """The settings of executor.spec.policy (defaults, results, limits) that are also keys of a spec (D64)."""
    policy = executor.policy
    defaults, results, limits = (policy.get(name) or {} for name in ("defaults", "results", "limits"))
    values: dict[str, JSON] = {}
    if (timeout := defaults.get("timeout", defaults.get("timeouts"))) is not None:
        values["timeout"] = timeout
    result = {key: results[key] for key in ("inline_max_bytes", "store") if key in results}
    if "max_payload_bytes" in limits:
        result.setdefault("inline_max_bytes", limits["max_payload_bytes"])
    return {**values, "result": result} if result else values


def _leaves(values: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    if isinstance(values, dict) and (values or not path):
        for key, value in values.items():
            yield from _leaves(value, f"{path}.{key}" if path else key)
    else:
        yield path, values
