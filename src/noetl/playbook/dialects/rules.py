"""Rules of v2 and v10 → `when`/`then` and `else: {then: …}`, wherever the parts stood before (D11, D89)."""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Map, pair, plain, rename, set_value, table
from noetl.playbook.dialects.notes import Findings

_THEN = frozenset({"do", "attempts", "backoff", "delay", "max_delay", "jitter", "to", "set", *parts.SETS})


def rewrite_rule(rule: Map, findings: Findings, *, v2: bool) -> None:
    """Bring one rule into the form of today; outside v2 that is a repair, and is said."""
    expr = rule.entry("expr")
    if expr is not None:
        if rule.get("when") is not None:
            findings.refuse(expr.start, '"expr" is called "when" today, and both stand here', fix="keep one")
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
                rule.start, "constant-rule", "a rule without a condition always matches: `when: true`"
            )
    if repaired and not v2:
        words = (
            "what to do stands under `then`" if otherwise is None else "what to do stands under `else.then`"
        )
        findings.note(rule.start, "else-repaired", f"{words}; it has been moved there")


def _rewrite_else(rule: Map, otherwise: LayoutEntry, findings: Findings) -> bool:
    inner = otherwise.value
    if parts.is_null(inner):
        return rule.entry("when") is None and _fill_null_else(rule, otherwise)
    if not isinstance(inner, Map) or inner.get("then") is not None or inner.get("do") is None:
        return False
    if inner.anchored:
        words = "this `else` has an anchor, and what is aliased would have to change with it"
        findings.refuse(otherwise.start, words, fix="write `else: {then: {do: …}}` out where it is used")
        return False
    otherwise.value = _wrapped(inner)
    otherwise.gap = otherwise.gap if inner.style == "flow" else otherwise.gap.rstrip()
    return True


def _fill_null_else(rule: Map, otherwise: LayoutEntry) -> bool:
    """`- else:` with `then`, or even `do`, beside it instead of below it."""
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
    # What `then` says already is not said twice; the check speaks of what is left beside it.
    loose = [entry for entry in rule.entries if entry.name in _THEN and inner.get(entry.name) is None]
    if not loose:
        return False
    rule.entries = [entry for entry in rule.entries if entry not in loose]
    inner.entries += loose
    if then is None:
        rule.entries.append(pair("then", inner))
    return True


def _wrapped(inner: Map) -> Map:
    """`{do: …}` → `{then: {do: …}}`, in braces or in lines as it was."""
    wrapper = Map(entries=[pair("then", inner)], start=inner.start)
    if inner.style == "flow":
        wrapper.style, wrapper.base = "flow", inner.base
        glue = inner.entries[0].glue
        wrapper.entries[0].flow, wrapper.entries[0].gap = True, ": "
        wrapper.entries[0].glue = "" if glue.strip() else glue
    return wrapper
