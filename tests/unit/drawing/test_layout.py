"""Where boxes and lines go: nothing covers anything."""

from __future__ import annotations

from itertools import pairwise

from noetl.drawing.layout import BENDS_MAX, Grid, RoutedLine, Size, lay_out

BOX = Size(100, 40)


def overlaps(grid: Grid) -> list[tuple[int, float, float]]:
    """Neighbours on a rank that come closer than their distance."""
    return [
        (place, left.right, right.left)
        for place, rank in enumerate(grid.ranks)
        for left, right in pairwise(rank)
        if right.left - left.right < min(left.gap, right.gap) - 0.01
    ]


def test_a_row_of_boxes_stands_in_one_line_from_top_to_bottom() -> None:
    grid = lay_out([BOX] * 3, [RoutedLine(0, 1), RoutedLine(1, 2)])
    assert [box.rank for box in grid.boxes] == [0, 2, 4]
    assert len({round(box.x, 3) for box in grid.boxes}) == 1
    assert all(upper.bottom < lower.y for upper, lower in pairwise(grid.boxes))


def test_the_longest_way_decides_the_layer_and_the_last_box_is_at_the_bottom() -> None:
    wires = [RoutedLine(0, 1), RoutedLine(1, 2), RoutedLine(0, 2), RoutedLine(0, 3), RoutedLine(2, 4)]
    assert [box.rank for box in lay_out([BOX] * 5, wires).boxes] == [0, 2, 4, 2, 6]
    assert [box.rank for box in lay_out([BOX] * 5, wires, last=3).boxes] == [0, 2, 4, 6, 6]


def test_boxes_and_labels_do_not_overlap() -> None:
    label = Size(150, 16)
    wires = [RoutedLine(0, to, label) for to in range(1, 7)] + [RoutedLine(start, 7, label) for start in range(1, 7)]
    grid = lay_out([BOX] * 8, wires)
    assert overlaps(grid) == []
    assert all(top <= bottom for top, bottom in grid.heights)
    assert all(upper[1] < lower[0] for upper, lower in pairwise(grid.heights))


def test_lines_that_need_not_cross_do_not_cross() -> None:
    # Written crosswise: 0 → 3, 1 → 2, so the order of one layer must be turned.
    grid = lay_out([BOX] * 4, [RoutedLine(0, 3), RoutedLine(1, 2)])
    first, second = (chain for chain in grid.chains)
    assert (first[0].x - second[0].x) * (first[-1].x - second[-1].x) > 0


def test_a_long_line_is_straight_between_its_ends() -> None:
    wires = [
        RoutedLine(0, 1, pull=3.0),
        RoutedLine(1, 2, pull=3.0),
        RoutedLine(2, 3, pull=3.0),
        RoutedLine(0, 3, pull=0.2),
    ]
    bends = lay_out([BOX] * 4, wires).chains[3][1:-1]
    assert len(bends) == 5
    assert max(bend.x for bend in bends) - min(bend.x for bend in bends) < 1.0


def test_a_line_that_leads_back_has_no_bends_here() -> None:
    grid = lay_out([BOX] * 2, [RoutedLine(0, 1), RoutedLine(1, 0, back=True), RoutedLine(1, 1, back=True)])
    assert [len(chain) for chain in grid.chains] == [3, 0, 0]


def test_bends_are_limited_and_the_longest_lines_go_without() -> None:
    count = 200
    wires = [RoutedLine(place, place + 1) for place in range(count - 1)]
    wires += [RoutedLine(place, count - 1) for place in range(count - 2)]
    grid = lay_out([BOX] * count, wires)
    assert sum(max(0, len(chain) - 2) for chain in grid.chains) <= BENDS_MAX
    assert all(len(chain) == 3 for chain in grid.chains[: count - 1])
    assert grid.chains[count - 1] == []


def test_nothing_is_laid_out_as_nothing() -> None:
    assert lay_out([], []) == Grid((), (), [], ())
