import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { timelineOf } from "../../testing/timelines";
import { Scrubber } from "./Scrubber";

function shown(seq: number, last = 10) {
  const move = vi.fn();
  render(<Scrubber timeline={timelineOf({ seq: last })} cursor={{ seq, live: seq === last, move }} />);
  return move;
}

test("the slider says where it stands, in facts and in time", () => {
  shown(4);
  expect(screen.getByRole("slider").getAttribute("aria-valuetext")).toBe("fact 4 of 10, 3.33 s after the start");
});

test("dragging, the buttons and the arrow keys move the one cursor", () => {
  const move = shown(4);
  fireEvent.change(screen.getByRole("slider"), { target: { value: "7" } });
  fireEvent.click(screen.getByRole("button", { name: "One fact back" }));
  fireEvent.keyDown(document.body, { key: "ArrowRight" });
  fireEvent.keyDown(document.body, { key: "]" });
  fireEvent.keyDown(document.body, { key: "l" });
  expect(move.mock.calls.map(([seq]: unknown[]) => seq)).toEqual([7, 3, 5, 10, null]);
});

test("at the ends there is no further", () => {
  shown(1);
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "One fact back" }).disabled).toBe(true);
});

test("playing from the end begins at the beginning", () => {
  const move = shown(10);
  fireEvent.click(screen.getByRole("button", { name: "Play" }));
  expect(move.mock.calls[0]).toEqual([1]);
  expect(screen.getByRole("button", { name: "Stop" })).toBeTruthy();
});
