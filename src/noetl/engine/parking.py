"""Task kinds that call no tool. Their frame is parked until control resumes it. This module decides what it awaits.

`workbook` waits for a block, `playbook` for a child, `wait` for time or a signal.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from uuid import UUID

from msgspec.json import encode
from msgspec.structs import replace

from noetl.engine.facts import ForBlock, ForChild, ForSignal, ForTime, Until
from noetl.engine.scopes import misfit
from noetl.errors import Rejected
from noetl.net.inputs import DECISION_KEYS, ValueMismatch, form_inputs
from noetl.output import JSON
from noetl.playbook.source import TEXT_BYTES_MAX

PARKING = frozenset({"workbook", "playbook", "wait"})
DELAY_S_MAX = 366 * 86_400.0  # longest delay of a retry or a wait
QUESTION_BYTES_MAX = 65_536  # size of the question that a `wait` task shows to a person; the log contains it
AMOUNT_MAX = 1e15  # largest number of attempts or seconds that is accepted


class BadField(Exception):
    """The value of a field cannot be used."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def document_text(document: JSON) -> str:
    """The text of a playbook that a task has created. Control checks it and reports its problems (D103)."""
    from noetl.playbook.write import emit  # most executions do not need it

    text: str = document if isinstance(document, str) else emit(document)
    # A longer text is refused anyway, and lone surrogates cannot be stored.
    return text[: TEXT_BYTES_MAX + 1].encode(errors="replace").decode()


def waits_for(
    kind: str, fields: dict[str, JSON], input: dict[str, JSON], call: str, at: datetime, *, document: str | None = None
) -> Until:
    """What the parked frame waits for. `call`: ids of the execution and the call; a child id is derived from them."""
    if kind == "workbook":
        return ForBlock(block=fields["block"], input=input)
    if kind == "playbook":
        child = ForChild(execution_id=child_id(call), path="", workload=input)
        if document is not None:
            return replace(child, digest=hashlib.sha256(document.encode()).hexdigest())
        return replace(child, path=_text(fields, "path"), version=fields.get("version"))
    assert kind == "wait", kind
    return _pause(input, at)


def child_id(call: str) -> str:
    """The execution id of a child, derived from the call that starts it: each attempt has its own child (D58)."""
    seed = hashlib.sha256(f"child {call}".encode()).digest()[:16]
    return str(UUID(bytes=seed, version=5))


def with_iteration(until: Until, around: dict[str, JSON]) -> Until:
    """Add the iteration that calls a block: the block may loop over its item, which control cannot fetch."""
    if not isinstance(until, ForBlock):
        return until
    failure = misfit("iter", around)
    if failure is not None:
        raise BadField("iter", f"the item of the iteration that calls the block is too large: {failure.message}")
    return replace(until, iter=around)


def is_amount(value: JSON) -> bool:
    return type(value) in (int, float) and 0 <= value <= AMOUNT_MAX


def _pause(input: dict[str, JSON], at: datetime) -> Until:
    if "signal" in input:
        return _question(input)
    if "seconds" in input:
        seconds = input["seconds"]
        if not is_amount(seconds):
            raise BadField("seconds", "it must be a number of at least 0")
        return ForTime(at=at + timedelta(seconds=min(seconds, DELAY_S_MAX)))
    written = _text(input, "until")
    try:
        until = datetime.fromisoformat(written.replace("Z", "+00:00"))
        zoned = until.tzinfo is not None
        ends = until.astimezone(UTC) if zoned else until
    except (ValueError, OverflowError):
        message = f'it must be an instant such as 2026-01-31T12:00:00Z, not "{written}"'
        raise BadField("until", message) from None
    if not zoned:
        raise BadField("until", "it must name its time zone, for example by a Z at the end")
    return ForTime(at=ends)


def _question(input: dict[str, JSON]) -> ForSignal:
    form = input.get("form") or {}
    try:
        form_inputs(form)
    except ValueMismatch as misfit:
        raise BadField("form", str(misfit)) from None
    title, text = (_text(input, key) if input.get(key) else "" for key in ("title", "text"))
    question = ForSignal(name=_text(input, "signal"), title=title, text=text, data=input.get("data"), form=form)
    if len(encode(question)) > QUESTION_BYTES_MAX:
        raise BadField("data", f"the question is larger than {QUESTION_BYTES_MAX:,} bytes: show a part of the data")
    return question


def answered(parked: ForSignal, data: JSON) -> JSON:
    """The output of a `wait` task. The fields of its form get their types. Raises Rejected.

    A rejection does not have to fill in the form.
    """
    if not parked.form or (type(data) is dict and data.get("approved") is False):
        return data
    if data is not None and type(data) is not dict:
        raise Rejected("bad-form", "the answer to a form is a mapping of its fields")
    given = data or {}
    decision = {key: given[key] for key in DECISION_KEYS if key in given}
    fitted = form_inputs(parked.form).fit(
        {key: value for key, value in given.items() if key not in decision}, is_stored=lambda _: False
    )
    if fitted.problems:
        wrong = "; ".join(f"{each.name}: {each.message}" for each in fitted.problems)
        raise Rejected("bad-form", f"the values do not fit the form: {wrong}")
    return {**fitted.workload, **decision}


def _text(values: dict[str, JSON], key: str) -> str:
    value = values.get(key)
    if type(value) is not str or not value:
        raise BadField(key, "it must be text")
    return value
