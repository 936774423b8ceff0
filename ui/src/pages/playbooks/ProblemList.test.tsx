import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import type { Problem } from "../../editor/problems";
import { ProblemList } from "./ProblemList";

const TEXT = "- step: valdate\n";
const WRONG: Problem = {
  code: "unknown-step", severity: "error", file: "playbook", line: 1, column: 9, fix: "validate",
  message: '"valdate" is not a step; did you mean "validate"?',
};
const NOTE: Problem = { ...WRONG, code: "failure-without-arc", severity: "info", message: "no arc takes a failure", fix: "- step: …" };

function renderList(problems: Problem[]) {
  const onReveal = vi.fn();
  const onApply = vi.fn();
  render(<ProblemList text={TEXT} problems={problems} onReveal={onReveal} onApply={onApply} />);
  return { onReveal, onApply };
}

test("a click on a problem shows its position, and a click on its fix applies it", async () => {
  const { onReveal, onApply } = renderList([WRONG]);
  await userEvent.click(screen.getByRole("button", { name: /is not a step/ }));
  expect(onReveal).toHaveBeenCalledWith(WRONG);
  await userEvent.click(screen.getByRole("button", { name: "Fix: validate" }));
  expect(onApply).toHaveBeenCalledWith({ from: 8, to: 15, insert: "validate" });
});

test("notes are collapsed, and advice has no button", () => {
  renderList([NOTE]);
  expect(screen.queryByRole("list", { name: "Problems" })).toBeNull();
  expect(screen.getByText("1 note")).toBeTruthy();
  expect(screen.queryByRole("button", { name: /^Fix/ })).toBeNull();
  expect(screen.getByText("- step: …")).toBeTruthy();
});
