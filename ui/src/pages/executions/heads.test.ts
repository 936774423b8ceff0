import { expect, test } from "vitest";
import type { Head } from "../../api/types";
import { type Filter, NO_FILTER as ALL, appendPage, applyUpdates, filterOf, instantOf, matchesFilter } from "./heads";

function head(id: string, more: Partial<Head> = {}): Head {
  return {
    execution_id: id, path: "t", digest: "d", status: "running", seq: 3, started_at: `2026-01-01T00:00:0${id}Z`,
    updated_at: "2026-01-01T00:00:09Z", parent: null, owner_alive: true, ...more,
  };
}

const ids = (heads: { items: Head[] }) => heads.items.map((each) => each.execution_id);

test("a page is appended without duplicates", () => {
  const heads = appendPage({ items: [head("5"), head("4")], next: "4", total: 9 }, { items: [head("4"), head("3")] }, ALL);
  expect(ids(heads)).toEqual(["5", "4", "3"]);
  expect(heads.next).toBeNull();
});

test("an update changes a row in place, and a new execution comes first", () => {
  const heads = { items: [head("3"), head("2")], next: null, total: 9 };
  const after = applyUpdates(heads, [head("2", { status: "ok", seq: 9 }), head("5")], ALL);
  expect(ids(after)).toEqual(["5", "3", "2"]);
  expect(after.items[2]?.status).toBe("ok");
});

test("an update older than the known state is ignored", () => {
  const heads = { items: [head("3", { status: "ok", seq: 9 })], next: null, total: 9 };
  expect(applyUpdates(heads, [head("3", { seq: 4 })], ALL).items[0]?.status).toBe("ok");
});

test("rows that do not match the filter are removed or not added", () => {
  const heads = { items: [head("3"), head("2")], next: null, total: 9 };
  const open: Filter = { ...ALL, open: true };
  expect(ids(applyUpdates(heads, [head("3", { status: "ok", seq: 9 }), head("5", { status: "error" })], open))).toEqual(["2"]);
  expect(ids(applyUpdates(heads, [head("6", { path: "other" })], { ...ALL, path: "t" }))).toEqual(["3", "2"]);
});

test("an execution of a page that is not loaded yet is not added", () => {
  const heads = { items: [head("5"), head("4")], next: "4", total: 9 };
  expect(ids(applyUpdates(heads, [head("1", { seq: 8 })], ALL))).toEqual(["5", "4"]);
});

test("the total counts rows that come and go", () => {
  const heads = { items: [head("3"), head("2")], next: null, total: 2 };
  const open: Filter = { ...ALL, open: true };
  expect(applyUpdates(heads, [head("3", { status: "ok", seq: 9 }), head("5"), head("6")], open).total).toBe(3);
});

test("a search finds a part of the path, an end of the id, a label and the error", () => {
  const one = head("0199-ab", { path: "shop/Refunds", labels: { team: "data" }, error: "HTTP 503", status: "error" });
  const found = (search: string) => matchesFilter(one, { ...ALL, search });
  expect(["refund", "0199", "-ab", "team=d", "http 5"].map(found)).toEqual([true, true, true, true, true]);
  expect(["199-a", "orders"].map(found)).toEqual([false, false]);
});

test("a status that only people see, waits and times are filtered", () => {
  const lost = head("3", { owner_alive: false });
  expect(matchesFilter(lost, { ...ALL, status: "interrupted" })).toBe(true);
  expect(matchesFilter(head("3"), { ...ALL, status: "interrupted" })).toBe(false);
  expect(matchesFilter(head("3"), { ...ALL, waiting: true })).toBe(false);
  expect(matchesFilter(head("3", { waits: [{ frame: "a#1", signal: "go" }] }), { ...ALL, waiting: true })).toBe(true);
  expect(matchesFilter(head("3"), { ...ALL, since: "2026-01-01T00:00:04Z" })).toBe(false);
  expect(matchesFilter(head("3"), { ...ALL, until: "2026-01-01T00:00:03Z" })).toBe(false);
});

test("an address has all filters, and a time is relative or exact", () => {
  const query = new URLSearchParams("search=a&status=error&waiting=true&since=24h&path=p&version=2");
  expect(filterOf(query)).toEqual({ ...ALL, search: "a", status: "error", waiting: true, since: "24h", path: "p", version: "2" });
  expect(instantOf("24h", Date.parse("2026-01-02T00:00:00Z"))).toBe("2026-01-01T00:00:00.000Z");
  expect(instantOf("2026-01-01T00:00:00Z")).toBe("2026-01-01T00:00:00.000Z");
  expect(instantOf("soon")).toBeNull();
});
