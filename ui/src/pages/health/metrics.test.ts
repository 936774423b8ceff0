import { expect, test } from "vitest";
import { mean, parseMetrics, sum } from "./metrics";

const TEXT = `# HELP ended number of finished executions
# TYPE ended counter
ended{playbook="a \\"b\\"",status="ok"} 3.0
ended{playbook="c",status="error"} 1.0
took_seconds_count{status="ok"} 4.0
took_seconds_sum{status="ok"} 2.0
up 1.0
`;

test("samples have a name, labels and a value", () => {
  expect(parseMetrics(TEXT)[0]).toEqual({ name: "ended", labels: { playbook: 'a "b"', status: "ok" }, value: 3 });
  expect(parseMetrics(TEXT)).toHaveLength(5);
});

test("samples are summed over labels that are not given", () => {
  const samples = parseMetrics(TEXT);
  expect(sum(samples, "ended")).toBe(4);
  expect(sum(samples, "ended", { status: "error" })).toBe(1);
  expect(sum(samples, "nothing")).toBe(0);
});

test("an average without samples is null, not zero", () => {
  const samples = parseMetrics(TEXT);
  expect(mean(samples, "took_seconds")).toBe(0.5);
  expect(mean(samples, "other_seconds")).toBeNull();
});
