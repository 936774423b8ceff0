"""`spec.retry`: the tries of one call (D92). Rules see only the last output, and the log has one task.done."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from noetl.engine.pipeline import backoff_s
from noetl.escape import one_line, shorten
from noetl.output import JSON, Output
from noetl.playbook.model import BACKOFF, RETRY_ATTEMPTS

TRIES_LISTED_MAX = 100  # of one call; older ones are dropped
MESSAGE_CHARS_MAX = 200  # of a failed try

Tries: TypeAlias = tuple[dict[str, JSON], ...]


class RetryPolicy(NamedTuple):
    attempts: int = RETRY_ATTEMPTS
    delay: float = 0.0
    backoff: str = BACKOFF
    max_delay: float | None = None
    on: tuple[str, ...] | None = None  # kinds of failures; None: all that are retryable

    @classmethod
    def of(cls, spec: dict[str, JSON]) -> RetryPolicy | None:
        """None: the call is made once."""
        options = spec.get("retry")
        if not isinstance(options, dict):
            return None
        policy = cls(**{key: value for key, value in options.items() if key in cls._fields and value is not None})
        return policy if policy.attempts > 1 else None

    def repeats(self, output: Output, tries: Tries) -> bool:
        error = output.error
        if error is None or tries[-1]["try"] >= self.attempts or error.kind == "poison":
            return False
        return error.retryable if self.on is None else error.kind in self.on

    def delay_s(self, tries: Tries) -> float:
        """Seconds before the next try."""
        return backoff_s(self.backoff, self.delay, tries[-1]["try"], self.max_delay)

    def line(self, tries: Tries, output: Output, delay_s: float) -> str:
        """`try 2 of 5 in 1.2 s: http: GET /a answered 503`."""
        when = f" in {delay_s:.3g} s" if delay_s else ""
        why = f": {output.error.kind}: {one_line(output.error.message)}" if output.error is not None else ""
        return f"try {tries[-1]['try'] + 1} of {self.attempts}{when}{why}"


def noted(tries: Tries, output: Output, ms: float) -> Tries:
    """The tries of a call with one more."""
    tried: dict[str, JSON] = {"try": tries[-1]["try"] + 1 if tries else 1, "duration_ms": ms}
    if output.error is not None:
        tried["kind"] = output.error.kind
        tried["message"] = shorten(output.error.message, MESSAGE_CHARS_MAX)
        if "retry_after_s" in output.error.details:
            tried["retry_after_s"] = output.error.details["retry_after_s"]
    return (*tries[1 - TRIES_LISTED_MAX :], tried)
