import { expect, test } from "vitest";
import { Language, type Schema } from "./language";
import { positionAt, hoverTargetAt } from "./position";

const SCHEMA: Schema = {
  type: "object",
  properties: {
    kind: { enum: ["Playbook"], description: "what the document is" },
    workflow: { type: "array", items: { $ref: "#/$defs/step" }, description: "the steps" },
  },
  $defs: {
    step: {
      type: "object",
      required: ["step"],
      properties: {
        step: { type: "string", description: "its name" },
        tool: { anyOf: [{ $ref: "#/$defs/task" }, { type: "array", items: { $ref: "#/$defs/task" } }], description: "a task, or tasks" },
        old: { deprecationMessage: "no more" },
      },
    },
    task: {
      type: "object",
      properties: { kind: { enum: ["http", "noop"], markdownEnumDescriptions: ["a request", "nothing"] } },
      allOf: [
        { if: { properties: { kind: { const: "http" } }, required: ["kind"] }, then: { $ref: "#/$defs/http" } },
      ],
    },
    http: { properties: { url: { type: "string", markdownDescription: "where `to`" }, verify: { type: ["boolean", "null"], default: true } } },
  },
};
const LANGUAGE = new Language(SCHEMA);

/** The completions at the position of `|`. */
function offered(text: string): string[] {
  const position = positionAt(text.replace("|", ""), text.indexOf("|"));
  if (position === null) return [];
  const found = position.isKey ? LANGUAGE.keys(position.keyPath, position.root) : LANGUAGE.values(position.keyPath, position.root);
  return found.map((each) => each.name);
}

test("keys are offered at the root, in steps, and in lists of tasks", () => {
  expect(offered("ki|")).toEqual(["kind", "workflow"]);
  expect(offered("workflow:\n- st|")).toEqual(["step", "tool"]);
  expect(offered("workflow:\n- step: a\n  to|\n- step: b\n")).toEqual(["step", "tool"]);
  expect(offered("workflow:\n- tool:\n  - ki|")).toEqual(["kind"]);
});

test("the kind of a task decides its other keys, also in braces", () => {
  expect(offered("workflow:\n- tool:\n    kind: http\n    |")).toEqual(["kind", "url", "verify"]);
  expect(offered("workflow:\n- tool: {kind: http, u|}")).toEqual(["kind", "url", "verify"]);
  expect(offered("workflow:\n- tool: {kind: noop, |}")).toEqual(["kind"]);
});

test("values are offered after a colon", () => {
  expect(offered("workflow:\n- tool: {kind: |}")).toEqual(["http", "noop"]);
  expect(offered("workflow:\n- tool:\n    kind: http\n    verify: t|")).toEqual(["true", "false"]);
});

test("nothing is offered in a comment", () => {
  expect(offered("kind: Playbook # ki|")).toEqual([]);
});

test("a key under the pointer has documentation", () => {
  const text = "workflow:\n- tool: {kind: http, url: x}\n";
  const found = hoverTargetAt(text, text.indexOf("url") + 1);
  expect(found?.keyPath).toEqual(["workflow", 0, "tool", "url"]);
  expect(LANGUAGE.doc(found?.keyPath ?? [], found?.root)).toBe("where `to`");
});

test("a value under the pointer has its own documentation", () => {
  const text = "workflow:\n- tool: {kind: noop}\n";
  const found = hoverTargetAt(text, text.indexOf("noop") + 1);
  expect(found?.isKey).toBe(false);
  expect(LANGUAGE.docOfValue(found?.keyPath ?? [], found?.root)).toBe("nothing");
});

test("completion works in a text with errors elsewhere", () => {
  expect(offered("workflow:\n- step: a\n  nex\n- st|")).toEqual(["step", "tool"]);
  expect(offered('workflow:\n- step: "a\n  to|')).toEqual([]);
});
