import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { runBar, stepLine, timelineOf } from "../../testing/timelines";
import { Stalls } from "./Summary";

test("a loop that holds the share of its execution says what its other iterations wait for", () => {
  const why = 'waits for a slot: the execution holds 28 of the 32 slots of the pool "gpu", its share (NOETL_SLOT_RESERVE)';
  const steps = [stepLine("a", [], [runBar("a#1", { status: "running", why, iterations: { count: 80, succeeded: 0, failed: 0 } }), runBar("a#2", { status: "scheduled", why })]), stepLine("b", [], [runBar("b#1", { why: "waits for the signal go" })])];
  render(<Stalls timeline={timelineOf({ status: "running", steps })} />);
  expect(screen.getByRole("status").textContent).toBe(`a ${why.replace("waits", "has iterations that wait")}; a ${why}. Workers and pools`);
});
