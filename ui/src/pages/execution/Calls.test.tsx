import { fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { serveDocuments } from "../../testing/fakeServer";
import { runBar } from "../../testing/timelines";
import { Calls } from "./Calls";

afterEach(() => vi.unstubAllGlobals());

test("an expanded call shows its output and what it printed", async () => {
  const requested = serveDocuments({
    "/executions/x/facts/6": {
      seq: 6, at: "2026-01-01T00:00:00Z", name: "task.done",
      data: { output: { data: { a: 1 }, own: { py: { stdout: "first says hello\n", stderr: "" } } } },
    },
  });
  const call = (seq: number, id: string, task: string) => ({ seq, id, task, attempt: 1, status: "ok", directive: "continue" });
  const run = runBar("start#1", { calls: [call(6, "start#1/1", "first"), call(8, "start#1/2", "second")] });
  render(<Calls execution="x" run={run} cursor={{ seq: 9, live: true, move: () => undefined }} />);
  expect(requested).toEqual([]);
  fireEvent.click(screen.getByRole("button", { name: "Output of start#1/1" }));
  expect(await screen.findByText("first says hello")).toBeTruthy();
  expect(requested).toEqual(["/executions/x/facts/6"]);
});

test("a call that takes long is shown while it runs, and only now", () => {
  const call = { id: "start#1/2", task: "fetch", since: "2026-01-01T00:00:00Z", attempt: 2, worker: "worker-1" };
  const run = runBar("start#1", { running: [call], running_left_out: 3 });
  const { rerender } = render(<Calls execution="x" run={run} cursor={{ seq: 9, live: true, move: () => undefined }} />);
  expect(screen.getByText("fetch")).toBeTruthy();
  expect(screen.getByText("attempt 2")).toBeTruthy();
  expect(screen.getByText("on worker-1")).toBeTruthy();
  expect(screen.getByText("3 more")).toBeTruthy();
  rerender(<Calls execution="x" run={run} cursor={{ seq: 5, live: false, move: () => undefined }} />);
  expect(screen.queryByText("fetch")).toBeNull();
});
