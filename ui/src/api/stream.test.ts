import { afterEach, expect, test, vi } from "vitest";
import { type Connection, follow } from "./stream";
import type { ServerEvent } from "./sse";

afterEach(() => vi.unstubAllGlobals());

function serve(...bodies: string[]) {
  const requested: Headers[] = [];
  vi.stubGlobal("fetch", (_url: string, init: RequestInit) => {
    requested.push(new Headers(init.headers));
    const body = bodies.shift();
    if (body === undefined) return Promise.reject(new TypeError("refused"));
    return Promise.resolve(new Response(body, { status: 200 }));
  });
  return requested;
}

test("an interrupted stream resumes after the last event until its end", async () => {
  const requested = serve("retry: 1\n\nid: 4\nevent: event\ndata: {}\n\n", "event: end\ndata: {}\n\n");
  const received: ServerEvent[] = [];
  const connections: Connection[] = [];
  await new Promise<void>((done) => {
    follow({
      path: "/executions/x/stream",
      after: 2,
      onEvents: (events) => received.push(...events),
      onConnection: (connection) => {
        connections.push(connection);
        if (connection === "ended") done();
      },
    });
  });
  expect(received.map((each) => each.event)).toEqual(["event", "end"]);
  expect(connections).toEqual(["connecting", "live", "lost", "connecting", "live", "ended"]);
  expect(requested.map((headers) => headers.get("Last-Event-ID"))).toEqual([null, "4"]);
});

test("a refused request is not repeated", async () => {
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
