"""Removes secrets from log lines: known values, and texts that look like secrets.

It hides too much rather than too little. A wrapped provider of secrets adds all fetched values.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import re2

from noetl.masking import SECRET_CHARS_MIN, Mask
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, SecretProvider
from noetl.secret import SHOWN, Secret

CHARS_MAX: Final = 8_192  # of one value in a line
VALUES_MAX: Final = 10_000  # known secrets; the oldest is removed
VALUES_PER_MASK: Final = 256  # a new secret compiles the mask of its group only
DEPTH_MAX: Final = 8

_NAMES: Final = (
    r"passw(?:or)?d|passphrase|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|link[_-]?key"
    r"|credential|authorization|cookie|session|signature|dsn"
)
_KEY: Final = re2.compile(rf"(?i)(?:^|[_.-])(?:{_NAMES}|key|auth)s?$")
# Patterns and their replacements, the most specific first.
_LOOKS: Final = [
    (re2.compile(pattern), shown)
    for pattern, shown in (
        (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)", SHOWN),
        (r"(?i)((?:authorization|cookie)[\"']?\s*[:=]\s*)[^\n]*", rf"\1{SHOWN}"),
        (r"(?i)\b(bearer|basic)(\s+)[^\s\"',;]{6,}", rf"\1\2{SHOWN}"),
        (r"(://)[^\s\"'<>]*@", rf"\1{SHOWN}@"),
        (r"\b([A-Za-z0-9_.+-]{1,64}):[^\s@/\"']{1,256}@", rf"\1:{SHOWN}@"),
        (r"([?&#][A-Za-z0-9_.~%\[\]-]{1,64}=)[^&#\s\"'<>]+", rf"\1{SHOWN}"),
        (rf"(?i)((?:{_NAMES})s?[A-Za-z0-9_-]{{0,32}}[\"']?\s*[:=]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&]+)", rf"\1{SHOWN}"),
        (r"\bnoetl_[A-Za-z0-9]+_[A-Za-z0-9_-]+", SHOWN),
        (r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_.-]+", SHOWN),
        (
            r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-|hvs\.|AKIA|ASIA|AIza|ya29\.)[A-Za-z0-9_./-]{10,}",
            SHOWN,
        ),
    )
]
_LONG: Final = re2.compile(r"[A-Za-z0-9_+=-]{28,}")


class Redaction:
    """Removes secrets from texts and from all values of a log line."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        self._known: dict[str, _Group] = {}  # value → its group, the oldest value first

    def hide(self, secret: Secret | str) -> None:
        """Never show this value again."""
        value = secret.reveal() if isinstance(secret, Secret) else secret
        for text in (value, *value.splitlines()):
            if len(text) >= SECRET_CHARS_MIN and text not in self._known:
                self._add(text)

    def _add(self, value: str) -> None:
        if len(self._known) >= VALUES_MAX:
            oldest = next(iter(self._known))
            self._known.pop(oldest).remove(oldest)
        if not self._groups or not self._groups[-1].has_room:
            self._groups = [*(group for group in self._groups if len(group)), _Group()]
        group = self._known[value] = self._groups[-1]
        group.add(value)

    def text(self, text: str) -> str:
        for group in self._groups:
            text = group.mask.text(text)
        for pattern, shown in _LOOKS:
            text = pattern.sub(shown, text)
        text = _LONG.sub(lambda found: SHOWN if _is_random(found[0]) else found[0], text)
        return text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]}…"

    def value(self, value: object, depth: int = DEPTH_MAX) -> object:
        """The value for a log line. An unknown object appears as its type only."""
        match value:
            case None | bool() | int() | float():
                return value if not self._is_known(value) else SHOWN
            case str():
                return self.text(value)
            case Secret():
                return SHOWN
            case datetime():
                return value.isoformat()
            case BaseException():
                return self.text(f"{type(value).__name__}: {value}")
            case Mapping() if depth:
                return self.fields(value, depth - 1)
            case list() | tuple() | set() | frozenset() if depth:
                return [self.value(each, depth - 1) for each in value]
        return f"<{type(value).__name__}>"

    def fields(self, fields: Mapping[Any, object], depth: int = DEPTH_MAX) -> dict[str, object]:
        return {
            self.text(str(name)): SHOWN if _KEY.search(str(name)) else self.value(value, depth)
            for name, value in fields.items()
        }

    def _is_known(self, value: object) -> bool:
        """A secret of digits may appear as a number."""
        return str(value) in self._known


class _Group:
    """Some known values that share one mask, which is compiled when it is first needed."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._mask: Mask | None = None

    def __len__(self) -> int:
        return len(self._values)

    @property
    def has_room(self) -> bool:
        return len(self._values) < VALUES_PER_MASK

    @property
    def mask(self) -> Mask:
        if self._mask is None:
            self._mask = Mask(self._values)
        return self._mask

    def add(self, value: str) -> None:
        self._values[value] = None
        self._mask = None

    def remove(self, value: str) -> None:
        del self._values[value]
        self._mask = None


class HiddenSecrets:
    """Implements SecretProvider, and adds every fetched value to the redaction."""

    def __init__(self, provider: SecretProvider, redaction: Redaction) -> None:
        self._provider = provider
        self._redaction = redaction

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        fetched = await self._provider.fetch(credential, fresh=fresh)
        for value in fetched.values.values():
            self._redaction.hide(value)
        return fetched


def _is_random(text: str) -> bool:
    """Long and with all kinds of characters: names and digests do not look like that."""
    return any(map(str.isupper, text)) and any(map(str.islower, text)) and any(map(str.isdigit, text))
