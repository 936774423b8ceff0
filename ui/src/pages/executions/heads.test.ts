import { expect, test } from "vitest";
import type { Head } from "../../api/types";
import { type Filter, joined, withNews } from "./heads";

const ALL: Filter = { status: null, path: null, open: false };

function head(id: string, more: Partial<Head> = {}): Head {
  return {
    execution_id: id, path: "t", digest: "d", status: "running", seq: 3, started_at: `2026-01-01T00:00:0${id}Z`,
    updated_at: "2026-01-01T00:00:09Z", parent: null, owner_alive: true, ...more,
  };
}

const ids = (heads: { items: Head[] }) => heads.items.map((each) => each.execution_id);

test("a page is put behind the others, and nothing is in it twice", () => {
  const heads = joined({ items: [head("5"), head("4")], next: "4" }, { items: [head("4"), head("3")] });
  expect(ids(heads)).toEqual(["5", "4", "3"]);
  expect(heads.next).toBeNull();
});

test("news change a row where it stands, and a new execution comes first", () => {
  const heads = { items: [head("3"), head("2")], next: null };
  const after = withNews(heads, [head("2", { status: "ok", seq: 9 }), head("5")], ALL);
  expect(ids(after)).toEqual(["5", "3", "2"]);
  expect(after.items[2]?.status).toBe("ok");
});

test("news that are older than what is known are passed over", () => {
  const heads = { items: [head("3", { status: "ok", seq: 9 })], next: null };
  expect(withNews(heads, [head("3", { seq: 4 })], ALL).items[0]?.status).toBe("ok");
});

test("what does not fit the filter any more leaves, and what never did does not come", () => {
  const heads = { items: [head("3"), head("2")], next: null };
  const open: Filter = { ...ALL, open: true };
  expect(ids(withNews(heads, [head("3", { status: "ok", seq: 9 }), head("5", { status: "error" })], open))).toEqual(["2"]);
  expect(ids(withNews(heads, [head("6", { path: "other" })], { ...ALL, path: "t" }))).toEqual(["3", "2"]);
});

test("one from a page that was not read yet waits for its page", () => {
  const heads = { items: [head("5"), head("4")], next: "4" };
  expect(ids(withNews(heads, [head("1", { seq: 8 })], ALL))).toEqual(["5", "4"]);
});
