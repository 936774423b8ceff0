"""The layout of a diagram: layers from top to bottom, few crossings, labels that cover nothing.

Boxes are on even ranks and labels on odd ones; a line has a bend on every rank between its ends.
Lines that lead back, and lines that are too long to pass between boxes, go round the side,
along a channel left or right of everything between. Nothing here knows about playbooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from msgspec import Struct

BENDS_MAX = 6_000  # bends in total; when they are used up, the longest lines go round the side
SWEEPS = 12
GAP = 26.0  # vertical distance between two ranks
SIDE_GAP = 34.0  # horizontal distance between two boxes of a rank
BEND_GAP = 16.0  # space beside a line or a label
TURN_GAP = 7.0  # distance between two lines that turn between the same ranks


class Size(NamedTuple):
    width: float
    height: float


class RoutedLine(NamedTuple):
    """A line to be routed from box to box, with the size of its label."""

    start: int
    to: int
    label: Size | None = None
    back: bool = False
    pull: float = 1.0  # weight with which it is kept straight


class Tie(NamedTuple):
    stop: RouteStop
    pull: float


class RouteStop(Struct):
    """A box, or a bend of a line."""

    rank: int
    width: float
    height: float
    gap: float
    x: float = 0.0  # horizontal centre
    y: float = 0.0  # upper edge
    above: list[Tie] = []
    below: list[Tie] = []

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


Ranks: TypeAlias = list[list[RouteStop]]
Chain: TypeAlias = list[RouteStop]  # a line: box, bends, box; empty when it goes round the side


class Grid(NamedTuple):
    """All positions, except those of lines that go round the side."""

    boxes: tuple[RouteStop, ...]
    chains: tuple[Chain, ...]  # one for each line
    ranks: Ranks
    heights: tuple[tuple[float, float], ...]  # upper and lower edge of each rank


def lay_out(sizes: Sequence[Size], lines: Sequence[RoutedLine], last: int | None = None) -> Grid:
    """`last` is a box that belongs at the bottom. Lines that do not lead back must not form a cycle."""
    layer = _layers(len(sizes), lines, last)
    boxes = tuple(RouteStop(2 * layer[place], *size, SIDE_GAP) for place, size in enumerate(sizes))
    through = _through(lines, layer)
    chains = tuple(
        _chain(boxes[line.start], boxes[line.to], line) if place in through else [] for place, line in enumerate(lines)
    )
    ranks = _ranks(boxes, chains)
    _untangle(ranks)
    _spread(ranks)
    _straighten(ranks, [*(chain[1:-1] for chain in chains), *_spines(boxes)])
    turns = [0] * len(ranks)
    for line, chain in zip(lines, chains, strict=True):
        if not chain:
            turns[boxes[line.start].rank] += 1
            turns[boxes[line.to].rank - 1] += 1
    return Grid(boxes, chains, ranks, tuple(_stack(ranks, turns)))


def _layers(count: int, lines: Sequence[RoutedLine], last: int | None) -> list[int]:
    """The rank of a box: the longest path from a source to it."""
    follows: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for line in lines:
        if not line.back:
            follows[line.start].append(line.to)
            waiting[line.to] += 1
    layer = [0] * count
    ready = [place for place in range(count) if not waiting[place]]
    while ready:
        place = ready.pop()
        for to in follows[place]:
            layer[to] = max(layer[to], layer[place] + 1)
            waiting[to] -= 1
            if not waiting[to]:
                ready.append(to)
    if last is not None:
        layer[last] = max(layer)
    return layer


def _through(lines: Sequence[RoutedLine], layer: Sequence[int]) -> set[int]:
    """The lines that pass between boxes: those that lead forward, shortest first, while bends are left."""
    left = BENDS_MAX
    found: set[int] = set()
    onward = [
        (2 * (layer[line.to] - layer[line.start]) - 1, place) for place, line in enumerate(lines) if not line.back
    ]
    for bends, place in sorted(onward):
        left -= bends
        if bends > 0 and left >= 0:
            found.add(place)
    return found


def _chain(start: RouteStop, to: RouteStop, line: RoutedLine) -> Chain:
    chain = [start]
    for rank in range(start.rank + 1, to.rank):
        size = line.label if line.label and rank == start.rank + 1 else Size(0.0, 0.0)
        chain.append(RouteStop(rank, *size, BEND_GAP))
    chain.append(to)
    for upper, lower in pairwise(chain):
        upper.below.append(Tie(lower, line.pull))
        lower.above.append(Tie(upper, line.pull))
    return chain


def _ranks(boxes: Sequence[RouteStop], chains: Iterable[Chain]) -> Ranks:
    ranks: Ranks = [[] for _ in range(max((box.rank for box in boxes), default=-1) + 1)]
    for box in boxes:
        ranks[box.rank].append(box)
    for chain in chains:
        for bend in chain[1:-1]:
            ranks[bend.rank].append(bend)
    return ranks


def _untangle(ranks: Ranks) -> None:
    """Sort each rank by the median of its neighbours, down and up; keep the order with fewest crossings."""
    best, least = [list(rank) for rank in ranks], _crossings(ranks)
    for sweep in range(SWEEPS):
        downward = sweep % 2 == 0
        for rank in ranks if downward else reversed(ranks):
            _reorder(rank, downward, ranks)
        crossings = _crossings(ranks)
        if crossings < least:
            best, least = [list(rank) for rank in ranks], crossings
        if not least:
            break
    for rank, ordered in zip(ranks, best, strict=True):
        rank[:] = ordered


def _reorder(rank: list[RouteStop], downward: bool, ranks: Ranks) -> None:
    beside = rank[0].rank + (-1 if downward else 1) if rank else -1
    if not 0 <= beside < len(ranks):
        return
    place = {id(stop): index for index, stop in enumerate(ranks[beside])}
    weight: dict[int, float] = {}
    for index, stop in enumerate(rank):
        near = [place[id(tie.stop)] for tie in (stop.above if downward else stop.below)]
        weight[id(stop)] = sum(near) / len(near) if near else float(index)
    rank.sort(key=lambda stop: weight[id(stop)])


def _crossings(ranks: Ranks) -> int:
    return sum(_inversions(upper, lower) for upper, lower in pairwise(ranks))


def _inversions(upper: list[RouteStop], lower: list[RouteStop]) -> int:
    """Pairs of lines that cross between two ranks, counted with a tree of sums."""
    place = {id(stop): index for index, stop in enumerate(lower)}
    ends = [end for stop in upper for end in sorted(place[id(tie.stop)] for tie in stop.below)]
    tree = [0] * (len(lower) + 1)
    crossings = 0
    for seen, end in enumerate(ends):
        not_after, index = 0, end + 1
        while index:
            not_after += tree[index]
            index &= index - 1
        crossings += seen - not_after
        index = end + 1
        while index <= len(lower):
            tree[index] += 1
            index += index & -index
    return crossings


def _spread(ranks: Ranks) -> None:
    """Place every stop near the centre of its neighbours, keeping order and distance."""
    for rank in ranks:
        _settle(rank, [0.0] * len(rank))
    for sweep in range(2 * SWEEPS):
        downward = sweep % 2 == 0
        for rank in ranks if downward else reversed(ranks):
            wanted = []
            for stop in rank:
                near = stop.above if downward else stop.below
                if sweep >= SWEEPS or not near:
                    near = stop.above + stop.below
                wanted.append(_middle(near, stop.x))
            _settle(rank, wanted)


def _middle(near: Sequence[Tie], otherwise: float) -> float:
    if not near:
        return otherwise
    return sum(tie.stop.x * tie.pull for tie in near) / sum(tie.pull for tie in near)


def _spines(boxes: Sequence[RouteStop]) -> list[Chain]:
    """Straight chains downwards: each stop is the main target of the one above it, and vice versa."""
    spines = []
    for box in boxes:
        over = _strongest(box.above)
        if over is not None and _strongest(over.below) is box:
            continue  # It belongs to a chain from above.
        spine = [box]
        while (under := _strongest(spine[-1].below)) is not None and _strongest(under.above) is spine[-1]:
            spine.append(under)
        spines.append(spine)
    return spines


def _strongest(ties: Sequence[Tie]) -> RouteStop | None:
    """None when several have the same weight."""
    most = max((tie.pull for tie in ties), default=0.0)
    found = [tie.stop for tie in ties if tie.pull == most]
    return found[0] if len(found) == 1 else None


def _straighten(ranks: Ranks, chains: Iterable[Chain]) -> None:
    """Align the stops of a chain vertically, as far as the other stops leave room."""
    long = [chain for chain in chains if len(chain) > 1]
    for _ in range(SWEEPS):
        aim = {id(stop): stop.x for rank in ranks for stop in rank}
        for chain in long:
            places = [stop.x for stop in chain]
            aim |= {id(stop): (min(places) + max(places)) / 2 for stop in chain}
        for rank in ranks:
            _settle(rank, [aim[id(stop)] for stop in rank])


def _settle(rank: list[RouteStop], wanted: list[float]) -> None:
    """Least squares that keep order and distance (pool adjacent violators). Bends weigh more than boxes."""
    offset = 0.0
    offsets: list[float] = []
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for index, stop in enumerate(rank):
        if index:
            before = rank[index - 1]
            offset += (before.width + stop.width) / 2 + max(before.gap, stop.gap)
        offsets.append(offset)
        mean, weight, members = wanted[index] - offset, 1.0 if stop.gap == SIDE_GAP else 4.0, 1
        while pools and pools[-1][0] > mean:
            other, heavy, many = pools.pop()
            mean = (mean * weight + other * heavy) / (weight + heavy)
            weight, members = weight + heavy, members + many
        pools.append((mean, weight, members))
    places = [mean for mean, _, members in pools for _ in range(members)]
    for stop, mean, offset in zip(rank, places, offsets, strict=True):
        stop.x = mean + offset


def _stack(ranks: Ranks, turns: Sequence[int]) -> Iterable[tuple[float, float]]:
    """Heights of ranks. Gaps grow with the slope of lines and with the number of lines that turn there."""
    top = 0.0
    for number, rank in enumerate(ranks):
        height = _tall(rank)
        for stop in rank:
            stop.y = top + (height - stop.height) / 2
        yield top, top + height
        lean = max((abs(stop.x - tie.stop.x) for stop in rank for tie in stop.below), default=0.0)
        labels = ranks[number | 1] if number | 1 < len(ranks) else []
        top += height + max(GAP if _tall(labels) else 0.7 * GAP, min(lean / 7, 3 * GAP))
        top += TURN_GAP * turns[number]


def _tall(rank: Sequence[RouteStop]) -> float:
    return max((stop.height for stop in rank), default=0.0)


CHANNEL_GAP = 16.0
TURN = 10.0  # distance from a box at which its first line turns
LABEL_GAP = 5.0


class SideRoute(NamedTuple):
    """A line round the side, as its corners, both ends included."""

    corners: tuple[tuple[float, float], ...]
    label: RouteStop | None


class SideRoutes:
    """Routes lines round the side: shorter lines further inside, each on the nearer side."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.left = [min((stop.left for stop in rank), default=0.0) for rank in grid.ranks]
        self.right = [max((stop.right for stop in rank), default=0.0) for rank in grid.ranks]
        self.turned = [0] * (len(grid.ranks) + 1)  # lines that turn above each rank
        self.used: dict[tuple[int, bool], int] = {}  # lines that begin or end at a side of a box

    def lay(self, lines: Sequence[RoutedLine]) -> dict[int, SideRoute]:
        boxes = self.grid.boxes
        aside = [place for place, chain in enumerate(self.grid.chains) if not chain]
        aside.sort(key=lambda place: abs(boxes[lines[place].start].rank - boxes[lines[place].to].rank))
        return {
            place: self._route(boxes[lines[place].start], boxes[lines[place].to], lines[place].label) for place in aside
        }

    def _route(self, start: RouteStop, to: RouteStop, label: Size | None) -> SideRoute:
        # A line that leads forward (it was too long) passes only the ranks below its start and above its end.
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
        return SideRoute((*out, *into), beside)

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
        """Where a line meets the side of a box: in the middle, then alternately above and below."""
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
