"""A value that cannot leak by accident: not in a repr, a log, an error, a pickle or an encoder."""

from __future__ import annotations

from typing import NoReturn

SHOWN = "***"
SECRET_CHARS_MIN = 4  # masking a shorter text would garble other data
SECRET_BYTES_MAX = 65_536  # of one value of any source


class Secret:
    """Holds one text. Only `reveal()`, which is easy to search for, returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({SHOWN})"

    def __str__(self) -> str:
        return SHOWN

    def __format__(self, spec: str) -> str:
        return SHOWN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled")
