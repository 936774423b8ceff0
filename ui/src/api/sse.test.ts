import { expect, test } from "vitest";
import { EventReader } from "./sse";

test("events are told when they are whole, wherever the pieces are cut", () => {
  const reader = new EventReader();
  expect(reader.feed("retry: 2000\n\nid: 7\nevent: ev")).toEqual([]);
  expect(reader.feed('ent\ndata: {"a":1}\n')).toEqual([]);
  expect(reader.feed("\n:\n\n")).toEqual([{ event: "event", data: '{"a":1}' }]);
  expect(reader.lastId).toBe("7");
  expect(reader.retryMs).toBe(2000);
});

test("data of several lines is one text, and carriage returns are no part of it", () => {
  expect(new EventReader().feed("data: one\r\ndata: two\r\n\r\n")).toEqual([{ event: "message", data: "one\ntwo" }]);
});
