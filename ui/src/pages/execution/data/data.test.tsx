import { fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { DataView } from "./DataView";
import { JsonTree } from "./JsonTree";
import { ExecutionContext } from "./execution";
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

test("a reference shows its type, and its rows come in pages on a click", async () => {
  const requested: string[] = [];
  const page = { shape: "table", columns: [{ name: "city", type: "string" }], rows: [["oslo"]], places: [0], total: 120, found: 120 };
  vi.stubGlobal("fetch", (url: string) => {
    requested.push(url);
    return Promise.resolve(new Response(JSON.stringify(page)));
  });
  const reference = { type: "blob", locator: { key: "k" }, meta: { sha256: "abc", bytes: 18, content_type: "application/json" } };
  expect(isRef(reference)).toBe(true);
  render(<DataView execution="x1" value={reference} />);
  expect(requested).toEqual([]);
  fireEvent.click(screen.getByRole("button", { name: "Show content" }));
  expect(await screen.findByRole("columnheader", { name: "city string" })).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Next rows" }));
  await vi.waitFor(() => expect(requested).toHaveLength(2));
  expect(requested).toEqual(["/executions/x1/rows?digest=abc&offset=0&limit=50", "/executions/x1/rows?digest=abc&offset=50&limit=50"]);
});

test("references inside data can be opened, those of loops too", () => {
  const loop = { type: "relational", locator: { execution_id: "x1", run: "each#1" } };
  render(<ExecutionContext value="x1"><JsonTree value={{ all: loop }} /></ExecutionContext>);
  expect(screen.getByText("results of each#1")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Show content" })).toBeTruthy();
});
