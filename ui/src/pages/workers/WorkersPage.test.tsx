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
