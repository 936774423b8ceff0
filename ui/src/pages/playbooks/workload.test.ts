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
    wrong: {},
  });
});

test("an invalid value is reported by name", () => {
  const { workload, wrong } = readInputs(parseInputs(TEXT), { many: "four", list: "[1" });
  expect(workload).toEqual({});
  expect(wrong.many).toBe("enter a number");
  expect(wrong.list).toBeTruthy();
});
