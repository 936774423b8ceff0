import { expect, test } from "vitest";
import type { BulkItem, Head } from "../../api/types";
import { labelChange, reasonsOf } from "./bulk";
import { rangeOf } from "./useSelection";

const heads = ["a", "b", "c", "d"].map((id) => ({ execution_id: id }) as Head);

test("a range has both ends, in either direction", () => {
  expect(rangeOf(heads, "b", "d")).toEqual(["b", "c", "d"]);
  expect(rangeOf(heads, "d", "c")).toEqual(["c", "d"]);
});

test("a range from a row that is no longer in the list is the other row", () => {
  expect(rangeOf(heads, "gone", "c")).toEqual(["c"]);
});

test("reasons are counted, the most frequent first", () => {
  const items = ["ended", "paused", "ended"].map((detail) => ({ detail }) as BulkItem);
  expect(reasonsOf(items)).toEqual([["ended", 2], ["paused", 1]]);
});

test("a change of labels adds and removes several", () => {
  expect(labelChange("team=data, -env,url=a=b , empty=")).toEqual({ team: "data", env: null, url: "a=b", empty: "" });
  expect(labelChange("  ")).toEqual({});
  expect(labelChange("team")).toMatch(/^"team": write key=value/);
});
