import { expect, test } from "vitest";
import { sideBySide } from "./routes";

test("steps that both routes have stand in one row", () => {
  expect(sideBySide(["start", "fetch", "store"], ["start", "fetch", "check", "alarm"])).toEqual([
    { left: "start", right: "start" },
    { left: "fetch", right: "fetch" },
    { left: "store", right: null },
    { left: null, right: "check" },
    { left: null, right: "alarm" },
  ]);
  expect(sideBySide([], ["a"])).toEqual([{ left: null, right: "a" }]);
  expect(sideBySide(["a", "b"], ["b"])).toEqual([{ left: "a", right: null }, { left: "b", right: "b" }]);
});

test("a long route is not compared pair by pair", () => {
  const long = Array.from({ length: 5_000 }, (_, place) => `s${place}`);
  expect(sideBySide(long, long)).toHaveLength(400);
});
