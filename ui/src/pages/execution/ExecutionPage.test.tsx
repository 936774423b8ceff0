import { render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SessionContext } from "../../app/session";
import { serveDocuments } from "../../testing/fakeServer";
import ExecutionPage from "./ExecutionPage";

// jsdom does not implement matchMedia.
beforeEach(() => void vi.stubGlobal("matchMedia", () => Object.assign(new EventTarget(), { matches: false })));
afterEach(() => vi.unstubAllGlobals());

const HEAD = {
  execution_id: "0199b3c2", path: "demo/large", digest: "d", status: "ok", seq: 200_015, parent: null, owner_alive: true,
  started_at: "2026-01-01T00:00:00Z", updated_at: "2026-01-01T00:02:00Z",
};

function opened(documents: Record<string, unknown>) {
  serveDocuments(documents);
  render(
    <SessionContext value={{ name: "ada", scopes: ["run"], open: false }}>
      <ExecutionPage location={{ path: "/executions/0199b3c2", query: new URLSearchParams() }} values={{ id: "0199b3c2" }} />
    </SessionContext>,
  );
}

test("the result is shown while a long log is loading", async () => {
  opened({
    "/executions/0199b3c2/head": HEAD,
    "/executions/0199b3c2/facts/200014": { seq: 200_014, at: HEAD.updated_at, name: "workflow.finished", data: { status: "ok", output: { data: { n: 100_000 } } } },
  });
  expect(await screen.findByText("100000")).toBeTruthy();
  expect(screen.getByRole("heading", { name: "demo/large" })).toBeTruthy();
  expect(screen.getByText("Loading 200,015 facts")).toBeTruthy();
  expect(screen.queryByRole("slider")).toBeNull();
});

test("a refused execution shows the reason instead of a net, and no retry", async () => {
  opened({
    "/executions/0199b3c2/head": { ...HEAD, digest: "", status: "error", seq: 3 },
    "/executions/0199b3c2/facts/2": {
      seq: 2, at: HEAD.updated_at, name: "playbook.request.evaluated",
      data: { error: { kind: "playbook", message: 'no playbook is registered under "demo/large"' } },
    },
  });
  expect(await screen.findByText('no playbook is registered under "demo/large"')).toBeTruthy();
  expect(screen.getByRole("heading", { name: "Not started" })).toBeTruthy();
  expect(screen.getByRole("link", { name: "All playbooks" })).toBeTruthy();
  expect(screen.queryByRole("button", { name: /Retry/ })).toBeNull();
  expect(screen.queryByRole("button", { name: "Try again" })).toBeNull();
});
