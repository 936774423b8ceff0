"""Regular expressions with RE2, whose search time is linear, charged by their worst case.

Patterns have no look-around and no back references. RE2 is imported with the first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.template.limits import (
    PATTERN_CHARS_MAX,
    PATTERN_MEMORY_MAX,
    PATTERN_PROGRAM_MAX,
    Meter,
    limit_exceeded,
)
from noetl.template.values import JSON, TemplateError

_SMALL = 32  # instructions up to which RE2 uses its fast matcher
_REFERENCE = re.compile(r"\\(?:(\d{1,2})|g<(\w{1,100})>|(\\))")
# Patterns that never look far beyond their match: single characters, and at most one repetition at the end.
_LOCAL = re.compile(r"(?:[^\\.()\[\]{}*+?|^$]|\\\S|\.|\[\^?(?:[^\[\]\\]|\\\S)+\])+[*+]?")


class Pattern:
    """A compiled pattern and its cost."""

    __slots__ = ("groups", "local", "names", "price", "regexp")

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_CHARS_MAX:
            raise limit_exceeded("PATTERN_CHARS_MAX", f"the pattern has {len(text):,} characters")
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = PATTERN_MEMORY_MAX
        try:
            self.regexp = re2.compile(text, options)
        except re2.error as error:
            raise TemplateError(f'the pattern "{text[:60]}" is not valid: {_reason(error)}') from None
        except UnicodeEncodeError:
            raise TemplateError("the pattern contains half a surrogate pair") from None
        self.price: int = self.regexp.programsize
        if self.price > PATTERN_PROGRAM_MAX:
            raise limit_exceeded("PATTERN_PROGRAM_MAX", f'the pattern "{text[:60]}" is too large')
        self.groups: int = self.regexp.groups
        self.names: dict[str, int] = self.regexp.groupindex
        self.local = _LOCAL.fullmatch(text) is not None

    def group(self, group: JSON) -> int:
        """The number of a group, from its number or its name."""
        number = self.names.get(group) if type(group) is str else group
        if type(number) is not int or not 0 <= number <= self.groups:
            raise TemplateError(f'the pattern has no group "{group}"')
        return number

    def charge(self, meter: Meter, size: int) -> None:
        """Charge for one search: RE2's slow matcher needs at most 12 ns per byte and instruction."""
        meter.charge(20 + (size * self.price >> 2))

    def search(self, meter: Meter, text: str) -> list[str | None] | None:
        """The whole match and its groups; None if nothing matches."""
        data = _bytes(meter, text)
        self.charge(meter, len(data))
        match = self.regexp.search(data)
        return None if match is None else [_text(meter, match.group(place)) for place in range(self.groups + 1)]

    def replace(self, meter: Meter, text: str, replacement: Replacement, count: int) -> str:
        data = _bytes(meter, text)
        pieces: list[bytes] = []
        end = size = 0
        for made, match in enumerate(self._matches(meter, data), 1):
            start, stop = match.span()
            filled = replacement.fill(match)
            pieces += (data[end:start], filled)
            size += start - end + len(filled)
            if size > meter.text_max * 4:
                raise meter.too_long()
            meter.allocate(len(filled) + 120)
            end = stop
            if made == count:
                break
        pieces.append(data[end:])
        meter.text((size + len(data) - end) // 4)
        return meter.keep(b"".join(pieces).decode())

    def _matches(self, meter: Meter, data: bytes) -> Iterator[JSON]:
        self.charge(meter, len(data))
        for match in self.regexp.finditer(data):
            start = match.start()
            # Ignore a match in the middle of a multi-byte character.
            if start < len(data) and data[start] & 0xC0 == 0x80:
                continue
            meter.charge(70)
            yield match
            if not self.local:
                # The next search may read the whole rest; a small pattern takes 3 ns per byte.
                rest = len(data) - match.end()
                meter.charge(rest >> 4 if self.price <= _SMALL else rest * self.price >> 3)


class Replacement:
    r"""The replacement of a match: text with references \1, \g<name> and the escape \\."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str, pattern: Pattern) -> None:
        self._pieces: list[bytes | int] = []
        end = 0
        for match in _REFERENCE.finditer(text):
            self._pieces.append(_encoded(text[end : match.start()]))
            number, name, backslash = match.groups()
            if backslash:
                self._pieces.append(b"\\")
            else:
                group = name or number
                self._pieces.append(pattern.group(int(group) if group.isdecimal() else group))
            end = match.end()
        self._pieces.append(_encoded(text[end:]))

    def fill(self, match: JSON) -> bytes:
        return b"".join([piece if type(piece) is bytes else match.group(piece) or b"" for piece in self._pieces])


def compile_cost(text: str) -> int:
    """The cost of compiling a pattern. Unicode classes and counted repetitions are the slow parts."""
    classes = text.count("\\p") + text.count("\\P")
    return 200 + 40 * min(len(text), PATTERN_CHARS_MAX) + 2_000 * classes + (20_000 if "{" in text else 0)


def compiled_pattern(meter: Meter, text: str) -> Pattern:
    """Compile a pattern that is not a constant, once per evaluation."""
    ready = meter.patterns.get(text)
    if ready is None:
        meter.charge(compile_cost(text))
        ready = Pattern(text)
        # A new dict, because all meters share the empty one.
        meter.patterns = {**meter.patterns, text: ready}
    return ready


def _bytes(meter: Meter, text: str) -> bytes:
    meter.text(len(text))
    data = _encoded(text)
    meter.allocate(len(data))
    return data


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise TemplateError("the text contains half a surrogate pair") from None


def _text(meter: Meter, data: bytes | None) -> str | None:
    return None if data is None else meter.keep(data.decode())


def _reason(error: Exception) -> str:
    message = error.args[0] if error.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
