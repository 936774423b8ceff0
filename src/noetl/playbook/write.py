"""Writes a Playbook as a canonical document and as YAML text, without default values."""

from __future__ import annotations

from collections.abc import Iterator

import yaml
from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from noetl.output import JSON
from noetl.playbook.branches import with_jumps
from noetl.playbook.language import API_VERSION
from noetl.playbook.model import (
    RUN_METHODS,
    Arc,
    Guard,
    InputField,
    Loop,
    Notification,
    Pipeline,
    Playbook,
    Rule,
    Step,
    Task,
    Trigger,
    When,
)
from noetl.playbook.source import resolve

_NUMBER_CHARS = "0123456789_.,:eE+-"


def write(playbook: Playbook) -> str:
    """Canonical YAML text that reads as the same playbook."""
    return emit(document(playbook))


def emit(value: JSON) -> str:
    """Plain data as YAML text. The reader returns exactly the same data for it."""
    text: str = yaml.emit(_events(value), width=2**31, allow_unicode=True)
    return text


def document(playbook: Playbook) -> dict[str, JSON]:
    """The canonical document as plain data. Two texts with the same meaning have the same document."""
    executor = playbook.executor
    entry, expected_s = executor.entry_step, executor.expected_s
    spec = _some({"entry_step": entry, "expected_s": expected_s, "policy": executor.policy, **executor.spec})
    if executor.methods != RUN_METHODS:
        spec["methods"] = list(executor.methods)
    return {
        "apiVersion": API_VERSION,
        "kind": "Playbook",
        "metadata": {"name": playbook.name, "path": playbook.path, **playbook.metadata},
        **_some(
            {
                "keychain": [{"name": e.name, "kind": e.kind, **e.fields} for e in playbook.keychain],
                "executor": _some({"profile": executor.profile, "version": executor.version, "spec": spec}),
                "workload": playbook.workload,
            }
        ),
        **({} if playbook.inputs is None else {"input": {each.name: _input(each) for each in playbook.inputs}}),
        **_some({"triggers": [_trigger(each) for each in playbook.triggers]}),
        **_some({"notify": [_notification(each) for each in playbook.notifications]}),
        "workflow": [_step(step) for step in playbook.steps],
        **_some({"workbook": {block.name: _pipeline(block, {}) for block in playbook.blocks}}),
        **_some({"libs": playbook.libs}),
    }


def _input(field: InputField) -> dict[str, JSON]:
    keys = ("type", "desc", "required", "pattern", "min", "max", "format")
    found: dict[str, JSON] = {key: value for key in keys if (value := getattr(field, key)) is not None}
    if field.default is not UNSET:
        found["default"] = field.default
    if field.enum is not None:
        found["enum"] = list(field.enum)
    if field.items is not None:
        found["items"] = _input(field.items)
    return {**found, "secret": True} if field.secret else found


def _trigger(trigger: Trigger) -> dict[str, JSON]:
    found: dict[str, JSON] = to_builtins(replace(trigger, at=(), verify=None))
    if (verify := trigger.verify) is not None:
        hmac = {"algorithm": verify.algorithm, "encoding": verify.encoding} if verify.signed else {}
        proof = {"secret": verify.secret, "header": verify.header, **hmac}
        found["verify"] = {"hmac" if verify.signed else "token": proof}
    return found


def _step(step: Step) -> dict[str, JSON]:
    guards = None if step.admit is None else [_guard(guard) for guard in step.admit]
    admit = _some({"join": step.join})
    if guards is not None:
        admit["rules"] = guards
    following = None
    if step.arcs is not None:
        mode = {"spec": {"mode": step.mode}} if step.mode != "exclusive" else {}
        following = {**mode, "arcs": [_arc(arc) for arc in step.arcs]}
    compensate = None if step.compensate is None else _pipeline(step.compensate, {})
    return {"step": step.name, **_pipeline(step, admit), **_some({"next": following, "compensate": compensate})}


def _notification(each: Notification) -> dict[str, JSON]:
    return {"on": list(each.on), **_some({"when": each.when}), **_pipeline(each.block, {})}


def _pipeline(owner: Pipeline, admit: dict[str, JSON]) -> dict[str, JSON]:
    policy = _some({"admit": admit, **owner.policy})
    loops = [_loop(loop) for loop in owner.loops]
    return _some(
        {
            "desc": owner.desc,
            "input": owner.input,
            "spec": _some({"policy": policy, **owner.spec}),
            "loop": loops[0] if len(loops) == 1 else loops,
            "tool": [_task(task) for task in owner.tasks],
            "set": owner.set,
        }
    )


def _loop(loop: Loop) -> dict[str, JSON]:
    policy = _some({"exec": loop.exec, "reduce": loop.reduce})
    mode = loop.mode if loop.mode != "sequential" else None
    spec = _some({"mode": mode, "max_in_flight": loop.max_in_flight, "policy": policy, **loop.spec})
    return {"in": loop.items, "iterator": loop.iterator, **_some({"spec": spec})}


def _task(task: Task) -> dict[str, JSON]:
    policy, task = None, with_jumps(task)
    if task.policy is not None:
        rules = [_rule(rule) for rule in task.policy.rules]
        others = {"on_unmatched": task.policy.on_unmatched, "limits": task.policy.limits, "limit": task.policy.limit}
        policy = {**({"rules": rules} if rules or not task.policy.limit else {}), **_some(others)}
    return {
        "name": task.name,
        "kind": task.kind,
        **_some({"desc": task.desc, "auth": task.auth}),
        **task.fields,
        **_some({"input": task.input, "set": task.set, "spec": _some({**task.spec, "policy": policy})}),
    }


def _rule(rule: Rule) -> dict[str, JSON]:
    keys = ("to", "attempts", "backoff", "delay", "max_delay", "jitter", "message", "details", "set")
    return _chosen(rule.when, {"do": rule.do, **_some({key: getattr(rule, key) for key in keys})})


def _guard(guard: Guard) -> dict[str, JSON]:
    return _chosen(guard.when, {"allow": guard.allow})


def _chosen(when: When | None, then: dict[str, JSON]) -> dict[str, JSON]:
    return {"else": {"then": then}} if when is None else {"when": when, "then": then}


def _arc(arc: Arc) -> dict[str, JSON]:
    to = None if arc.to is None else list(arc.to)
    return {"step": arc.step, **_some({"when": arc.when, "set": arc.set, "to": to})}


def _some(values: dict[str, JSON]) -> dict[str, JSON]:
    """Without empty values."""
    return {key: value for key, value in values.items() if value is not None and value != {} and value != []}


def _events(value: JSON) -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from _value(value)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _value(value: JSON) -> Iterator[yaml.Event]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, True, flow_style=not value)
        for key, each in value.items():
            yield _scalar(key)
            yield from _value(each)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=not value)
        for each in value:
            yield from _value(each)
        yield yaml.SequenceEndEvent()
    else:
        yield _scalar(value)


def _scalar(value: JSON) -> yaml.ScalarEvent:
    if isinstance(value, str):
        return yaml.ScalarEvent(None, None, (True, True), value, style=_style(value))
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return yaml.ScalarEvent(None, None, (True, True), text)


def _style(text: str) -> str | None:
    """Plain if the reader returns the same text for it, a block for several lines, else double quotes."""
    if "\n" in text and _is_block(text):
        return "|"
    if text[:1].isdigit() and not text.strip(_NUMBER_CHARS):
        return '"'  # `00` and `12:30` are text here, but numbers for other YAML readers
    try:
        return None if resolve(text) == text and isinstance(resolve(text), str) and text != "<<" else '"'
    except ValueError:
        return '"'


def _is_block(text: str) -> bool:
    lines = text.split("\n")
    return all(line.isprintable() and line == line.rstrip() for line in lines) and not lines[0].startswith(" ")
