import { expect, test } from "vitest";
import { piecesOf, plainText } from "./ansi";

test("colours and weights become classes until they are reset", () => {
  expect(piecesOf("a \u001b[1;31mbad\u001b[0m end")).toEqual([
    { text: "a ", look: "" }, { text: "bad", look: "ansi-red ansi-bold" }, { text: " end", look: "" },
  ]);
  expect(piecesOf("\u001b[38;5;2mgreen\u001b[39m \u001b[38;2;1;2;3mother\u001b[48;5;9;33mmore")).toEqual([
    { text: "green", look: "ansi-green" }, { text: " ", look: "" }, { text: "other", look: "" }, { text: "more", look: "ansi-yellow" },
  ]);
});

test("other sequences are removed, and hidden characters become visible", () => {
  expect(piecesOf("\u001b[2K\u001b]0;title\u0007ok\u0008\u202e")).toEqual([{ text: "ok␈\\u202e", look: "" }]);
  expect(plainText("\u001b[32mgo\u001b[0m")).toBe("go");
});
