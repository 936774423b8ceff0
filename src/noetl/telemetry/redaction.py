"""The one place where secrets are taken out of log lines: what is known to be one, and what looks like one.

It rather hides too much. Values that were fetched are told to it by the wrapped provider of secrets.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, quote_plus

import re2
from msgspec.json import encode

from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, SecretProvider
from noetl.secret import SHOWN, Secret

CHARS_MAX: Final = 8_192  # of one value in a line
VALUES_MAX: Final = 10_000  # secrets that are known at once; the oldest is forgotten
SECRET_CHARS_MIN: Final = 4  # a shorter one would take half of the words with it
DEPTH_MAX: Final = 8

_NAMES: Final = (
    r"passw(?:or)?d|passphrase|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|link[_-]?key"
    r"|credential|authorization|cookie|session|signature|dsn"
)
_KEY: Final = re2.compile(rf"(?i)(?:^|[_.-])(?:{_NAMES}|key|auth)s?$")
# Each with what is put in its place. Those that know more of a text come first.
_LOOKS: Final = [
    (re2.compile(pattern), shown)
    for pattern, shown in (
        (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)", SHOWN),
        (r"(?i)((?:authorization|cookie)[\"']?\s*[:=]\s*)[^\n]*", rf"\1{SHOWN}"),
        (r"(?i)\b(bearer|basic)(\s+)[^\s\"',;]{6,}", rf"\1\2{SHOWN}"),
        (r"(://)[^\s\"'<>]*@", rf"\1{SHOWN}@"),
        (r"\b([A-Za-z0-9_.+-]{1,64}):[^\s@/\"']{1,256}@", rf"\1:{SHOWN}@"),
        (r"([?&#][A-Za-z0-9_.~%\[\]-]{1,64}=)[^&#\s\"'<>]+", rf"\1{SHOWN}"),
        (
            rf"(?i)((?:{_NAMES})s?[A-Za-z0-9_-]{{0,32}}[\"']?\s*[:=]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&]+)",
            rf"\1{SHOWN}",
        ),
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
    """Takes secrets out of texts, and out of whatever a line may hold."""

    def __init__(self) -> None:
        self._forms: dict[str, tuple[str, ...]] = {}
        self._pattern: Any = None  # of all forms; None: to be made again

    def hide(self, secret: Secret | str) -> None:
        """Never show this value again."""
        value = secret.reveal() if isinstance(secret, Secret) else secret
        if len(value) < SECRET_CHARS_MIN or value in self._forms:
            return
        if len(self._forms) >= VALUES_MAX:
            del self._forms[next(iter(self._forms))]
        self._forms[value] = _forms(value)
        self._pattern = None

    def text(self, text: str) -> str:
        if self._forms:
            text = self._known().sub(SHOWN, text)
        for pattern, shown in _LOOKS:
            text = pattern.sub(shown, text)
        text = _LONG.sub(lambda found: SHOWN if _is_random(found[0]) else found[0], text)
        return text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]}…"

    def value(self, value: object, depth: int = DEPTH_MAX) -> object:
        """As it may stand in a line. What we do not know is shown by its type alone."""
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

    def _known(self) -> Any:
        if self._pattern is None:
            options = re2.Options()
            options.max_mem = 1 << 28
            options.never_capture = True
            forms = sorted({form for forms in self._forms.values() for form in forms}, key=len, reverse=True)
            self._pattern = re2.compile("|".join(map(re2.escape, forms)), options)
        return self._pattern

    def _is_known(self, value: object) -> bool:
        """A secret of digits may come as a number."""
        return str(value) in self._forms


class HiddenSecrets:
    """Keeps the contract of SecretProvider: whatever comes through is never shown in a line."""

    def __init__(self, provider: SecretProvider, redaction: Redaction) -> None:
        self._provider = provider
        self._redaction = redaction

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        fetched = await self._provider.fetch(credential, fresh=fresh)
        for value in fetched.values.values():
            self._redaction.hide(value)
        return fetched


def _forms(value: str) -> tuple[str, ...]:
    """A value as it is, and as it is written in addresses, JSON, Python, base64 and hex."""
    body = value.encode(errors="replace")
    plain = base64.b64encode(body).decode().rstrip("=")
    written = {
        value, quote(value), quote(value, safe=""), quote_plus(value), encode(value).decode()[1:-1],
        json.dumps(value)[1:-1],
        repr(value)[1:-1], plain, plain.translate(_URL_SAFE), body.hex(), body.hex().upper(),
        *(line for line in value.splitlines() if len(line) >= SECRET_CHARS_MIN),
    }  # fmt: skip
    return tuple(form for form in written if len(form) >= SECRET_CHARS_MIN)


_URL_SAFE: Final = str.maketrans("+/", "-_")


def _is_random(text: str) -> bool:
    """Long, and of all sorts of characters: no name and no digest looks like that."""
    return any(map(str.isupper, text)) and any(map(str.islower, text)) and any(map(str.isdigit, text))
