import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { Link, changed, matched, navigate, placeOf, usePlace } from "./router";

test("a pattern gives the values of its names", () => {
  expect(matched("/executions/:id", "/executions/a%2Fb")).toEqual({ id: "a/b" });
  expect(matched("/executions/:id", "/executions")).toBeNull();
  expect(matched("/playbooks/one", "/playbooks/two")).toBeNull();
});

test("a place keeps what is not changed of its query", () => {
  const place = placeOf("/ui/executions/x?seq=3&step=a");
  expect(place.path).toBe("/executions/x");
  expect(changed(place, { seq: 4 })).toBe("/executions/x?seq=4&step=a");
  expect(changed(place, { seq: null, step: "" })).toBe("/executions/x");
});

function Where() {
  const place = usePlace();
  return <p>{place.path} {place.query.toString()}</p>;
}

test("a link goes without loading the page, and leaves other buttons to the browser", () => {
  navigate("/executions");
  render(<><Link to="/tools?x=1">Tools</Link><Where /></>);
  expect(screen.getByText("/executions")).toBeTruthy();
  fireEvent.click(screen.getByRole("link"), { ctrlKey: true });
  expect(window.location.pathname).toBe("/ui/executions");
  fireEvent.click(screen.getByRole("link"));
  expect(screen.getByText("/tools x=1")).toBeTruthy();
});
