import { expect, test } from "vitest";
import { EventParser } from "./sse";

test("an event is returned when it is complete, regardless of how the text is split", () => {
  const reader = new EventParser();
  expect(reader.feed("retry: 2000\n\nid: 7\nevent: ev")).toEqual([]);
  expect(reader.feed('ent\ndata: {"a":1}\n')).toEqual([]);
  expect(reader.feed("\n:\n\n")).toEqual([{ event: "event", data: '{"a":1}' }]);
  expect(reader.lastId).toBe("7");
  expect(reader.retryMs).toBe(2000);
});

test("data of several lines is one text without carriage returns", () => {
  expect(new EventParser().feed("data: one\r\ndata: two\r\n\r\n")).toEqual([{ event: "message", data: "one\ntwo" }]);
});
