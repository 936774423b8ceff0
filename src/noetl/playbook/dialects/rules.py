"""Rules of v2 and v10 → `when`/`then` and `else: {then: …}`, from all older forms (D11, D89)."""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Map, pair, plain, rename, set_value, table
from noetl.playbook.dialects.notes import Findings

_THEN = frozenset({"do", "attempts", "backoff", "delay", "max_delay", "jitter", "to", "set", *parts.SETS})


def rewrite_rule(rule: Map, findings: Findings, *, v2: bool) -> None:
    """Convert one rule to the canonical form. Outside v2 this is a repair, and a note says so."""
    expr = rule.entry("expr")
    if expr is not None:
        if rule.get("when") is not None:
            findings.refuse(
                expr.start, '"expr" has been renamed to "when", but both are present', fix="keep one"
            )
            return
        rename(expr, "when")
    otherwise = rule.entry("else")
    if otherwise is not None:
        repaired = _rewrite_else(rule, otherwise, findings)
    else:
        repaired = _move_under_then(rule)
        if repaired and rule.get("when") is None:
            rule.entries.insert(0, pair("when", plain("true")))
            findings.note(
                rule.start,
                "constant-rule",
                "a rule without a condition always matches; `when: true` has been added",
            )
    if repaired and not v2:
        message = (
            "the action belongs under `then`" if otherwise is None else "the action belongs under `else.then`"
        )
        findings.note(rule.start, "else-repaired", f"{message} and has been moved there")


def _rewrite_else(rule: Map, otherwise: LayoutEntry, findings: Findings) -> bool:
    inner = otherwise.value
    if parts.is_null(inner):
        return rule.entry("when") is None and _fill_null_else(rule, otherwise)
    if not isinstance(inner, Map) or inner.get("then") is not None or inner.get("do") is None:
        return False
    if inner.anchored:
        message = "this `else` has an anchor, so its aliases would change too"
        findings.refuse(otherwise.start, message, fix="write `else: {then: {do: …}}` in place of each alias")
        return False
    otherwise.value = _wrapped(inner)
    otherwise.gap = otherwise.gap if inner.style == "flow" else otherwise.gap.rstrip()
    return True


def _fill_null_else(rule: Map, otherwise: LayoutEntry) -> bool:
    """Repair `- else:` with `then` or `do` beside it instead of inside it."""
    beside = [entry for entry in rule.entries if entry is not otherwise]
    if not beside:
        return False
    rule.entries = [otherwise]
    if any(entry.name == "then" for entry in beside):
        set_value(otherwise, Map(entries=beside))
    else:
        set_value(otherwise, table(then=Map(entries=beside)))
    return True


def _move_under_then(rule: Map) -> bool:
    then = rule.entry("then")
    inner = Map() if then is None else then.value
    if not isinstance(inner, Map):
        return False
    # Keys that `then` already has are not moved; the check reports the remaining ones.
    loose = [entry for entry in rule.entries if entry.name in _THEN and inner.get(entry.name) is None]
    if not loose:
        return False
    rule.entries = [entry for entry in rule.entries if entry not in loose]
    inner.entries += loose
    if then is None:
        rule.entries.append(pair("then", inner))
    return True


def _wrapped(inner: Map) -> Map:
    """`{do: …}` → `{then: {do: …}}`, in the same style, flow or block."""
    wrapper = Map(entries=[pair("then", inner)], start=inner.start)
    if inner.style == "flow":
        wrapper.style, wrapper.base = "flow", inner.base
        glue = inner.entries[0].glue
        wrapper.entries[0].flow, wrapper.entries[0].gap = True, ": "
        wrapper.entries[0].glue = "" if glue.strip() else glue
    return wrapper
