import { fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { DataView } from "./DataView";
import { JsonTree } from "./JsonTree";
import { columnsOf, isRef, sizeInWords } from "./shapes";

afterEach(() => vi.unstubAllGlobals());

test("a list of mappings is a table, anything else is not", () => {
  expect(columnsOf([{ a: 1 }, { b: 2 }])).toEqual(["a", "b"]);
  expect(columnsOf([1, 2])).toBeNull();
  expect(columnsOf([])).toBeNull();
  expect(columnsOf({ a: 1 })).toBeNull();
});

test("sizes are told in words", () => {
  expect([sizeInWords(12), sizeInWords(2048), sizeInWords(3 << 20)]).toEqual(["12 B", "2.0 KB", "3.0 MB"]);
});

test("of ten thousand items a hundred are in the page, and more when asked", () => {
  render(<JsonTree value={Array.from({ length: 10_000 }, (_, place) => place)} />);
  expect(screen.queryByText("99")).toBeNull();
  fireEvent.click(screen.getByRole("button", { expanded: false }));
  expect(document.querySelectorAll(".json-inner > .json-row")).toHaveLength(100);
  fireEvent.click(screen.getByText(/9,900 more/));
  expect(document.querySelectorAll(".json-inner > .json-row")).toHaveLength(1100);
});

test("text in data is text, whatever it looks like", () => {
  render(<DataView execution="x" value={"<img src=x onerror=alert(1)>"} />);
  expect(document.querySelector("img")).toBeNull();
  expect(screen.getByText("<img src=x onerror=alert(1)>")).toBeTruthy();
});

test("a reference says what it is, and is fetched on a click", async () => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (url: string) => {
    asked.push(url);
    return Promise.resolve(new Response('[{"city": "oslo"}]'));
  });
  const reference = { type: "blob", locator: { key: "k" }, meta: { sha256: "abc", bytes: 18, content_type: "application/json" } };
  expect(isRef(reference)).toBe(true);
  render(<DataView execution="x1" value={reference} />);
  expect(asked).toEqual([]);
  fireEvent.click(screen.getByRole("button", { name: "Show it" }));
  expect(await screen.findByRole("columnheader", { name: "city" })).toBeTruthy();
  expect(asked).toEqual(["/results/x1/abc"]);
});
