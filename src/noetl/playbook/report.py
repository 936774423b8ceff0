"""Collects the problems of one document, with positions and suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from noetl.errors import Mark, Problem, Related, Severity
from noetl.playbook.problems import problem
from noetl.playbook.source import Document, Path

NAMES_COMPARED_MAX = 10_000  # names compared for suggestions, per document: about 0.2 s
_WORD_CHARS_MAX = 100


class ProblemReport:
    """Collects the problems of one document, with their positions."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self._compared = 0

    def add(
        self,
        code: str,
        path: Path,
        message: str,
        *,
        key: bool = False,  # point at the key, not at its value
        word: str | None = None,  # point at this word inside the value
        fix: str | None = None,
        related: tuple[Related, ...] = (),
        severity: Severity | None = None,
    ) -> None:
        at = self.document.key_at(path) if key else self.document.locate(path, word)
        self.problems.append(problem(code, at, message, fix=fix, related=related, severity=severity))

    def at(self, path: Path) -> Mark:
        return self.document.at(path)

    def similar(self, word: str, known: Iterable[str]) -> str | None:
        """The known name most similar to `word`; None if none is similar.

        Comparing is slow, so a document with thousands of mistakes gets no more suggestions.
        """
        names = sorted(known)
        self._compared += len(names)
        if self._compared > NAMES_COMPARED_MAX:
            return None
        # The letters of a very short word occur in many unrelated longer words.
        cutoff = 0.6 if len(word) > 2 else 0.75
        matches = difflib.get_close_matches(word[:_WORD_CHARS_MAX], names, n=1, cutoff=cutoff)
        return matches[0] if matches else None
