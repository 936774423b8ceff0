"""A playbook with ten secret inputs whose tasks print, return, send and raise them, and fail."""

from __future__ import annotations

import json

from tests.e2e.test_secrets import CODES, MARKER, canary, forms
from tests.playbooks import HEAD

COUNT = 10
SECRETS = {f"s{number}": canary(number) for number in range(COUNT)}


def _key(number: int) -> str:
    return f"{{{{ keychain.s{number} }}}}"


def _python(number: int, code: str, **more: object) -> dict[str, object]:
    return {"kind": "python", "input": {"t": _key(number)}, "code": CODES[code], **more}


def playbook(echo: str) -> str:
    """`echo`: the address of a server that echoes requests. The last step fails the execution."""
    tasks: list[object] = [
        _python(0, "returned"),
        _python(1, "raised"),
        _python(2, "printed"),
        _python(3, "large"),
        {"kind": "http", "url": f"{echo}/v", "params": {"token": _key(4)}},
        {"kind": "http", "url": f"{echo}/status/500", "method": "POST", "json": {"t": _key(5)}},
        {"kind": "shell", "argv": ["sh", "-c", f'echo "$T {MARKER}"; exit 3'], "env": {"T": _key(6)}},
        {"kind": "http", "url": f"{echo}/v", "auth": "s7", "headers": {"X-Also": "x"}},
        {"kind": "noop", "input": {"t": _key(8), "note": MARKER}},
        _python(9, "exit"),
    ]
    names = ["start", *(f"t{number}" for number in range(1, COUNT))]
    steps: list[dict[str, object]] = [{"step": name, "tool": task} for name, task in zip(names, tasks, strict=True)]
    for step, following in zip(steps, names[1:], strict=False):
        step["next"] = {"arcs": [{"step": following, "when": "{{ event.name is defined }}"}]}
    inputs = {name: {"type": "string", "secret": True} for name in SECRETS}
    return HEAD + f"input: {json.dumps(inputs | {'open': {'type': 'string'}})}\nworkflow: {json.dumps(steps)}\n"


def found_in(*texts: str | bytes) -> list[tuple[str, bytes]]:
    """Every form of every secret that one of the texts contains."""
    heap = b"\n".join(text if isinstance(text, bytes) else text.encode() for text in texts)
    return [(name, form) for name, value in SECRETS.items() for form in forms(value) if form in heap]
