"""When a worker lets go of a frame: it is told to, or nobody takes what it has to say."""

from __future__ import annotations

REPORT_TRIES_MAX = 20
RETRY_S = 0.5  # and more with every try


class Stopped(Exception):
    """The frame is not ours any more: what its call would give back is nobody's."""
