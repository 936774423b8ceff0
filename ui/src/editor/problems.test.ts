import { expect, test } from "vitest";
import { type Problem, offsetOf, soundness, spanOf } from "./problems";

const problem = (more: Partial<Problem>): Problem => ({
  code: "x", severity: "error", message: "", file: "playbook", line: 1, column: 1, ...more,
});

test("a line and a column give an offset, also beyond the end", () => {
  expect(offsetOf("ab\ncd\n", 2, 2)).toBe(4);
  expect(offsetOf("ab\ncd", 1, 9)).toBe(2);
  expect(offsetOf("ab\ncd", 7, 1)).toBe(5);
});

test("the word or the quoted text is underlined", () => {
  expect(spanOf("step: valdate, x", problem({ column: 7 }))).toEqual({ from: 6, to: 13 });
  expect(spanOf('when: "{{ a }}"', problem({ column: 7 }))).toEqual({ from: 6, to: 15 });
  expect(spanOf("{ do: x }", problem({}))).toEqual({ from: 0, to: 1 });
});

test("at the end of a line the character before it is underlined", () => {
  expect(spanOf("ab\ncd", problem({ column: 3 }))).toEqual({ from: 1, to: 2 });
});

test("a net is sound unless a problem says otherwise", () => {
  expect(soundness([])).toBe("sound");
  expect(soundness([problem({ severity: "info", code: "failure-without-arc" })])).toBe("sound");
  expect(soundness([problem({ severity: "warning", code: "dead-arc" })])).toBe("doubtful");
  expect(soundness([problem({ code: "endless-cycle" })])).toBe("unsound");
  expect(soundness([problem({ code: "unknown-step" })])).toBe("unknown");
});
