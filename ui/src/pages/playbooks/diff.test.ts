import { expect, test } from "vitest";
import { parseDiff } from "./diff";

test("lines have their numbers in both texts", () => {
  const diff = "--- a@1\n+++ a@2\n@@ -1,3 +1,3 @@\n same\n-old\n+new\n--- not a file\n\\ no line break at the end\n";
  expect(parseDiff(diff).slice(2)).toEqual([
    { kind: "hunk", text: "@@ -1,3 +1,3 @@", before: null, after: null },
    { kind: "same", text: "same", before: 1, after: 1 },
    { kind: "removed", text: "old", before: 2, after: null },
    { kind: "added", text: "new", before: null, after: 2 },
    { kind: "removed", text: "-- not a file", before: 3, after: null },
    { kind: "note", text: "no line break at the end", before: null, after: null },
  ]);
});

test("an empty diff has one empty line", () => {
  expect(parseDiff("")).toEqual([{ kind: "file", text: "", before: null, after: null }]);
});
