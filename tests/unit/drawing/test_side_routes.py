"""Lines that go round the side."""

from __future__ import annotations

from noetl.drawing.layout import Grid, RoutedLine, SideRoute, SideRoutes, Size, lay_out

BOX = Size(100, 40)
WIRES = [RoutedLine(0, 1), RoutedLine(1, 2)]


def laid(*back: RoutedLine, boxes: int = 3) -> tuple[Grid, list[SideRoute]]:
    wires = [*WIRES, *back]
    grid = lay_out([BOX] * boxes, wires)
    return grid, [each for _, each in sorted(SideRoutes(grid).lay(wires).items())]


def test_a_line_back_leaves_at_the_side_goes_round_and_comes_in_at_the_side() -> None:
    grid, (siding,) = laid(RoutedLine(2, 0, back=True))
    start, to = grid.boxes[2], grid.boxes[0]
    (x1, y1), (x2, y2), (x3, y3), (x4, y4) = siding.corners
    assert (x1, y1) == (start.right, start.y + 20)
    assert (x4, y4) == (to.right, to.y + 20)
    assert x2 == x3 > max(box.right for box in grid.boxes)
    assert (y2, y3) == (y1, y4)


def test_two_lines_back_do_not_share_a_channel() -> None:
    _, (short, long) = laid(RoutedLine(1, 0, back=True), RoutedLine(2, 0, back=True))
    assert short.corners[1][0] != long.corners[1][0]


def test_a_label_stands_beside_its_channel_and_the_next_line_outside_of_it() -> None:
    sidings = [RoutedLine(2, 1, Size(80, 16), back=True), RoutedLine(2, 0, Size(80, 16), back=True)]
    _, (first, second) = laid(*sidings)
    assert first.label is not None
    assert second.label is not None
    assert first.label.left > first.corners[1][0]
    assert second.label.right < second.corners[1][0] or second.label.left > first.label.right


def test_a_box_with_another_beside_it_is_left_from_below_and_entered_from_above() -> None:
    wires = [RoutedLine(0, 1), RoutedLine(0, 2), RoutedLine(0, 3), RoutedLine(2, 2, back=True)]
    grid = lay_out([BOX] * 4, wires)
    middle = grid.boxes[2]
    siding = SideRoutes(grid).lay(wires)[3]
    assert grid.ranks[2][1] is middle
    assert siding.corners[0][1] == middle.bottom
    assert siding.corners[1][1] > middle.bottom
    assert siding.corners[-1][1] == middle.y
    assert siding.corners[-2][1] < middle.y
