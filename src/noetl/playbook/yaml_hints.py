"""Slips of the pen in YAML: what the parser stumbled over, in words that say what to write instead."""

from __future__ import annotations

from typing import Final, NamedTuple

import yaml

_UNFIT: Final = ("did not find expected '-' indicator", "did not find expected key")
_TWO_COLONS: Final = "mapping values are not allowed in this context"


class Slip(NamedTuple):
    message: str
    fix: str | None = None


def slip(text: str, error: yaml.MarkedYAMLError) -> Slip:
    """PyYAML's own words where we know no better ones."""
    mark, found = error.problem_mark, error.problem or ""
    before, char = (text[: mark.index], text[mark.index : mark.index + 1]) if mark else ("", "")
    if char == "\t":
        return Slip("a tab stands here, and YAML is indented with spaces", "indent with spaces")
    if found.endswith("cannot start any token"):
        return Slip(f'a value can not begin with "{char}"', "put it in quotes")
    if found in _UNFIT and not before.rpartition("\n")[2].strip():
        message = "this line does not fit those above it: it is indented otherwise, or mixes a list with keys"
        return Slip(message, "indent it as the lines above that it belongs to")
    if found == _TWO_COLONS:
        message = "a `: ` inside of a value: it has no quotes, or its line is indented too far"
        return Slip(message, "put the value in quotes, or indent it as the line above")
    return Slip(" ".join(filter(None, (error.context, found))))


def key_slip(text: str, index: int) -> Slip:
    """Of a key that is a mapping or a list, which begins at `index`: mostly a template without its quotes."""
    if index and text[index - 1 : index + 1] == "{{":
        return Slip("a template stands in quotes, else YAML reads its braces", '"{{ … }}"')
    return Slip("a key must be text, not a list or a mapping")
