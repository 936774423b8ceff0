import { expect, test } from "vitest";
import type { Graph } from "../api/types";
import { graphOf } from "../testing/timelines";
import { layeredLayout, layoutForRoom } from "./layered";
import { type Box, type Point, boundsOf, layoutFromServer } from "./layout";
import { type Size, labelOf, labelSize } from "./measure";
import { roundedPath } from "./path";

/** A net with branches, a long arc, a loop back, an arc of a step to itself, two arcs between the same steps, and guards. */
function tangled(): Graph {
  const graph = graphOf([[0, 1], [1, 2], [1, 3], [2, 4], [3, 4], [1, 4], [3, 1], [2, 2], [1, 2], [0, 3]]);
  for (const [index, arc] of graph.arcs.entries()) {
    if (index % 2 === 1) arc.when = "{{ ctx.n > 5 and workload.n > 5 }}";
    arc.back = arc.start === 3 && arc.to === 1;
  }
  return graph;
}

const overlap = (one: Box, other: Box): boolean =>
  one.x < other.x + other.width && other.x < one.x + one.width && one.y < other.y + other.height && other.y < one.y + one.height;

const isAt = ({ x, y }: Point, box: Box): boolean =>
  x >= box.x - 1 && x <= box.x + box.width + 1 && y >= box.y - 1 && y <= box.y + box.height + 1;

function at<T>(list: readonly T[], index: number): T {
  const found = list.at(index);
  if (found === undefined) throw new Error(`there is no element ${index}`);
  return found;
}

test.each(["RIGHT", "DOWN"] as const)("%s: steps and labels do not overlap, arcs avoid steps and have right angles", (direction) => {
  const graph = tangled();
  const { steps, arcs } = layeredLayout(graph, direction);
  const labels = arcs.flatMap(({ label }, index) => {
    const text = labelOf(at(graph.arcs, index));
    if (label === null || text === null) return [];
    const size = labelSize(text);
    return [{ x: label.x - size.width / 2, y: label.y - size.height / 2, ...size }];
  });
  expect(labels).toHaveLength(5);
  for (const [index, box] of [...steps, ...labels].entries())
    for (const other of [...steps, ...labels].slice(index + 1)) expect(overlap(box, other)).toBe(false);
  for (const [index, { points }] of arcs.entries()) {
    const { start, to } = at(graph.arcs, index);
    expect(isAt(at(points, 0), at(steps, start))).toBe(true);
    expect(isAt(at(points, -1), at(steps, to))).toBe(true);
    for (const [place, point] of points.slice(1).entries()) {
      const before = at(points, place);
      const line = {
        x: Math.min(before.x, point.x), y: Math.min(before.y, point.y),
        width: Math.abs(before.x - point.x), height: Math.abs(before.y - point.y),
      };
      expect(Math.min(line.width, line.height)).toBe(0);
      expect(steps.filter((step) => overlap(step, line))).toEqual([]);
    }
  }
});

test("a chain is straight, and the end is after everything that leads to it", () => {
  const { steps, arcs } = layeredLayout(graphOf([[0, 1], [1, 2], [2, 3], [3, 4]]), "RIGHT");
  expect(new Set(steps.map(({ y, height }) => y + height / 2)).size).toBe(1);
  expect(arcs.map(({ points }) => points.length)).toEqual([2, 2, 2, 2]);
  expect(steps.map(({ x }) => x)).toEqual([...steps.map(({ x }) => x)].sort((one, other) => one - other));
});

test("branches are in the order of the playbook", () => {
  const { steps } = layeredLayout(graphOf(), "DOWN");
  expect(at(steps, 2).x).toBeLessThan(at(steps, 3).x);
});

test("the direction follows the shape of the pane", () => {
  const graph = graphOf([[0, 1], [1, 2], [2, 3], [3, 4]]);
  const shape = (room: Size) => {
    const { width, height } = boundsOf(graph, layoutForRoom(graph, room));
    return width > height;
  };
  expect([shape({ width: 1200, height: 500 }), shape({ width: 380, height: 700 })]).toEqual([true, false]);
});

test("the server gives the top centre of a box, the layout its top left corner", () => {
  const graph = graphOf();
  const [, start] = graph.steps;
  if (start) Object.assign(start, { x: 100, y: 20, width: 80, height: 40 });
  expect(layoutFromServer(graph).steps[1]).toEqual({ x: 60, y: 20, width: 80, height: 40 });
});

test("a guard is shown without braces and is shortened", () => {
  const arc = graphOf().arcs[0];
  if (!arc) throw new Error("the graph has no arc");
  expect(labelOf(arc)).toBeNull();
  expect(labelOf({ ...arc, when: "{{ ctx.n > 5 }}" })).toBe("ctx.n > 5");
  expect(labelOf({ ...arc, carries: "failure" })).toBe("on failure");
  expect(labelOf({ ...arc, when: "x".repeat(99) })).toHaveLength(30);
  expect(labelOf({ ...arc, when: "{{ ctx.n < 5 and workload.n < 5 }}" })).toBe("ctx.n < 5 and\nworkload.n < 5");
});

test("the bounds include labels and arcs", () => {
  const graph = graphOf([[1, 2]]);
  const [arc] = graph.arcs;
  if (arc) arc.when = "n > 5";
  const layout = { steps: [], arcs: [{ points: [{ x: 0, y: 0 }, { x: 0, y: 400 }], label: { x: -30, y: 110 } }] };
  const { x, y, height } = boundsOf(graph, layout);
  expect([x, y, height]).toEqual([-60, 0, 400]);
});

test("a line has rounded corners", () => {
  expect(roundedPath([{ x: 0, y: 0 }, { x: 40, y: 0 }])).toBe("M0 0 L40 0");
  expect(roundedPath([{ x: 0, y: 0 }, { x: 40, y: 0 }, { x: 40, y: 40 }])).toBe("M0 0 L31 0 Q40 0 40 9 L40 40");
  expect(roundedPath([])).toBe("");
});
