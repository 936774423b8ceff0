import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { getToken } from "../api/token";
import { SignIn } from "./SignIn";

function submit(token: string) {
  render(<SignIn error={undefined} />);
  fireEvent.change(screen.getByLabelText("Token"), { target: { value: token } });
  fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
}

test.each(["hunter2", "Bearer noetl_7f3a_secret", "noetl_", "токен", `noetl_${"x".repeat(300)}`])("%s is not a token and is not sent", (token) => {
  submit(token);
  expect(screen.getByText(/This is not a NoETL token/)).toBeTruthy();
  expect(getToken()).toBeNull();
});

test("a token is accepted with spaces around it", () => {
  submit(" noetl_7f3a_secret\n");
  expect(getToken()).toBe("noetl_7f3a_secret");
});
