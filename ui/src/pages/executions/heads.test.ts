import { expect, test } from "vitest";
import type { Head } from "../../api/types";
import { type Filter, appendPage, applyUpdates } from "./heads";

const ALL: Filter = { status: null, path: null, open: false };

function head(id: string, more: Partial<Head> = {}): Head {
  return {
    execution_id: id, path: "t", digest: "d", status: "running", seq: 3, started_at: `2026-01-01T00:00:0${id}Z`,
    updated_at: "2026-01-01T00:00:09Z", parent: null, owner_alive: true, ...more,
  };
}

const ids = (heads: { items: Head[] }) => heads.items.map((each) => each.execution_id);

test("a page is appended without duplicates", () => {
  const heads = appendPage({ items: [head("5"), head("4")], next: "4" }, { items: [head("4"), head("3")] });
  expect(ids(heads)).toEqual(["5", "4", "3"]);
  expect(heads.next).toBeNull();
});

test("an update changes a row in place, and a new execution comes first", () => {
  const heads = { items: [head("3"), head("2")], next: null };
  const after = applyUpdates(heads, [head("2", { status: "ok", seq: 9 }), head("5")], ALL);
  expect(ids(after)).toEqual(["5", "3", "2"]);
  expect(after.items[2]?.status).toBe("ok");
});

test("an update older than the known state is ignored", () => {
  const heads = { items: [head("3", { status: "ok", seq: 9 })], next: null };
  expect(applyUpdates(heads, [head("3", { seq: 4 })], ALL).items[0]?.status).toBe("ok");
});

test("rows that do not match the filter are removed or not added", () => {
  const heads = { items: [head("3"), head("2")], next: null };
  const open: Filter = { ...ALL, open: true };
  expect(ids(applyUpdates(heads, [head("3", { status: "ok", seq: 9 }), head("5", { status: "error" })], open))).toEqual(["2"]);
  expect(ids(applyUpdates(heads, [head("6", { path: "other" })], { ...ALL, path: "t" }))).toEqual(["3", "2"]);
});

test("an execution of a page that is not loaded yet is not added", () => {
  const heads = { items: [head("5"), head("4")], next: "4" };
  expect(ids(applyUpdates(heads, [head("1", { seq: 8 })], ALL))).toEqual(["5", "4"]);
});
