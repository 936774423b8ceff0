import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { sessionVersion } from "../api/session";
import { SignIn } from "./SignIn";

afterEach(() => {
  vi.unstubAllGlobals();
  window.history.replaceState(null, "", "/ui/");
});

/** Returns the bodies of the sign-ins. */
function serve(oidc: string | null): string[] {
  const sent: string[] = [];
  vi.stubGlobal("fetch", (_url: string, init: RequestInit) => {
    if (init.method === "POST") sent.push(init.body as string);
    return Promise.resolve(new Response(JSON.stringify({ open: false, oidc })));
  });
  return sent;
}

async function submit(token: string) {
  render(<SignIn error={undefined} />);
  fireEvent.change(await screen.findByLabelText("Token"), { target: { value: token } });
  fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
}

test.each(["hunter2", "Bearer noetl_7f3a_secret", "noetl_", "токен", `noetl_${"x".repeat(300)}`])("%s is not a token and is not sent", async (token) => {
  const sent = serve(null);
  await submit(token);
  expect(screen.getByText(/This is not a NoETL token/)).toBeTruthy();
  expect(sent).toEqual([]);
});

test("a token is exchanged for a session, without the spaces around it, and not kept", async () => {
  const sent = serve(null);
  const before = sessionVersion();
  await submit(" noetl_7f3a_secret\n");
  await waitFor(() => expect(sessionVersion()).toBe(before + 1));
  expect(sent).toEqual(['{"token":"noetl_7f3a_secret"}']);
  expect(sessionStorage.length + localStorage.length).toBe(0);
});

test("the provider of the server comes first and leads back to the open page", async () => {
  window.history.replaceState(null, "", "/ui/executions?status=error&sign-in=no-role");
  serve("login.example.com");
  render(<SignIn error={undefined} />);
  const link = await screen.findByRole("link", { name: "Sign in with login.example.com" });
  expect(link.getAttribute("href")).toBe("/session/oidc?next=%2Fui%2Fexecutions%3Fstatus%3Derror");
  expect(screen.getByRole("alert").textContent).toContain("none of your groups has a role");
});

test("an unknown refusal shows no text of the address", async () => {
  window.history.replaceState(null, "", "/ui/?sign-in=%3Cimg%3E");
  serve(null);
  render(<SignIn error={undefined} />);
  expect((await screen.findByRole("alert")).textContent).toBe("You are not signed in.");
});
