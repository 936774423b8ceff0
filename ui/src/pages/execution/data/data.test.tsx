import { fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { DataView } from "./DataView";
import { JsonTree } from "./JsonTree";
import { columnsOf, isRef, formatBytes } from "./shapes";

afterEach(() => vi.unstubAllGlobals());

test("only a list of objects is a table", () => {
  expect(columnsOf([{ a: 1 }, { b: 2 }])).toEqual(["a", "b"]);
  expect(columnsOf([1, 2])).toBeNull();
  expect(columnsOf([])).toBeNull();
  expect(columnsOf({ a: 1 })).toBeNull();
});

test("sizes have a unit", () => {
  expect([formatBytes(12), formatBytes(2048), formatBytes(3 << 20)]).toEqual(["12 B", "2.0 KB", "3.0 MB"]);
});

test("a long list shows a hundred items at first, and more on request", () => {
  render(<JsonTree value={Array.from({ length: 10_000 }, (_, index) => index)} />);
  expect(screen.queryByText("99")).toBeNull();
  fireEvent.click(screen.getByRole("button", { expanded: false }));
  expect(document.querySelectorAll(".json-inner > .json-row")).toHaveLength(100);
  fireEvent.click(screen.getByText(/9,900 more/));
  expect(document.querySelectorAll(".json-inner > .json-row")).toHaveLength(1100);
});

test("text in data is never HTML", () => {
  render(<DataView execution="x" value={"<img src=x onerror=alert(1)>"} />);
  expect(document.querySelector("img")).toBeNull();
  expect(screen.getByText("<img src=x onerror=alert(1)>")).toBeTruthy();
});

test("a reference shows its type and is fetched on a click", async () => {
  const requested: string[] = [];
  vi.stubGlobal("fetch", (url: string) => {
    requested.push(url);
    return Promise.resolve(new Response('[{"city": "oslo"}]'));
  });
  const reference = { type: "blob", locator: { key: "k" }, meta: { sha256: "abc", bytes: 18, content_type: "application/json" } };
  expect(isRef(reference)).toBe(true);
  render(<DataView execution="x1" value={reference} />);
  expect(requested).toEqual([]);
  fireEvent.click(screen.getByRole("button", { name: "Show content" }));
  expect(await screen.findByRole("columnheader", { name: "city" })).toBeTruthy();
  expect(requested).toEqual(["/results/x1/abc"]);
});
