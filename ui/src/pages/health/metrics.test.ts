import { expect, test } from "vitest";
import { mean, samplesOf, sum } from "./metrics";

const TEXT = `# HELP ended executions that ended
# TYPE ended counter
ended{playbook="a \\"b\\"",status="ok"} 3.0
ended{playbook="c",status="error"} 1.0
took_seconds_count{status="ok"} 4.0
took_seconds_sum{status="ok"} 2.0
up 1.0
`;

test("samples have a name, labels and a value", () => {
  expect(samplesOf(TEXT)[0]).toEqual({ name: "ended", labels: { playbook: 'a "b"', status: "ok" }, value: 3 });
  expect(samplesOf(TEXT)).toHaveLength(5);
});

test("samples are summed over the labels that are not named", () => {
  const samples = samplesOf(TEXT);
  expect(sum(samples, "ended")).toBe(4);
  expect(sum(samples, "ended", { status: "error" })).toBe(1);
  expect(sum(samples, "nothing")).toBe(0);
});

test("an average of nothing is not zero", () => {
  const samples = samplesOf(TEXT);
  expect(mean(samples, "took_seconds")).toBe(0.5);
  expect(mean(samples, "other_seconds")).toBeNull();
});
