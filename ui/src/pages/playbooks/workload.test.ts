import { expect, test } from "vitest";
import { inputsOf, readInputs } from "./workload";

const TEXT = `
workload:
  name: world
  many: 3
  loud: false
  list: [1, 2]
  nothing: null
workflow: []
`;

test("the kind of a field comes from its default", () => {
  expect(inputsOf(TEXT)).toEqual([
    { name: "name", kind: "text", written: "world" },
    { name: "many", kind: "number", written: "3" },
    { name: "loud", kind: "flag", written: "false" },
    { name: "list", kind: "data", written: "- 1\n- 2" },
    { name: "nothing", kind: "data", written: "" },
  ]);
});

test("a text without a workload, or that can not be read, has no fields", () => {
  expect(inputsOf("workflow: []")).toEqual([]);
  expect(inputsOf("workload: 3")).toEqual([]);
  expect(inputsOf("")).toEqual([]);
  expect(inputsOf("{{{")).toEqual([]);
});

test("only what differs from its default is sent", () => {
  const inputs = inputsOf(TEXT);
  expect(readInputs(inputs, { name: "world", many: "4", loud: "true", list: "{a: [b]}" })).toEqual({
    workload: { many: 4, loud: true, list: { a: ["b"] } },
    wrong: {},
  });
});

test("what can not be read is told by its name", () => {
  const { workload, wrong } = readInputs(inputsOf(TEXT), { many: "four", list: "[1" });
  expect(workload).toEqual({});
  expect(wrong.many).toBe("a number, please");
  expect(wrong.list).toBeTruthy();
});
