import { expect, test } from "vitest";
import { scaleOf } from "./timescale";
import { WHOLE, isWhole, moved, scaleWithin, selected, zoomed } from "./zoom";

test("zooming keeps the cursor in the middle, and stays inside", () => {
  expect(zoomed(WHOLE, "in", 0.5)).toEqual({ from: 0.25, to: 0.75 });
  expect(zoomed(WHOLE, "in", 0.9)).toEqual({ from: 0.5, to: 1 });
  expect(isWhole(zoomed({ from: 0.25, to: 0.75 }, "out", 0.3))).toBe(true);
});

test("a selection in any direction becomes the range", () => {
  const range = selected({ from: 0.5, to: 1 }, 0.8, 0.2);
  expect(range.from).toBeCloseTo(0.6);
  expect(range.to).toBeCloseTo(0.9);
});

test("the range moves by half of its width", () => {
  expect(moved({ from: 0, to: 0.5 }, "later")).toEqual({ from: 0.25, to: 0.75 });
  expect(moved({ from: 0, to: 0.5 }, "earlier")).toEqual({ from: 0, to: 0.5 });
});

test("times are shown within the range", () => {
  const scale = scaleWithin(scaleOf([], 1_000), { from: 0.5, to: 0.75 });
  expect(scale.x(500)).toBe(0);
  expect(scale.x(750)).toBe(1);
  expect(scale.ms(0.5)).toBe(625);
});
