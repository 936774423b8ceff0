import { render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { serveDocuments } from "../../testing/fakeServer";
import { timelineOf } from "../../testing/timelines";
import { ResultPane } from "./ResultPane";

afterEach(() => vi.unstubAllGlobals());

const NOT_FOUND = { kind: "http", message: "HTTP 404" };

function finished(data: object) {
  return { seq: 9, at: "2026-01-01T00:00:10Z", name: "workflow.finished", data };
}

async function failed(where: object) {
  serveDocuments({
    "/executions/0199b3c2/facts/9": finished({ status: "error", error: NOT_FOUND }),
    "/executions/0199b3c2": { execution_id: "0199b3c2", status: "error", output: null, error: { ...NOT_FOUND, ...where }, duration_s: 1, steps: [] },
  });
  render(<ResultPane timeline={timelineOf({ status: "error" })} onSelect={() => undefined} />);
  await screen.findByRole("button", { name: "Show fetch" });
}

test("a failed loop names its iteration", async () => {
  await failed({ step: "fetch", run: "fetch#1", iteration: 1_017 });
  expect(screen.getByText("iteration 1,017 failed first")).toBeTruthy();
});

test("a step without a loop names no iteration", async () => {
  await failed({ step: "fetch", run: "fetch#1" });
  expect(screen.queryByText(/iteration/)).toBeNull();
});

test("the error is shown before the failed step is known", async () => {
  serveDocuments({ "/executions/0199b3c2/facts/9": finished({ status: "error", error: NOT_FOUND }) });
  render(<ResultPane timeline={timelineOf({ status: "error" })} onSelect={() => undefined} />);
  expect(await screen.findByText("HTTP 404")).toBeTruthy();
});

test("an error that a rule states is shown with its cause", async () => {
  const error = { kind: "rule", message: "order 7 does not exist", cause: NOT_FOUND };
  serveDocuments({ "/executions/0199b3c2/facts/9": finished({ status: "error", error }) });
  render(<ResultPane timeline={timelineOf({ status: "error" })} onSelect={() => undefined} />);
  expect(await screen.findByText("order 7 does not exist")).toBeTruthy();
  expect(screen.getByText("HTTP 404")).toBeTruthy();
});

test("the output comes from the second to last fact, without another request", async () => {
  const requested = serveDocuments({ "/executions/0199b3c2/facts/9": finished({ status: "ok", output: { data: { n: 100_000 } } }) });
  render(<ResultPane timeline={timelineOf()} onSelect={() => undefined} />);
  expect(await screen.findByText("100000")).toBeTruthy();
  expect(requested).toEqual(["/executions/0199b3c2/facts/9"]);
});

test("an execution without output says so", async () => {
  serveDocuments({ "/executions/0199b3c2/facts/9": finished({ status: "ok" }) });
  render(<ResultPane timeline={timelineOf()} onSelect={() => undefined} />);
  expect(await screen.findByText("No output.")).toBeTruthy();
});
