import { afterEach, expect, test } from "vitest";
import { removeView, saveView } from "./views";

afterEach(() => removeView("failures"));

test("a view needs a name, and the same name replaces it", () => {
  expect(saveView("  ", "status=error")).toMatch("1 to 40");
  expect(saveView("failures", "status=error")).toBeNull();
  expect(saveView(" failures ", "status=error&since=24h")).toBeNull();
  expect(JSON.parse(localStorage.getItem("noetl.views") ?? "")).toEqual([{ name: "failures", query: "status=error&since=24h" }]);
});
