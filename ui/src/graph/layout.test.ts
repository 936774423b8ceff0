import { expect, test } from "vitest";
import { graphOf } from "../testing/timelines";
import { boundsOf, elkGraph, layoutFromElk, layoutFromServer } from "./layout";
import { labelOf } from "./measure";
import { roundedPath } from "./path";

test("every step and arc is in the request and is found in the result", () => {
  const graph = graphOf();
  const request = elkGraph(graph, "RIGHT");
  expect(request.children).toHaveLength(5);
  expect(request.edges[1]).toMatchObject({ sources: ["s1"], targets: ["s2"] });
  const layout = layoutFromElk(graph, {
    children: [{ id: "s1", x: 30, y: 40 }],
    edges: [{ id: "a1", sections: [{ startPoint: { x: 0, y: 0 }, bendPoints: [{ x: 5, y: 0 }], endPoint: { x: 5, y: 9 } }] }],
  });
  expect(layout.steps[1]).toMatchObject({ x: 30, y: 40 });
  expect(layout.arcs[1]?.points).toEqual([{ x: 0, y: 0 }, { x: 5, y: 0 }, { x: 5, y: 9 }]);
  expect(layout.arcs[0]?.points).toEqual([]);
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
  const layout = layoutFromElk(graph, {
    edges: [{
      id: "a0", sections: [{ startPoint: { x: 0, y: 0 }, endPoint: { x: 0, y: 400 } }],
      labels: [{ x: -60, y: 100, width: 60, height: 21 }],
    }],
  });
  const { x, y, height } = boundsOf(graph, layout);
  expect([x, y, height]).toEqual([-60, 0, 400]);
});

test("a line has rounded corners", () => {
  expect(roundedPath([{ x: 0, y: 0 }, { x: 40, y: 0 }])).toBe("M0 0 L40 0");
  expect(roundedPath([{ x: 0, y: 0 }, { x: 40, y: 0 }, { x: 40, y: 40 }])).toBe("M0 0 L31 0 Q40 0 40 9 L40 40");
  expect(roundedPath([])).toBe("");
});
