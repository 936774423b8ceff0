import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { type OnRun, RunForm } from "./RunForm";

const TEXT = "workload:\n  name: world\n  many: 3\n  loud: false\n  list: [1, 2]\n";

function renderForm(disabled: string | null = null, text = TEXT) {
  const onRun = vi.fn<OnRun>(() => Promise.resolve());
  render(<RunForm text={text} path="a/b" label="Run" disabled={disabled} onRun={onRun} />);
  return onRun;
}

const button = () => screen.getByRole("button", { name: "Run" });

test("unchanged inputs are not sent", async () => {
  const onRun = renderForm();
  await userEvent.click(button());
  expect(onRun).toHaveBeenCalledWith({}, {});
});

test("inputs are sent with their types", async () => {
  const onRun = renderForm();
  const user = userEvent.setup();
  await user.clear(screen.getByRole("textbox", { name: "many" }));
  await user.type(screen.getByRole("textbox", { name: "many" }), "7");
  await user.click(screen.getByRole("checkbox", { name: "loud" }));
  await user.click(button());
  expect(onRun).toHaveBeenCalledWith({ many: 7, loud: true }, {});
});

test("an invalid number is reported and disables the button", async () => {
  renderForm();
  await userEvent.type(screen.getByRole("textbox", { name: "many" }), "x");
  expect(screen.getByText("enter a number")).toBeTruthy();
  expect(button()).toHaveProperty("disabled", true);
});

test("the defaults can be restored", async () => {
  renderForm();
  const name = screen.getByRole("textbox", { name: "name" });
  await userEvent.type(name, "!");
  await userEvent.click(screen.getByRole("button", { name: "Reset to defaults" }));
  expect(name).toHaveProperty("value", "world");
});

test("the reason is shown when it cannot run", () => {
  renderForm("The playbook has errors. Fix them first.");
  expect(screen.getByText("The playbook has errors. Fix them first.")).toBeTruthy();
  expect(button()).toHaveProperty("disabled", true);
});

test("a playbook without inputs says so", () => {
  renderForm(null, "workflow: []\n");
  expect(screen.queryAllByRole("textbox")).toEqual([]);
  expect(screen.getByText(/has no inputs/)).toBeTruthy();
});

test("a typed form waits for required inputs and offers choices", async () => {
  const onRun = renderForm(null, "input:\n  day: {type: date, desc: the day}\n  region: {type: string, enum: [eu, us], default: eu}\n");
  expect(button()).toHaveProperty("disabled", true);
  expect(screen.getByText("date: the day; required")).toBeTruthy();
  const user = userEvent.setup();
  await user.type(screen.getByLabelText("day"), "2026-01-31");
  await user.selectOptions(screen.getByRole("combobox", { name: "region" }), "us");
  await user.click(button());
  expect(onRun).toHaveBeenCalledWith({ day: "2026-01-31", region: "us" }, {});
});

test("a secret input is a password field and is sent apart from the workload", async () => {
  const onRun = renderForm(null, "input:\n  user: {type: string, default: me}\n  pw: {type: string, secret: true, desc: of the shop}\n");
  expect(button()).toHaveProperty("disabled", true);
  expect(screen.getByText("secret: of the shop; required")).toBeTruthy();
  const field = screen.getByLabelText("pw");
  expect(field).toHaveProperty("type", "password");
  await userEvent.type(field, "swordfish");
  expect(document.body.textContent).toContain('"secrets":{"pw":"…"}');
  expect(document.body.textContent).not.toContain("swordfish");
  await userEvent.click(button());
  expect(onRun).toHaveBeenCalledWith({}, { pw: "swordfish" });
});
