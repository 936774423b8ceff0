import { expect, test } from "vitest";
import { parseInputs, readInputs } from "./workload";

const TEXT = `
workload:
  name: world
  many: 3
  loud: false
  list: [1, 2]
  nothing: null
workflow: []
`;

test("the kind of a field follows from its default", () => {
  expect(parseInputs(TEXT)).toEqual([
    { name: "name", kind: "text", written: "world" },
    { name: "many", kind: "number", written: "3" },
    { name: "loud", kind: "flag", written: "false" },
    { name: "list", kind: "data", written: "- 1\n- 2" },
    { name: "nothing", kind: "data", written: "" },
  ]);
});

test("a text without a workload, or with a syntax error, has no fields", () => {
  expect(parseInputs("workflow: []")).toEqual([]);
  expect(parseInputs("workload: 3")).toEqual([]);
  expect(parseInputs("")).toEqual([]);
  expect(parseInputs("{{{")).toEqual([]);
});

test("only values that differ from their default are sent", () => {
  const inputs = parseInputs(TEXT);
  expect(readInputs(inputs, { name: "world", many: "4", loud: "true", list: "{a: [b]}" })).toEqual({
    workload: { many: 4, loud: true, list: { a: ["b"] } },
    secrets: {},
    wrong: {},
  });
});

test("an invalid value is reported by name", () => {
  const { workload, wrong } = readInputs(parseInputs(TEXT), { many: "four", list: "[1" });
  expect(workload).toEqual({});
  expect(wrong.many).toBe("enter a number");
  expect(wrong.list).toBeTruthy();
});

const TYPED = `
workload:
  many: 3
input:
  many: {type: integer, desc: how many}
  region: {type: string, enum: [eu, us], default: eu}
  level: {type: integer, enum: [1, 2]}
  day: {type: date}
  loud: {type: boolean, default: false}
  sure: {type: boolean}
  tags: {type: list, default: [a]}
  note: {type: string, required: false}
`;

test("declared inputs have fields of their types", () => {
  expect(parseInputs(TYPED)).toEqual([
    { name: "many", kind: "number", written: "3", hint: "integer: how many", required: false },
    { name: "region", kind: "choice", written: "eu", hint: "string", required: false, choices: ["eu", "us"] },
    { name: "level", kind: "choice", written: "", hint: "integer", required: true, choices: ["1", "2"] },
    { name: "day", kind: "date", written: "", hint: "date", required: true },
    { name: "loud", kind: "flag", written: "false", hint: "boolean", required: false },
    { name: "sure", kind: "choice", written: "", hint: "boolean", required: true, choices: ["true", "false"] },
    { name: "tags", kind: "data", written: "- a", hint: "list", required: false },
    { name: "note", kind: "text", written: "", hint: "string", required: false },
  ]);
});

test("required inputs must be given, and choices are sent as text", () => {
  const inputs = parseInputs(TYPED);
  expect(readInputs(inputs, {}).wrong).toEqual({ level: "required", day: "required", sure: "required" });
  expect(readInputs(inputs, { level: "2", day: "2026-01-31", sure: "true", note: "x" })).toEqual({
    workload: { level: "2", day: "2026-01-31", sure: "true", note: "x" },
    secrets: {},
    wrong: {},
  });
});
