import { fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import { SessionContext } from "../../app/session";
import { timelineOf } from "../../testing/timelines";
import { Actions } from "./Actions";

// jsdom knows dialogs, and not how to open them.
beforeAll(() => {
  HTMLDialogElement.prototype.showModal = function showModal() {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function close() {
    this.open = false;
  };
});
afterEach(() => vi.unstubAllGlobals());

function shown(status: "running" | "paused" | "ok" | "error", scopes = ["read", "run"], signals: string[] = [], seq = 10) {
  render(
    <SessionContext value={{ name: "ada", scopes, open: false }}>
      <Actions timeline={timelineOf({ status, signals, seq })} />
    </SessionContext>,
  );
  return screen.queryAllByRole("button").map((button) => button.textContent);
}

test("only what can be done as it stands is offered", () => {
  expect(shown("running")).toEqual(["Pause", "Cancel"]);
});

test("one that is paused can go on", () => {
  expect(shown("paused")).toEqual(["Resume", "Cancel"]);
});

test("one that nobody runs can go on, too", () => {
  render(
    <SessionContext value={{ name: "ada", scopes: ["run"], open: false }}>
      <Actions timeline={timelineOf({ status: "running" })} owned={false} />
    </SessionContext>,
  );
  expect(screen.queryAllByRole("button").map((button) => button.textContent)).toEqual(["Resume", "Cancel"]);
});

test("one that has failed can be retried", () => {
  expect(shown("error")).toEqual(["Retry what failed"]);
});

test("one that was refused can not: it never began", () => {
  expect(shown("error", ["run"], [], 3)).toEqual([]);
});

test("with one that is done there is nothing to do, and without the scope neither", () => {
  expect(shown("ok")).toEqual([]);
  expect(shown("running", ["read"])).toEqual([]);
});

test("a signal that is waited for is named, and sent with its data", async () => {
  const sent: [string, unknown][] = [];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    sent.push([url, JSON.parse(init.body as string)]);
    return Promise.resolve(new Response("{}"));
  });
  shown("running", ["run"], ["approval"]);
  fireEvent.click(screen.getByRole("button", { name: "Signal approval" }));
  fireEvent.change(screen.getByPlaceholderText('{"approved": true}'), { target: { value: "{" } });
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Send" }).disabled).toBe(true);
  fireEvent.change(screen.getByPlaceholderText('{"approved": true}'), { target: { value: '{"yes": 1}' } });
  fireEvent.click(screen.getByRole("button", { name: "Send" }));
  await vi.waitFor(() => expect(screen.queryByRole("button", { name: "Send" })).toBeNull(), { timeout: 30_000 });
  expect(sent).toEqual([["/executions/0199b3c2/signal", { name: "approval", data: { yes: 1 } }]]);
});
