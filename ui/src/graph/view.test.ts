import { expect, test } from "vitest";
import { ZOOM_MIN, firstView, fits, panesOf, viewOf } from "./view";

const PANE = { width: 800, height: 400 };
const EDGES = { top: 0, bottom: 46 };
const FOCUS = { x: 0, y: 0, width: 100, height: 50 };

test("a small net is centred and not enlarged", () => {
  const view = firstView({ x: 0, y: 0, width: 400, height: 100 }, PANE, EDGES, FOCUS);
  expect(view).toEqual({ zoom: 1, x: 200, y: 127 });
});

test("a large net is never smaller than legible", () => {
  const bounds = { x: 0, y: 0, width: 20_000, height: 3_000 };
  expect(fits(bounds, PANE)).toBe(false);
  const view = firstView(bounds, PANE, EDGES, FOCUS);
  expect(view).toEqual({ zoom: ZOOM_MIN, x: 16, y: 16 });
});

test("a large net is shown around its focus", () => {
  const bounds = { x: 0, y: 0, width: 20_000, height: 100 };
  const { x, zoom } = firstView(bounds, PANE, EDGES, { x: 10_000, y: 0, width: 200, height: 50 });
  expect(x + 10_100 * zoom).toBeCloseTo(400);
});

test("a step outside of the pane is moved into it, and others do not move", () => {
  const view = { x: 0, y: 0, zoom: 1 };
  expect(viewOf(FOCUS, view, PANE, EDGES)).toBeNull();
  expect(viewOf({ ...FOCUS, x: 900 }, view, PANE, EDGES)).toEqual({ x: -550, y: 0, zoom: 1 });
});

test("the direction with fewer panes fits the shape of the pane", () => {
  const chain = { width: 3_000, height: 80 };
  const standing = { width: 300, height: 1_500 };
  expect(panesOf(chain, PANE)).toBeLessThan(panesOf(standing, PANE));
  expect(panesOf(standing, { width: 400, height: 900 })).toBeLessThan(panesOf(chain, { width: 400, height: 900 }));
});
