import { render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { serveDocuments } from "../../testing/fakeServer";
import WorkersPage from "./WorkersPage";

afterEach(() => vi.unstubAllGlobals());

test("a pool shows how many slots one execution may hold, if it is not all of them", async () => {
  const pool = { workers: 1, slots: 32, busy: 28, waiting: 3, oldest_s: null };
  const pools = [{ ...pool, pool: "default", share: 28 }, { ...pool, pool: "small", share: 32 }, { ...pool, pool: "of an old server" }];
  serveDocuments({ "/workers": { workers: [], pools, complete: true } });
  render(<WorkersPage />);
  const found = (await screen.findAllByRole("listitem")).map((each) => each.textContent);
  expect(found.map((text) => /one execution holds at most 28/.exec(text)?.[0])).toEqual(["one execution holds at most 28", undefined, undefined]);
});

test("a loop does not hide what else a worker runs", async () => {
  const frame = { task: "copy", since: "2026-01-01T00:00:00Z" };
  const loop = Array.from({ length: 56 }, (_, index) => ({ ...frame, execution_id: "a", path: "load", frame: `start#1[${index}]` }));
  const running = [...loop, { ...frame, execution_id: "b", path: "small", frame: "start#1" }];
  const worker = { name: "w", pool: "default", slots: 64, busy: 57, host: "h", pid: 1, version: "1", labels: {}, leaving: false, at: "2026-01-01T00:00:00Z", running };
  serveDocuments({ "/workers": { workers: [worker], pools: [], complete: true } });
  render(<WorkersPage />);
  const found = (await screen.findAllByRole("listitem")).map((each) => /^(\S+ start\S+)|and .*/.exec(each.textContent)?.[0]);
  expect(found).toEqual(["load start#1[0]", "load start#1[1]", "load start#1[2]", "and 53 more of this execution", "small start#1"]);
});
