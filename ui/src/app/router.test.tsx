import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { Link, withQuery, matchPath, navigate, parseLocation, useRouteLocation } from "./router";

test("a pattern yields the values of its parameters", () => {
  expect(matchPath("/executions/:id", "/executions/a%2Fb")).toEqual({ id: "a/b" });
  expect(matchPath("/executions/:id", "/executions")).toBeNull();
  expect(matchPath("/playbooks/one", "/playbooks/two")).toBeNull();
});

test("unchanged query parameters are kept", () => {
  const location = parseLocation("/ui/executions/x?seq=3&step=a");
  expect(location.path).toBe("/executions/x");
  expect(withQuery(location, { seq: 4 })).toBe("/executions/x?seq=4&step=a");
  expect(withQuery(location, { seq: null, step: "" })).toBe("/executions/x");
});

function Location() {
  const location = useRouteLocation();
  return <p>{location.path} {location.query.toString()}</p>;
}

test("a link navigates without a page load; other mouse buttons are left to the browser", () => {
  navigate("/executions");
  render(<><Link to="/tools?x=1">Tools</Link><Location /></>);
  expect(screen.getByText("/executions")).toBeTruthy();
  fireEvent.click(screen.getByRole("link"), { ctrlKey: true });
  expect(window.location.pathname).toBe("/ui/executions");
  fireEvent.click(screen.getByRole("link"));
  expect(screen.getByText("/tools x=1")).toBeTruthy();
});
