import { expect, test } from "vitest";
import type { HistoryColumn } from "../../../api/types";
import { failingSince } from "./HistoryPage";

const columns = (...statuses: string[]) => statuses.map((status, place) => ({ execution_id: String(place), status }) as HistoryColumn);

test("the first of the failures at the end", () => {
  expect(failingSince(columns("ok", "error", "ok", "error", "cancelled", "error"))?.execution_id).toBe("3");
});

test("nothing fails when the newest has succeeded, also while another one runs", () => {
  expect(failingSince(columns("error", "ok", "running"))).toBeNull();
});
