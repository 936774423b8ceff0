import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import { SessionContext } from "../../app/session";
import { timelineOf } from "../../testing/timelines";
import { Actions } from "./Actions";

// jsdom does not implement showModal and close.
beforeAll(() => {
  HTMLDialogElement.prototype.showModal = function showModal() {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function close() {
    this.open = false;
  };
});
afterEach(() => vi.unstubAllGlobals());

function renderActions(status: "running" | "paused" | "ok" | "error", scopes = ["read", "run"], signals: string[] = [], seq = 10) {
  render(
    <SessionContext value={{ name: "ada", scopes, open: false }}>
      <Actions timeline={timelineOf({ status, signals, seq })} />
    </SessionContext>,
  );
  return screen.queryAllByRole("button").map((button) => button.textContent);
}

test("only the possible actions are offered", () => {
  expect(renderActions("running")).toEqual(["Pause", "Cancel", "Run again…", "Label…"]);
});

test("a paused execution can be resumed", () => {
  expect(renderActions("paused")).toEqual(["Resume", "Cancel", "Run again…", "Label…"]);
});

test("an interrupted execution can be resumed", () => {
  render(
    <SessionContext value={{ name: "ada", scopes: ["run"], open: false }}>
      <Actions timeline={timelineOf({ status: "running" })} owned={false} />
    </SessionContext>,
  );
  expect(screen.queryAllByRole("button").map((button) => button.textContent)).toEqual(["Resume", "Cancel", "Run again…", "Label…"]);
});

test("a failed execution can be retried", () => {
  expect(renderActions("error")).toEqual(["Retry failed parts", "Run again…", "Label…"]);
});

test("a refused execution cannot be retried", () => {
  expect(renderActions("error", ["run"], [], 3)).toEqual(["Label…"]);
});

test("a finished execution can run again or get labels, and a session without the scope has no actions", () => {
  expect(renderActions("ok")).toEqual(["Run again…", "Label…"]);
  cleanup();
  expect(renderActions("running", ["read"])).toEqual([]);
});

test("a signal that the execution waits for is named and sent with data", async () => {
  const sent: [string, unknown][] = [];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    sent.push([url, JSON.parse(init.body as string)]);
    return Promise.resolve(new Response("{}"));
  });
  renderActions("running", ["run"], ["approval"]);
  fireEvent.click(screen.getByRole("button", { name: "Signal approval" }));
  fireEvent.change(screen.getByPlaceholderText('{"approved": true}'), { target: { value: "{" } });
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Send" }).disabled).toBe(true);
  fireEvent.change(screen.getByPlaceholderText('{"approved": true}'), { target: { value: '{"yes": 1}' } });
  fireEvent.click(screen.getByRole("button", { name: "Send" }));
  await vi.waitFor(() => expect(screen.queryByRole("button", { name: "Send" })).toBeNull(), { timeout: 30_000 });
  expect(sent).toEqual([["/executions/0199b3c2/signal", { name: "approval", data: { yes: 1 } }]]);
});

test("a cancellation can undo completed steps", async () => {
  const sent: [string, unknown][] = [];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    sent.push([url, JSON.parse(init.body as string)]);
    return Promise.resolve(new Response("{}"));
  });
  renderActions("running");
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(screen.getByText(/Completed steps are not undone/)).toBeTruthy();
  fireEvent.click(screen.getByRole("checkbox", { name: /Undo completed steps/ }));
  expect(screen.queryByText(/Completed steps are not undone/)).toBeNull();
  fireEvent.change(screen.getByLabelText("Reason"), { target: { value: "wrong account" } });
  fireEvent.click(screen.getByRole("button", { name: "Cancel the execution" }));
  await vi.waitFor(() => expect(screen.queryByRole("button", { name: "Cancel the execution" })).toBeNull(), { timeout: 30_000 });
  expect(sent).toEqual([["/executions/0199b3c2/cancel", { reason: "wrong account", compensate: true }]]);
});
