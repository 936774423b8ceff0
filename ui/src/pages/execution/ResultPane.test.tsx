import { render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { answering } from "../../testing/answering";
import { timelineOf } from "../../testing/timelines";
import { ResultPane } from "./ResultPane";

afterEach(() => vi.unstubAllGlobals());

const NOT_FOUND = { kind: "http", message: "HTTP 404" };

function finished(data: object) {
  return { seq: 9, at: "2026-01-01T00:00:10Z", name: "workflow.finished", data };
}

async function failed(where: object) {
  answering({
    "/executions/0199b3c2/facts/9": finished({ status: "error", error: NOT_FOUND }),
    "/executions/0199b3c2": { execution_id: "0199b3c2", status: "error", output: null, error: { ...NOT_FOUND, ...where }, duration_s: 1, steps: [] },
  });
  render(<ResultPane timeline={timelineOf({ status: "error" })} onSelect={() => undefined} />);
  await screen.findByRole("button", { name: "Look at fetch" });
}

test("a loop that failed names its iteration", async () => {
  await failed({ step: "fetch", run: "fetch#1", iteration: 1_017 });
  expect(screen.getByText("iteration 1,017 failed first")).toBeTruthy();
});

test("what is no loop has none", async () => {
  await failed({ step: "fetch", run: "fetch#1" });
  expect(screen.queryByText(/iteration/)).toBeNull();
});

test("what has failed is told before it is known where", async () => {
  answering({ "/executions/0199b3c2/facts/9": finished({ status: "error", error: NOT_FOUND }) });
  render(<ResultPane timeline={timelineOf({ status: "error" })} onSelect={() => undefined} />);
  expect(await screen.findByText("HTTP 404")).toBeTruthy();
});

test("what was given back is in the last fact but one: nothing else is asked", async () => {
  const asked = answering({ "/executions/0199b3c2/facts/9": finished({ status: "ok", output: { data: { n: 100_000 } } }) });
  render(<ResultPane timeline={timelineOf()} onSelect={() => undefined} />);
  expect(await screen.findByText("100000")).toBeTruthy();
  expect(asked).toEqual(["/executions/0199b3c2/facts/9"]);
});

test("nothing is said to be nothing", async () => {
  answering({ "/executions/0199b3c2/facts/9": finished({ status: "ok" }) });
  render(<ResultPane timeline={timelineOf()} onSelect={() => undefined} />);
  expect(await screen.findByText("It gave nothing back.")).toBeTruthy();
});
