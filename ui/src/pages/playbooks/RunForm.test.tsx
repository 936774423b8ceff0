import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { RunForm } from "./RunForm";

const TEXT = "workload:\n  name: world\n  many: 3\n  loud: false\n  list: [1, 2]\n";

function shown(disabled: string | null = null, text = TEXT) {
  const onRun = vi.fn<(workload: Record<string, unknown>) => Promise<void>>(() => Promise.resolve());
  render(<RunForm text={text} path="a/b" label="Run" disabled={disabled} onRun={onRun} />);
  return onRun;
}

const button = () => screen.getByRole("button", { name: "Run" });

test("what is left alone is not sent", async () => {
  const onRun = shown();
  await userEvent.click(button());
  expect(onRun).toHaveBeenCalledWith({});
});

test("what is typed is sent as what it is", async () => {
  const onRun = shown();
  const user = userEvent.setup();
  await user.clear(screen.getByRole("textbox", { name: "many" }));
  await user.type(screen.getByRole("textbox", { name: "many" }), "7");
  await user.click(screen.getByRole("checkbox", { name: "loud" }));
  await user.click(button());
  expect(onRun).toHaveBeenCalledWith({ many: 7, loud: true });
});

test("what is no number is told, and nothing can be run", async () => {
  shown();
  await userEvent.type(screen.getByRole("textbox", { name: "many" }), "x");
  expect(screen.getByText("a number, please")).toBeTruthy();
  expect(button()).toHaveProperty("disabled", true);
});

test("the defaults come back", async () => {
  shown();
  const name = screen.getByRole("textbox", { name: "name" });
  await userEvent.type(name, "!");
  await userEvent.click(screen.getByRole("button", { name: "Back to the defaults" }));
  expect(name).toHaveProperty("value", "world");
});

test("why it can not be run is said", () => {
  shown("It has errors: mend them first.");
  expect(screen.getByText("It has errors: mend them first.")).toBeTruthy();
  expect(button()).toHaveProperty("disabled", true);
});

test("a playbook without inputs says so", () => {
  shown(null, "workflow: []\n");
  expect(screen.queryAllByRole("textbox")).toEqual([]);
  expect(screen.getByText(/It has no inputs/)).toBeTruthy();
});
