import { expect, test } from "vitest";
import { commandAction, pythonOf, quoted, retryAction, signalAction, startAction, textOf } from "./requests";

test("a word is quoted only if the shell would change it", () => {
  expect(quoted("demo/orders@3")).toBe("demo/orders@3");
  expect(quoted("it's; rm")).toBe("'it'\\''s; rm'");
});

test("values are written as Python", () => {
  expect(pythonOf({ a: [true, null, "x"], b: 1.5 })).toBe('{"a": [True, None, "x"], "b": 1.5}');
});

test("every action has the three forms", () => {
  const cancel = commandAction("Cancel", "0199", "cancel");
  expect(textOf(cancel, "CLI")).toBe(`noetl cancel 0199 --server ${window.location.origin}`);
  expect(textOf(cancel, "curl")).toBe(`curl -X POST ${window.location.origin}/executions/0199/cancel`);
  expect(textOf(cancel, "Python")).toContain('await (await session.execution("0199")).cancel()');
});

test("arguments reach all forms", () => {
  expect(retryAction("0199", "load", true).cli).toBe("noetl retry 0199 --step load --from-start");
  expect(retryAction("0199", "load").python).toContain('.retry("load")');
  expect(signalAction("0199", "go", { ok: true }).cli).toBe("noetl signal 0199 go --data '{\"ok\":true}'");
  const start = startAction("demo/orders", 2, "abc", { day: "2026-01-31" });
  expect(start.cli).toBe("noetl run demo/orders@2 --set day=2026-01-31");
  expect(textOf(start, "curl")).toContain('\'{"digest":"abc","workload":{"day":"2026-01-31"}}\'');
});
