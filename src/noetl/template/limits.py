"""How much a template may be, and the meter that counts what one evaluation spends and makes.

Each limit has a name that its error repeats. Work is counted, never timed, so that a replay agrees;
one unit of fuel is about 50 ns.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import getsizeof
from types import MappingProxyType

from noetl.template.values import JSON, Moment, TemplateError, ValueSize, measure, scalar_text, to_json

TEMPLATE_CHARS_MAX = 65_536  # of a template's source
TOKENS_MAX = (
    3_000  # names, numbers, signs and stretches of text in a template; Jinja needs 5 to 8 µs for each
)
NESTING_MAX = 32  # brackets, blocks, signs before a value: Jinja's parser descends 14 calls for each
EXPRESSION_DEPTH_MAX = 64  # of the tree that the parser gives us
FUEL_MAX = 400_000  # units for one evaluation: about 20 ms, and never 50
MEMORY_MAX = 8_388_608  # bytes that one evaluation makes, all told, even if it drops them again
TEXT_CHARS_MAX = 1_048_576  # of one text that a template makes
ITEMS_MAX = 100_000  # of one list that a template makes
RANGE_MAX = 10_000  # items of range()
INT_MAX = 2**63 - 1
BITS_MAX = 14_000  # of a number from outside that is written as text
JSON_DEPTH_MAX = 64  # of what fromjson reads
PATTERN_CHARS_MAX = 1_000  # of a regular expression
PATTERN_PROGRAM_MAX = 2_000  # instructions that it compiles to
PATTERN_MEMORY_MAX = 262_144  # bytes that RE2 may use for one pattern


def limit_exceeded(name: str, limit: int, what: str) -> TemplateError:
    return TemplateError(f"{what} (limit {name}: {limit:,})")


class Meter:
    """What one evaluation may still spend. The defaults stand in the class, so that making one is cheap."""

    fuel: int = FUEL_MAX
    memory: int = MEMORY_MAX
    written: int = 0  # characters of the text that the template gives
    uuids: int = 0  # how often uuid() was called
    moment: Moment | None = None  # None: now() and uuid() have no value here
    slots: list[JSON]  # the variables of {% for %}
    patterns: Mapping[str, JSON] = MappingProxyType({})  # compiled so far, by their text

    def charge(self, units: int) -> None:
        left = self.fuel - units
        if left < 0:
            raise limit_exceeded("FUEL_MAX", FUEL_MAX, "the template needs too much work")
        self.fuel = left

    def allocate(self, size: int) -> None:
        left = self.memory - size
        if left < 0:
            raise limit_exceeded("ROOM_MAX", MEMORY_MAX, "the template makes too much data")
        self.memory = left

    def text(self, chars: int) -> None:
        """Ask before a text of so many characters is made."""
        if chars > TEXT_CHARS_MAX:
            raise limit_exceeded(
                "TEXT_CHARS_MAX", TEXT_CHARS_MAX, f"the template makes a text of {chars:,} characters"
            )
        self.charge(1 + (chars >> 8))

    def keep(self, text: str) -> str:
        """Count a text that was made."""
        if len(text) > TEXT_CHARS_MAX:
            raise limit_exceeded("TEXT_CHARS_MAX", TEXT_CHARS_MAX, "the template makes too long a text")
        self.allocate(getsizeof(text))
        return text

    def items(self, count: int) -> None:
        """Ask before a list of so many items is made."""
        if count > ITEMS_MAX:
            raise limit_exceeded("ITEMS_MAX", ITEMS_MAX, f"the template makes a list of {count:,} items")
        self.charge(1 + count)
        self.allocate(56 + 8 * count)

    def measure(self, value: JSON, enough: int = TEXT_CHARS_MAX) -> ValueSize:
        """Count the characters and parts of a value, and pay for a walk through all of them."""
        size = measure(value, enough, self.fuel // 3)
        self.charge(20 + 3 * size.parts + (size.chars >> 6))
        return size

    def search(self, text: str, part: str) -> None:
        """Pay for looking for a part in a text: short texts are searched the plain, multiplying way."""
        chars = len(text)
        self.charge(1 + (chars >> 4) + (min(chars, 30_000) * min(len(part), 100) >> 6))


def json_text(value: JSON, meter: Meter | None = None) -> str:
    """How a value is written inside text: strings as they are, else compact JSON (D12)."""
    meter = meter or Meter()
    if type(value) is int and not -INT_MAX <= value <= INT_MAX:
        # Digits take the square of their number; such a number comes from outside.
        bits = value.bit_length()
        if bits > BITS_MAX:
            raise limit_exceeded("BITS_MAX", BITS_MAX, "the number is too large to be written")
        meter.charge(bits * bits >> 15)
    text = scalar_text(value)
    if text is not None:
        return text
    meter.text(meter.measure(value).chars)
    return meter.keep(to_json(value))
