"""The limits of templates, and the meter that counts the work and the memory of one evaluation.

Error messages contain the name of the limit. Work is counted in units of fuel and never timed, so that a
replay gives the same result. One unit of fuel is about 50 ns.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import getsizeof
from types import MappingProxyType

from noetl.template.values import JSON, Moment, TemplateError, ValueSize, measure, scalar_text, to_json

TEMPLATE_CHARS_MAX = 65_536  # characters of the source of a template
TOKENS_MAX = 3_000  # names, numbers, operators and pieces of text in a template; Jinja2 needs 5 to 8 µs for each
NESTING_MAX = 32  # open brackets, blocks and unary operators: Jinja2's parser nests 14 calls for each
EXPRESSION_DEPTH_MAX = 64  # depth of the syntax tree of an expression
FUEL_MAX = 400_000  # units of work for one evaluation: about 20 ms, and less than 50
MEMORY_MAX = 8_388_608  # bytes that one evaluation allocates in total, including values that it drops again
TEXT_CHARS_MAX = 1_048_576  # characters of one text that a template creates
TASK_FUEL_MAX = 6_000_000  # as FUEL_MAX, for the values of a task, which a worker evaluates: about 0.3 s
TASK_MEMORY_MAX = 268_435_456  # as MEMORY_MAX, for the values of a task
TASK_TEXT_CHARS_MAX = 67_108_864  # as TEXT_CHARS_MAX, for the values of a task: as much as a scope holds (D91)
ITEMS_MAX = 100_000  # items of one list that a template creates
RANGE_MAX = 10_000  # items of range()
INT_MAX = 2**63 - 1  # whole numbers that a template calculates
BITS_MAX = 14_000  # bits of a number in the data that is written as text
JSON_DEPTH_MAX = 64  # nesting of a text that fromjson reads
PATTERN_CHARS_MAX = 1_000  # characters of a regular expression
PATTERN_PROGRAM_MAX = 2_000  # instructions of a compiled regular expression
PATTERN_MEMORY_MAX = 262_144  # bytes that RE2 may use for one regular expression


def limit_exceeded(name: str, what: str) -> TemplateError:
    return TemplateError(f"{what} (limit {name}: {globals()[name]:,})")


class Meter:
    """The remaining budget of one evaluation. Class attributes hold the defaults: creating one is cheap."""

    prefix: str = ""  # of the names of the three limits
    text_max: int = TEXT_CHARS_MAX
    fuel: int = FUEL_MAX
    memory: int = MEMORY_MAX
    written: int = 0  # characters of the text that the template has produced
    uuids: int = 0  # how often uuid() was called
    moment: Moment | None = None  # None: now() and uuid() have no value here
    slots: list[JSON]  # the variables of {% for %}
    patterns: Mapping[str, JSON] = MappingProxyType({})  # regular expressions compiled so far, by their text

    def charge(self, units: int) -> None:
        left = self.fuel - units
        if left < 0:
            raise limit_exceeded(f"{self.prefix}FUEL_MAX", "the template needs too much work")
        self.fuel = left

    def allocate(self, size: int) -> None:
        left = self.memory - size
        if left < 0:
            raise limit_exceeded(f"{self.prefix}MEMORY_MAX", "the template creates too much data")
        self.memory = left

    def text(self, chars: int) -> None:
        """Check the limit and charge for a text of `chars` characters, before it is created."""
        if chars > self.text_max:
            raise self.too_long(f"a text of {chars:,} characters")
        self.charge(1 + (chars >> 8))

    def keep(self, text: str) -> str:
        """Count a text that was created, and return it."""
        if len(text) > self.text_max:
            raise self.too_long()
        self.allocate(getsizeof(text))
        return text

    def too_long(self, what: str = "a text that is too long") -> TemplateError:
        return limit_exceeded(f"{self.prefix}TEXT_CHARS_MAX", f"the template creates {what}")

    def items(self, count: int) -> None:
        """Check the limit and charge for a list of `count` items, before it is created."""
        if count > ITEMS_MAX:
            raise limit_exceeded("ITEMS_MAX", f"the template creates a list of {count:,} items")
        self.charge(1 + count)
        self.allocate(56 + 8 * count)

    def measure(self, value: JSON, enough: int | None = None) -> ValueSize:
        """Count the characters and parts of a value, and charge for visiting all of them."""
        size = measure(value, self.text_max if enough is None else enough, self.fuel // 3)
        self.charge(20 + 3 * size.parts + (size.chars >> 6))
        return size

    def search(self, text: str, part: str) -> None:
        """Charge for searching a part in a text: for short texts the cost is the product of both lengths."""
        chars = len(text)
        self.charge(1 + (chars >> 4) + (min(chars, 30_000) * min(len(part), 100) >> 6))


class TaskMeter(Meter):
    """The budget of a value of a task: what a scope holds, a task can pass on as text (D91)."""

    prefix = "TASK_"
    text_max = TASK_TEXT_CHARS_MAX
    fuel = TASK_FUEL_MAX
    memory = TASK_MEMORY_MAX


def json_text(value: JSON, meter: Meter | None = None) -> str:
    """A value as it is written inside text: text unchanged, any other value as compact JSON (D12)."""
    meter = meter or Meter()
    if type(value) is int and not -INT_MAX <= value <= INT_MAX:
        # Writing a number takes time proportional to the square of its digits. Only data has such numbers.
        bits = value.bit_length()
        if bits > BITS_MAX:
            raise limit_exceeded("BITS_MAX", "the number is too large to be written as text")
        meter.charge(bits * bits >> 15)
    text = scalar_text(value)
    if text is not None:
        return text
    meter.text(meter.measure(value).chars)
    return meter.keep(to_json(value))
