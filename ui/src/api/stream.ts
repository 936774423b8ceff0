/** Follows an event stream with fetch, because EventSource hides why it was refused. Resumes after a lost connection. */

import { send } from "./client";
import { ApiProblem, wasAborted } from "./problem";
import { EventParser, type ServerEvent } from "./sse";

export type Connection = "connecting" | "live" | "lost" | "ended";

export interface StreamOptions {
  path: string;
  after?: number;
  onEvents: (events: ServerEvent[]) => void;
  onConnection?: (connection: Connection) => void;
}

const RETRY_MAX_MS = 10_000;

/** Follows until the server sends `end` or the caller stops it. Returns the function that stops it. */
export function follow(options: StreamOptions): () => void {
  const abort = new AbortController();
  void followUntilEnd(options, abort.signal);
  return () => abort.abort();
}

async function followUntilEnd(options: StreamOptions, signal: AbortSignal): Promise<void> {
  const report = (connection: Connection) => {
    if (!signal.aborted) options.onConnection?.(connection);
  };
  let lastId: string | null = null;
  let failures = 0;
  while (!signal.aborted) {
    const reader = new EventParser();
    reader.lastId = lastId;
    try {
      report("connecting");
      const ended = await readOnce(options, reader, signal, () => {
        failures = 0;
        report("live");
      });
      if (ended) {
        report("ended");
        return;
      }
    } catch (error) {
      if (wasAborted(error)) return;
      if (error instanceof ApiProblem && error.status < 500 && error.status !== 429) {
        report("ended"); // A retry would get the same response.
        return;
      }
    }
    lastId = reader.lastId;
    report("lost");
    const delay = Math.min(RETRY_MAX_MS, reader.retryMs * 2 ** failures);
    failures += 1;
    await pause(delay, signal);
  }
}

async function readOnce(
  options: StreamOptions,
  reader: EventParser,
  signal: AbortSignal,
  onOpen: () => void,
): Promise<boolean> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (reader.lastId !== null) headers["Last-Event-ID"] = reader.lastId;
  const query = options.after === undefined ? {} : { after: options.after };
  const response = await send(options.path, { headers, query, signal });
  if (response.body === null) return false;
  onOpen();
  const text = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await text.read();
    if (done) return false;
    const events = reader.feed(value);
    if (events.length > 0) options.onEvents(events);
    if (events.some((each) => each.event === "end" || each.event === "problem")) return true;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });
}
