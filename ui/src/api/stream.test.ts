import { afterEach, expect, test, vi } from "vitest";
import { holdToken } from "./token";
import { type Connection, follow } from "./stream";
import type { ServerEvent } from "./sse";

afterEach(() => vi.unstubAllGlobals());

function answers(...bodies: string[]) {
  const asked: Headers[] = [];
  vi.stubGlobal("fetch", (_url: string, init: RequestInit) => {
    asked.push(new Headers(init.headers));
    const body = bodies.shift();
    if (body === undefined) return Promise.reject(new TypeError("refused"));
    return Promise.resolve(new Response(body, { status: 200 }));
  });
  return asked;
}

test("a stream that is cut off is taken up behind the last event, with the token, until its end", async () => {
  holdToken("noetl_a_b");
  const asked = answers("retry: 1\n\nid: 4\nevent: event\ndata: {}\n\n", "event: end\ndata: {}\n\n");
  const told: ServerEvent[] = [];
  const connections: Connection[] = [];
  await new Promise<void>((done) => {
    follow({
      path: "/executions/x/stream",
      after: 2,
      onEvents: (events) => told.push(...events),
      onConnection: (connection) => {
        connections.push(connection);
        if (connection === "ended") done();
      },
    });
  });
  expect(told.map((each) => each.event)).toEqual(["event", "end"]);
  expect(connections).toEqual(["connecting", "live", "lost", "connecting", "live", "ended"]);
  expect(asked.map((headers) => headers.get("Last-Event-ID"))).toEqual([null, "4"]);
  expect(asked[0]?.get("Authorization")).toBe("Bearer noetl_a_b");
});

test("what the server will refuse again is not asked for again", async () => {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response("{}", { status: 404 })));
  const connections: Connection[] = [];
  await new Promise<void>((done) => {
    follow({
      path: "/executions/x/stream",
      onEvents: () => undefined,
      onConnection: (connection) => {
        connections.push(connection);
        if (connection === "ended") done();
      },
    });
  });
  expect(connections).toEqual(["connecting", "ended"]);
});
