import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { timelineOf } from "../../testing/timelines";
import { Scrubber } from "./Scrubber";

function renderScrubber(seq: number, last = 10) {
  const move = vi.fn();
  render(<Scrubber timeline={timelineOf({ seq: last })} cursor={{ seq, live: seq === last, move }} />);
  return move;
}

test("the slider tells its position in facts and in time", () => {
  renderScrubber(4);
  expect(screen.getByRole("slider").getAttribute("aria-valuetext")).toBe("fact 4 of 10, 3.33 s after the start");
});

test("dragging, buttons and arrow keys move the cursor", () => {
  const move = renderScrubber(4);
  fireEvent.change(screen.getByRole("slider"), { target: { value: "7" } });
  fireEvent.click(screen.getByRole("button", { name: "Previous fact" }));
  fireEvent.keyDown(document.body, { key: "ArrowRight" });
  fireEvent.keyDown(document.body, { key: "]" });
  fireEvent.keyDown(document.body, { key: "l" });
  expect(move.mock.calls.map(([seq]: unknown[]) => seq)).toEqual([7, 3, 5, 10, null]);
});

test("the cursor stops at the ends", () => {
  renderScrubber(1);
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Previous fact" }).disabled).toBe(true);
});

test("playing from the end starts at the beginning", () => {
  const move = renderScrubber(10);
  fireEvent.click(screen.getByRole("button", { name: "Play" }));
  expect(move.mock.calls[0]).toEqual([1]);
  expect(screen.getByRole("button", { name: "Stop" })).toBeTruthy();
});
