"""JSON on standard output."""

from __future__ import annotations

import msgspec

from noetl.cli.output.documents import as_document, as_line, as_lines

HOSTILE = {"text": "\x1b[31mred\x07 \x9b2J \u202eevil\u200b \x7f ü"}


def test_a_document_is_indented_and_ends_its_line() -> None:
    assert as_document({"a": [1, None]}) == '{\n  "a": [\n    1,\n    null\n  ]\n}\n'


def test_a_line_is_one_line_whatever_stands_in_its_texts() -> None:
    assert as_line({"a": "b\nc\u2028d"}) == '{"a":"b\\nc\\u2028d"}\n'


def test_what_a_terminal_would_obey_is_escaped_and_the_value_stays_the_same() -> None:
    written = as_line(HOSTILE)
    assert written == ('{"text":"\\u001b[31mred\\u0007 \\u009b2J \\u202eevil\\u200b \\u007f ü"}\n')
    assert msgspec.json.decode(written) == HOSTILE


def test_the_lines_of_a_value_are_yaml_and_those_of_a_text_its_own() -> None:
    assert as_lines({"a": 1, "b": [{"c": None}]}) == ["a: 1", "b:", "- c: null"]
    assert (as_lines("two\nlines"), as_lines(""), as_lines(None)) == (["two", "lines"], [""], ["null"])
