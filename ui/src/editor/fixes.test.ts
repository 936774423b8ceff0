import { expect, test } from "vitest";
import { editOf } from "./fixes";
import type { Problem } from "./problems";

/** The text after the fix; `»` marks where the problem is. */
function fixed(text: string, problem: Partial<Problem>): string | null {
  const at = text.indexOf("»");
  const clean = text.replace("»", "");
  const before = clean.slice(0, at).split("\n");
  const place = { line: before.length, column: (before.at(-1) ?? "").length + 1 };
  const whole: Problem = { code: "", severity: "error", message: "", file: "playbook", ...place, ...problem };
  const edit = editOf(clean, whole);
  return edit === null ? null : clean.slice(0, edit.from) + edit.insert + clean.slice(edit.to);
}

test("a misspelled name is replaced by the suggestion", () => {
  const message = 'arc of "start" leads to "valdate", which is not a step; did you mean "validate"?';
  expect(fixed("- step: »valdate\n", { code: "unknown-step", message, fix: "validate" })).toBe("- step: validate\n");
});

test("only the wrong part of a dotted name is replaced", () => {
  const problem = { code: "unset-ctx", message: 'nothing sets "ctx.totl"; did you mean "ctx.total"?', fix: "ctx.total" };
  expect(fixed('"{{ »ctx.totl.first }}"', problem)).toBe('"{{ ctx.total.first }}"');
});

test("a fix in the form of a question is understood", () => {
  const problem = { code: "unknown-filter", message: 'there is no filter "lenght"', fix: 'did you mean "length"?' };
  expect(fixed('"{{ x | »lenght }}"', problem)).toBe('"{{ x | length }}"');
});

test("a text that should be a template gets braces", () => {
  const message = '"when" takes a template or a boolean, not the text "workload.enabled"';
  const problem = { code: "not-a-guard", message, fix: '"{{ workload.enabled }}"' };
  expect(fixed("when: »workload.enabled", problem)).toBe('when: "{{ workload.enabled }}"');
});

test("a value that never matches is replaced in its comparison", () => {
  const problem = { code: "never-equal", message: 'output.status is never "success" here: it is ok or error', fix: "'ok'" };
  expect(fixed("\"{{ »output.status == 'success' }}\"", problem)).toBe("\"{{ output.status == 'ok' }}\"");
});

test("a missing key is added in braces, below its parent, or before the first key", () => {
  const problem = { code: "retry-without-attempts", message: "", fix: "attempts: 3" };
  expect(fixed("then: »{ do: retry, delay: 1 }", problem)).toBe("then: { attempts: 3, do: retry, delay: 1 }");
  expect(fixed("then:\n  »do: retry\n", problem)).toBe("then:\n  attempts: 3\n  do: retry\n");
  const loop = { code: "missing-key", message: "", fix: "iterator: item" };
  expect(fixed("- »loop:\n    in: x\n", loop)).toBe("- loop:\n    iterator: item\n    in: x\n");
});

test("a join is declared below the step name", () => {
  const fix = "spec: {policy: {admit: {join: all}}}";
  const problem = { code: "undeclared-join", message: "", fix };
  expect(fixed("- step: »report\n  tool: {}\n", problem)).toBe(`- step: report\n  ${fix}\n  tool: {}\n`);
});

test("the entry step is named before the workflow", () => {
  const fix = "executor: {spec: {entry_step: begin}}";
  expect(fixed("»workflow:\n- step: begin\n", { code: "no-start", message: "", fix })).toBe(`${fix}\nworkflow:\n- step: begin\n`);
});

test("advice has no automatic fix", () => {
  expect(fixed("»next: work", { code: "bad-next", message: "", fix: "next: {arcs: [{step: …}]}" })).toBeNull();
  expect(fixed("»12345678901234567890", { code: "bad-number", message: "", fix: "put it in quotes" })).toBeNull();
  expect(fixed("»x", { code: "unknown-step", message: 'no "x"' })).toBeNull();
});
