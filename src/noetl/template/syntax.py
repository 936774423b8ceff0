"""Parses template text into a syntax tree."""

from __future__ import annotations

import re
from typing import NamedTuple

from noetl.template.limits import TEMPLATE_CHARS_MAX
from noetl.template.nodes import Node, TemplateStatement
from noetl.template.parser import parse_common

_MISTAKEN = {"&&": "and", "||": "or", "!==": "!=", "===": "=="}
_TEXT = r"'[^']*'|\"[^\"]*\""
_TAG = r"(?s)\{[{%](.*?)[%}]\}"
_CR_STAND_INS = "\x1f\x1e\x1d\x1c"  # white space to Jinja2, but not line breaks


class Fault(NamedTuple):
    """One mistake in a template."""

    code: str  # bad-template, unknown-filter, unknown-test, bad-arguments, not-allowed
    message: str
    line: int  # within the template, from 1
    needle: str | None = None  # text of the template to point at
    fix: str | None = None  # what to write instead


class BadTemplate(Exception):
    """A template does not compile. `faults` lists all mistakes in it."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


class Syntax(NamedTuple):
    """A parsed template."""

    body: list[Node]
    statements: tuple[TemplateStatement, ...]
    cr_stand_in: str | None  # the character that replaces carriage returns; None: the text has none


def parse(source: str) -> Syntax:
    """Parse a template. Raises BadTemplate with the fault that stopped the parser."""
    if len(source) > TEMPLATE_CHARS_MAX:
        raise _bad(f"the template has {len(source):,} characters (limit TEMPLATE_CHARS_MAX: {TEMPLATE_CHARS_MAX:,})", 1)
    common = parse_common(source)
    return Syntax(common, (), None) if common is not None else _parse_with_jinja(source)


def _parse_with_jinja(source: str) -> Syntax:
    from noetl.template.jinja import OversizedTemplate, UnreadableTemplate, read

    # Jinja2 turns every line break into \n, but text must stay unchanged.
    cr_stand_in = None
    if "\r" in source:
        cr_stand_in = next((letter for letter in _CR_STAND_INS if letter not in source), None)
        if cr_stand_in is not None:
            source = source.replace("\r", cr_stand_in)
    try:
        body, statements = read(source)
    except OversizedTemplate as error:
        raise _bad(*error.args) from None
    except UnreadableTemplate as error:
        message, line = error.args
        wrong, right = _symbol_instead_of_word(source, message)
        raise _bad(f"{message}; instead of {wrong} write {right}" if wrong else message, line, right) from None
    return Syntax(body, tuple(statements), cr_stand_in)


def _bad(message: str, line: int, fix: str | None = None) -> BadTemplate:
    return BadTemplate((Fault("bad-template", message, line, fix=fix),))


def _symbol_instead_of_word(source: str, message: str) -> tuple[str | None, str | None]:
    """An operator of another language in a template that cannot be parsed, and the operator of this one."""
    code = " ".join(re.findall(_TAG, re.sub(_TEXT, "''", source)))
    for wrong, right in _MISTAKEN.items():
        if wrong in code:
            return wrong, right
    if "!" in code.replace("!=", ""):
        return "!", "not"
    return ("=", "==") if re.search("""['"]=['"]""", message) else (None, None)
