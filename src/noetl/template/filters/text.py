"""Filters for text. Each checks the limits before it creates a value.

The input is always text: the caller has converted any other value to JSON (D12).
"""

from __future__ import annotations

import re

from noetl.template.limits import ITEMS_MAX, Meter
from noetl.template.regex import Pattern, Replacement, compiled_pattern
from noetl.template.registry import BuiltinTable, register
from noetl.template.values import JSON, TemplateError

TEXT_FILTERS: BuiltinTable = {}
_WORD = re.compile(r"\w+")
_TITLE_WORD = re.compile(r"[^-\s({\[<]+")
_CHUNKS = re.compile(r"\s+|\S+?(?:(?<=[^\W\d])-(?=[^\W\d])|(?=\s|\Z))")
_WHOLE_CHUNKS = re.compile(r"\s+|\S+")
_ESCAPES = (("&", "&amp;"), (">", "&gt;"), ("<", "&lt;"), ("'", "&#39;"), ('"', "&#34;"))


@register(TEXT_FILTERS, "text|string", "Converts the value to text", ("{{ [1, true]|string }}", '"[1,true]"'))
def string(_: Meter, text: str) -> str:
    return text


def changed(meter: Meter, text: str) -> None:
    """Check the limits for visiting every character of a text and creating a text of the same length."""
    # For text outside ASCII, Python temporarily uses twelve bytes per character.
    meter.text(len(text) if text.isascii() else 2 * len(text))
    meter.charge(len(text) >> 2)


@register(TEXT_FILTERS, "text|lower", "Converts the text to lower case", ("{{ 'ABc'|lower }}", '"abc"'))
def lower(meter: Meter, text: str) -> str:
    changed(meter, text)
    return meter.keep(text.lower())


@register(TEXT_FILTERS, "text|upper", "Converts the text to upper case", ("{{ 'ABc'|upper }}", '"ABC"'))
def upper(meter: Meter, text: str) -> str:
    changed(meter, text)
    return meter.keep(text.upper())


@register(
    TEXT_FILTERS,
    "text|capitalize",
    "Converts the first character to upper case, and the rest to lower case",
    ("{{ 'heLLo you'|capitalize }}", '"Hello you"'),
)
def capitalize(meter: Meter, text: str) -> str:
    changed(meter, text)
    # str.capitalize() uses its slow Unicode path even for ASCII.
    return meter.keep(text[:1].title() + text[1:].lower())


@register(
    TEXT_FILTERS,
    "text|title",
    "Converts the first character of each word to upper case",
    ("{{ 'a new-day'|title }}", '"A New-Day"'),
)
def title(meter: Meter, text: str) -> str:
    changed(meter, text)
    meter.charge(8 * len(text))
    return meter.keep(_TITLE_WORD.sub(lambda word: word[0][0].upper() + word[0][1:].lower(), text))


@register(
    TEXT_FILTERS,
    "text|trim(chars: text? = null)",
    "Removes white space, or the characters in `chars`, from both ends",
    ("{{ '  a '|trim }}", '"a"'),
)
def trim(meter: Meter, text: str, chars: str | None) -> str:
    return stripped(meter, text, chars, text.strip)


def stripped(meter: Meter, text: str, chars: str | None, strip: JSON) -> str:
    # Each character of the text is searched in `chars`.
    meter.text(len(text))
    meter.charge((len(text) >> 4) * (1 + min(len(chars or ""), 64) // 8) + (len(chars or "") >> 6))
    return meter.keep(str(strip(chars)))


@register(
    TEXT_FILTERS,
    "text|center(width: int = 80)",
    "Centers the text in a field of `width` characters",
    ("{{ 'a'|center(3) }}", '" a "'),
)
def center(meter: Meter, text: str, width: int) -> str:
    meter.text(max(width, len(text)))
    return meter.keep(text.center(width))


@register(
    TEXT_FILTERS,
    "text|replace(old: text, new: text, count: int? = null)",
    "Replaces `old` with `new`, at most `count` times",
    ("{{ 'a-b-c'|replace('-', '+', 1) }}", '"a+b-c"'),
)
def replace(meter: Meter, text: str, old: str, new: str, count: int | None) -> str:
    meter.search(text, old)
    found = text.count(old)
    if count is not None and count >= 0:
        found = min(found, count)
    meter.text(max(len(text), len(text) + found * (len(new) - len(old))))
    meter.charge(found + (len(text) >> 6))
    return meter.keep(text.replace(old, new, found))


@register(
    TEXT_FILTERS,
    "text|indent(width: any = 4, first: bool = false, blank: bool = false)",
    "Indents lines by `width` spaces or by a text; the first line only if `first`, blank lines if `blank`",
    ("{{ 'a\\nb'|indent(2) }}", '"a\\n  b"'),
)
def indent(meter: Meter, text: str, width: JSON, first: bool, blank: bool) -> str:
    if type(width) is not int and type(width) is not str:
        raise TemplateError("indent needs a number of spaces, or a text for the start of each line")
    before: str = width if type(width) is str else ""
    size = max(width, 0) if type(width) is int else len(before)
    breaks = text.count("\n")
    meter.text(len(text) + (breaks + 1) * size)
    meter.charge(16)
    meter.items(breaks + 1)
    meter.allocate(50 * breaks + len(text))
    before = before or " " * size
    lines = text.split("\n")
    moved = [lines[0], *(before + line if line or blank else line for line in lines[1:])]
    return meter.keep((before if first else "") + "\n".join(moved))


@register(
    TEXT_FILTERS,
    'text|truncate(length: int = 255, killwords: bool = false, end: text = "...", leeway: int = 5)',
    "Shortens the text to `length` characters and appends `end`; cuts between words unless `killwords`",
    ("{{ 'foo bar baz qux'|truncate(9) }}", '"foo..."'),
)
def truncate(meter: Meter, text: str, *options: JSON) -> str:
    length, killwords, end, leeway = options
    if length < len(end) or leeway < 0:
        raise TemplateError("truncate needs a length of at least the length of `end`, and a leeway of at least 0")
    if len(text) <= length + leeway:
        return text
    meter.text(length)
    cut = text[: length - len(end)]
    return meter.keep((cut if killwords else cut.rsplit(" ", 1)[0]) + end)


@register(TEXT_FILTERS, "text|wordcount", "Counts the words", ("{{ 'one, two'|wordcount }}", "2"))
def wordcount(meter: Meter, text: str) -> int:
    meter.charge(2 * len(text))
    return sum(1 for _ in _WORD.finditer(text))


@register(
    TEXT_FILTERS,
    "text|wordwrap(width: int = 79, break_long_words: bool = true, wrapstring: text? = null, "
    "break_on_hyphens: bool = true)",
    "Wraps the text into lines of `width` characters; existing line breaks stay",
    ("{{ 'one two three'|wordwrap(7) }}", '"one two\\nthree"'),
)
def wordwrap(meter: Meter, text: str, *options: JSON) -> str:
    width, break_long_words, wrapstring, break_on_hyphens = options
    if width < 1:
        raise TemplateError("wordwrap needs a width of at least 1")
    meter.text(len(text))
    meter.charge(16 * len(text))
    chunks = _CHUNKS if break_on_hyphens else _WHOLE_CHUNKS
    lines = [
        line
        for paragraph in text.split("\n")
        for line in (_wrapped(chunks.findall(paragraph), width, break_long_words=break_long_words) or [""])
    ]
    glue = "\n" if wrapstring is None else wrapstring
    meter.text(len(text) + len(lines) * len(glue))
    return meter.keep(glue.join(lines))


def _wrapped(chunks: list[str], width: int, *, break_long_words: bool) -> list[str]:
    lines: list[str] = []
    line: list[str] = []
    length = 0
    for chunk in chunks:
        rest = chunk
        if length + len(rest) > width:
            if rest.isspace():
                lines += _finished(line)
                line, length, rest = [], 0, ""
            elif not break_long_words or len(rest) <= width:
                lines += _finished(line)
                line, length = [], 0
            else:
                start = width - length
                line.append(rest[:start])
                lines += _finished(line)
                cuts = range(start, len(rest), width)
                lines += [rest[cut : cut + width] for cut in cuts[:-1]]
                rest = rest[cuts[-1] :]
                line, length = [], 0
        if rest and not (rest.isspace() and not line and lines):
            line.append(rest)
            length += len(rest)
    return lines + _finished(line)


def _finished(line: list[str]) -> list[str]:
    """The line as text without trailing white space; an empty list if the line is empty."""
    text = "".join(line).rstrip()
    return [text] if text else []


@register(
    TEXT_FILTERS,
    "text|escape",
    "Escapes the characters `&`, `<`, `>`, `'` and `\"` for HTML",
    ("{{ '<a>'|escape }}", '"&lt;a&gt;"'),
    names=("e",),
)
def escape(meter: Meter, text: str) -> str:
    size = len(text) + sum(text.count(plain) * (len(safe) - 1) for plain, safe in _ESCAPES)
    meter.text(size)
    meter.charge(len(text) >> 3)
    for plain, safe in _ESCAPES:
        text = text.replace(plain, safe)
    meter.allocate(4 * size)
    return meter.keep(text)


@register(
    TEXT_FILTERS,
    "text|striptags",
    "Removes HTML tags and comments, and replaces runs of white space with one space",
    ("{{ '<p>a  &amp; b</p>'|striptags }}", '"a & b"'),
)
def striptags(meter: Meter, text: str) -> str:
    meter.text(len(text))
    meter.charge(8 * len(text))
    text = _without(_without(text, "<!--", "-->"), "<", ">")
    from html import unescape  # 2,000 names

    try:
        return meter.keep(unescape(" ".join(text.split())))
    except ValueError:
        raise TemplateError("striptags: a character reference has too many digits") from None


def _without(text: str, start: str, end: str) -> str:
    """Remove everything from each `start` to the next `end`; a start without an end stays."""
    kept: list[str] = []
    place = 0
    while (begin := text.find(start, place)) >= 0 and (stop := text.find(end, begin)) >= 0:
        kept.append(text[place:begin])
        place = stop + len(end)
    return "".join(kept) + text[place:]


@register(
    TEXT_FILTERS,
    "text|split(sep: text? = null, maxsplit: int = -1)",
    "Splits the text at each separator, by default at white space",
    ("{{ 'a,b'|split(',') }}", '["a","b"]'),
)
def split(meter: Meter, text: str, sep: str | None, maxsplit: int) -> list[str]:
    if sep == "":
        raise TemplateError("the separator of split must not be empty")
    meter.text(len(text))
    meter.search(text, sep or " ")
    # One piece more than the limit is enough to exceed it.
    pieces = text.split(sep, ITEMS_MAX if maxsplit < 0 else min(maxsplit, ITEMS_MAX))
    meter.items(len(pieces))
    meter.allocate(50 * len(pieces) + len(text))
    return pieces


@register(
    TEXT_FILTERS,
    "text|regex_search(pattern: pattern, group: key = 0)",
    "Returns the first match of an RE2 pattern, or a group of it by number or name; null if there is none",
    ("{{ 'id=42'|regex_search('id=([0-9]+)', 1) }}", '"42"'),
)
def regex_search(meter: Meter, text: str, regex: Pattern | str, group: str | int) -> str | None:
    ready = regex if isinstance(regex, Pattern) else compiled_pattern(meter, regex)
    place = ready.group(group)
    found = ready.search(meter, text)
    return None if found is None else found[place]


@register(
    TEXT_FILTERS,
    "text|regex_replace(pattern: pattern, replacement: replacement, count: int = 0)",
    r"Replaces the matches of an RE2 pattern, at most `count`; \1 and \g<name> insert a group",
    (r"{{ 'a1b22'|regex_replace('[0-9]+', '#') }}", '"a#b#"'),
)
def regex_replace(meter: Meter, text: str, regex: Pattern | str, replacement: Replacement | str, count: int) -> str:
    ready = regex if isinstance(regex, Pattern) else compiled_pattern(meter, regex)
    if not isinstance(replacement, Replacement):
        meter.charge(len(replacement))
        replacement = Replacement(replacement, ready)
    return ready.replace(meter, text, replacement, count)
