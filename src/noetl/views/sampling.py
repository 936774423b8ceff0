"""The course of counts along a log in a limited number of samples: exact where it matters, sparse elsewhere.

A loop may change its counts ten thousand times, but a screen has only a thousand points.
"""

from __future__ import annotations

from typing import TypeAlias

Sample: TypeAlias = tuple[int, ...]  # the seq, then the counts after it

SAMPLES_MAX = 600


class Track:
    """Samples in the order of the log; the last one is always exact."""

    def __init__(self, samples_max: int = SAMPLES_MAX) -> None:
        self._max = samples_max
        self._samples: list[tuple[Sample, bool]] = []  # (sample, is it a turning point, or only progress)
        self._stride = 1

    def put(self, seq: int, *counts: int, turn: bool = True) -> None:
        """`turn`: something started or ended; such samples are dropped last."""
        samples = self._samples
        if samples and samples[-1][0][0] == seq:
            turn = turn or samples.pop()[1]
        elif not turn and len(samples) > 1 and not samples[-1][1] and seq - samples[-2][0][0] < self._stride:
            samples.pop()
        samples.append(((seq, *counts), turn))
        if len(samples) > self._max:
            self._thin()

    def _thin(self) -> None:
        """Drop half of the progress samples; when there are none, half of the turning points."""
        self._stride *= 2
        kept, odd = [], False
        progress = any(not turn for _, turn in self._samples[:-1])
        for sample in self._samples[:-1]:
            if sample[1] and progress:
                kept.append(sample)
            else:
                odd = not odd
                if odd:
                    kept.append(sample)
        self._samples = [*kept, self._samples[-1]]

    def samples(self) -> tuple[Sample, ...]:
        return tuple(sample for sample, _ in self._samples)
