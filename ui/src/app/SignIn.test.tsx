import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { heldToken } from "../api/token";
import { SignIn } from "./SignIn";

function typed(words: string) {
  render(<SignIn error={undefined} />);
  fireEvent.change(screen.getByLabelText("Token"), { target: { value: words } });
  fireEvent.click(screen.getByRole("button", { name: "Go on" }));
}

test.each(["hunter2", "Bearer noetl_7f3a_secret", "noetl_", "токен", `noetl_${"x".repeat(300)}`])("%s is no token, and is not sent", (words) => {
  typed(words);
  expect(screen.getByText(/This is no token of NoETL/)).toBeTruthy();
  expect(heldToken()).toBeNull();
});

test("a token is taken, with blanks around it from copying", () => {
  typed(" noetl_7f3a_secret\n");
  expect(heldToken()).toBe("noetl_7f3a_secret");
});
