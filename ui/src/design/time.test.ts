import { afterEach, expect, test } from "vitest";
import { shortTime, wholeTime } from "./time";
import { setZone } from "./timeZone";

afterEach(() => setZone("local"));

test("times in UTC say so", () => {
  setZone("UTC");
  const now = new Date("2026-01-31T12:00:00Z");
  expect(shortTime("2026-01-31T09:08:07Z", now)).toBe("09:08:07 UTC");
  expect(shortTime("2026-01-30T23:59:59Z", now)).toMatch(/30.*23:59:59 UTC$/);
  expect(wholeTime("2026-01-31T09:08:07Z")).toMatch(/ UTC$/);
});
