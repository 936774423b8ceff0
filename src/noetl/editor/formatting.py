"""A playbook's text in the canonical layout; the compiler says which of its texts are templates."""

from __future__ import annotations

from noetl.checks.checker import Checked, check
from noetl.playbook.format import FormattedText, format_text
from noetl.playbook.kinds import Kinds


def format_playbook(text: str, kinds: Kinds, file: str = "<playbook>") -> FormattedText:
    """Raises PlaybookError if the text is not valid YAML."""
    return format_checked(text, check(text, kinds, file), file)


def format_checked(text: str, checked: Checked, file: str = "<playbook>") -> FormattedText:
    """The same for a text that was checked before."""
    program = checked.program
    return format_text(text, file, frozenset(use.path for use in program.templates) if program is not None else ())
