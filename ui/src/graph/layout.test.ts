import { expect, test } from "vitest";
import { graphOf } from "../testing/timelines";
import { boundsOf, elkQuestion, laidByElk, laidByServer } from "./layout";
import { labelOf } from "./measure";
import { rounded } from "./path";

test("every step and arc is asked for, and found again in the answer", () => {
  const graph = graphOf();
  const question = elkQuestion(graph, "RIGHT");
  expect(question.children).toHaveLength(5);
  expect(question.edges[1]).toMatchObject({ sources: ["s1"], targets: ["s2"] });
  const laid = laidByElk(graph, {
    children: [{ id: "s1", x: 30, y: 40 }],
    edges: [{ id: "a1", sections: [{ startPoint: { x: 0, y: 0 }, bendPoints: [{ x: 5, y: 0 }], endPoint: { x: 5, y: 9 } }] }],
  });
  expect(laid.steps[1]).toMatchObject({ x: 30, y: 40 });
  expect(laid.arcs[1]?.points).toEqual([{ x: 0, y: 0 }, { x: 5, y: 0 }, { x: 5, y: 9 }]);
  expect(laid.arcs[0]?.points).toEqual([]);
});

test("the server gives the middle of a box, and we draw from its corner", () => {
  const graph = graphOf();
  const [, start] = graph.steps;
  if (start) Object.assign(start, { x: 100, y: 20, width: 80, height: 40 });
  expect(laidByServer(graph).steps[1]).toEqual({ x: 60, y: 20, width: 80, height: 40 });
});

test("a guard is shown without its braces, and not longer than there is room", () => {
  const arc = graphOf().arcs[0];
  if (!arc) throw new Error("there is an arc");
  expect(labelOf(arc)).toBeNull();
  expect(labelOf({ ...arc, when: "{{ ctx.n > 5 }}" })).toBe("ctx.n > 5");
  expect(labelOf({ ...arc, carries: "failure" })).toBe("on failure");
  expect(labelOf({ ...arc, when: "x".repeat(99) })).toHaveLength(30);
  expect(labelOf({ ...arc, when: "{{ ctx.n < 5 and workload.n < 5 }}" })).toBe("ctx.n < 5 and\nworkload.n < 5");
});

test("labels and arcs need room, too: on a phone they would be cut off", () => {
  const graph = graphOf([[1, 2]]);
  const [arc] = graph.arcs;
  if (arc) arc.when = "n > 5";
  const laid = laidByElk(graph, {
    edges: [{
      id: "a0", sections: [{ startPoint: { x: 0, y: 0 }, endPoint: { x: 0, y: 400 } }],
      labels: [{ x: -60, y: 100, width: 60, height: 21 }],
    }],
  });
  const { x, y, height } = boundsOf(graph, laid);
  expect([x, y, height]).toEqual([-60, 0, 400]);
});

test("a line has round corners where it bends", () => {
  expect(rounded([{ x: 0, y: 0 }, { x: 40, y: 0 }])).toBe("M0 0 L40 0");
  expect(rounded([{ x: 0, y: 0 }, { x: 40, y: 0 }, { x: 40, y: 40 }])).toBe("M0 0 L31 0 Q40 0 40 9 L40 40");
  expect(rounded([])).toBe("");
});
