"""Lines that go round the side of a drawing: those that lead back, and those too long to pass between boxes.

Each leaves its box, goes along a channel left or right of everything between, and comes in at the other box.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from noetl.drawing.layout import BEND_GAP, TURN_GAP, Grid, RoutedLine, RouteStop, Size

CHANNEL_GAP = 16.0
TURN = 10.0  # how far outside a box its first line turns
LABEL_GAP = 5.0


class Siding(NamedTuple):
    """A line round the side, as the corners that it turns at, both ends included."""

    corners: tuple[tuple[float, float], ...]
    label: RouteStop | None


class Sidings:
    """Lays one line after the other, the shorter further in, each on the nearer side."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.left = [min((stop.left for stop in rank), default=0.0) for rank in grid.ranks]
        self.right = [max((stop.right for stop in rank), default=0.0) for rank in grid.ranks]
        self.turned = [0] * (len(grid.ranks) + 1)  # lines that turn above each rank
        self.used: dict[tuple[int, bool], int] = {}  # lines that begin or end at a side of a box

    def lay(self, wires: Sequence[RoutedLine]) -> dict[int, Siding]:
        boxes = self.grid.boxes
        aside = [place for place, chain in enumerate(self.grid.chains) if not chain]
        aside.sort(key=lambda place: abs(boxes[wires[place].start].rank - boxes[wires[place].to].rank))
        return {
            place: self._siding(boxes[wires[place].start], boxes[wires[place].to], wires[place].label)
            for place in aside
        }

    def _siding(self, start: RouteStop, to: RouteStop, label: Size | None) -> Siding:
        # A line that leads on (it was too long) passes below its start and above its end only.
        first, final = (to.rank, start.rank) if to.rank <= start.rank else (start.rank + 1, to.rank - 1)
        right = max(self.right[first : final + 1]) + CHANNEL_GAP
        left = min(self.left[first : final + 1]) - CHANNEL_GAP
        ends = start.x + to.x
        on_right = 2 * right - ends <= ends - 2 * left
        channel = right if on_right else left
        out = self._out(start, channel, on_right)
        into = self._into(to, channel, on_right)
        room = LABEL_GAP + label.width if label else 0.0
        for rank in range(first, final + 1):
            if on_right:
                self.right[rank] = channel + room
            else:
                self.left[rank] = channel - room
        beside = None
        if label:
            x = channel + (1 if on_right else -1) * (LABEL_GAP + label.width / 2)
            y = (out[-1][1] + into[0][1] - label.height) / 2
            beside = RouteStop(-1, *label, BEND_GAP, x=x, y=y)
        return Siding((*out, *into), beside)

    def _out(self, box: RouteStop, channel: float, on_right: bool) -> list[tuple[float, float]]:
        if self._is_outermost(box, on_right):
            y = self._side(box, on_right)
            return [(box.right if on_right else box.left, y), (channel, y)]
        y = self.grid.heights[box.rank][1] + TURN + TURN_GAP * self._turn(box.rank + 1)
        x = box.right - 12 if on_right else box.left + 12
        return [(x, box.bottom), (x, y), (channel, y)]

    def _into(self, box: RouteStop, channel: float, on_right: bool) -> list[tuple[float, float]]:
        if self._is_outermost(box, on_right):
            y = self._side(box, on_right)
            return [(channel, y), (box.right if on_right else box.left, y)]
        y = self.grid.heights[box.rank][0] - TURN - TURN_GAP * self._turn(box.rank)
        x = box.right - 12 if on_right else box.left + 12
        return [(channel, y), (x, y), (x, box.y)]

    def _side(self, box: RouteStop, on_right: bool) -> float:
        """In the middle of a box, then alternately above and below."""
        key = (id(box), on_right)
        used = self.used[key] = self.used.get(key, -1) + 1
        offset = (used + 1) // 2 * 9.0 * (-1 if used % 2 else 1)
        return box.y + box.height / 2 + max(-box.height / 2 + 4, min(offset, box.height / 2 - 4))

    def _turn(self, rank: int) -> int:
        self.turned[rank] += 1
        return self.turned[rank] - 1

    def _is_outermost(self, box: RouteStop, on_right: bool) -> bool:
        rank = self.grid.ranks[box.rank]
        return rank[-1] is box if on_right else rank[0] is box
