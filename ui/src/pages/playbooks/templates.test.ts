import { expect, test } from "vitest";
import { parseDocument } from "yaml";
import { TEMPLATES } from "./templates";

test.each(TEMPLATES)("the template $id is valid YAML with its own path", ({ id, text }) => {
  const document = parseDocument(text);
  expect(document.errors).toEqual([]);
  expect(document.getIn(["metadata", "path"])).toBe(`my/${id === "empty" ? "new" : id}`);
});
