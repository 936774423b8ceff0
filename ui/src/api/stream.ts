/** Follows a stream by fetch: EventSource could not send the token. Takes up where it was cut off. */

import { send } from "./client";
import { ApiProblem, wasAborted } from "./problem";
import { EventReader, type ServerEvent } from "./sse";

export type Connection = "connecting" | "live" | "lost" | "ended";

export interface Following {
  path: string;
  after?: number;
  onEvents: (events: ServerEvent[]) => void;
  onConnection?: (connection: Connection) => void;
}

const RETRY_MAX_MS = 10_000;

/** Follows until the server says `end`, or the one who asked stops it. Gives back how to stop. */
export function follow(following: Following): () => void {
  const abort = new AbortController();
  void keepFollowing(following, abort.signal);
  return () => abort.abort();
}

async function keepFollowing(following: Following, signal: AbortSignal): Promise<void> {
  const tell = (connection: Connection) => {
    if (!signal.aborted) following.onConnection?.(connection);
  };
  let lastId: string | null = null;
  let failures = 0;
  while (!signal.aborted) {
    const reader = new EventReader();
    reader.lastId = lastId;
    try {
      tell("connecting");
      const ended = await readOnce(following, reader, signal, () => {
        failures = 0;
        tell("live");
      });
      if (ended) {
        tell("ended");
        return;
      }
    } catch (error) {
      if (wasAborted(error)) return;
      if (error instanceof ApiProblem && error.status < 500 && error.status !== 429) {
        tell("ended"); // It will not be answered otherwise the next time.
        return;
      }
    }
    lastId = reader.lastId;
    tell("lost");
    const delay = Math.min(RETRY_MAX_MS, reader.retryMs * 2 ** failures);
    failures += 1;
    await pause(delay, signal);
  }
}

async function readOnce(
  following: Following,
  reader: EventReader,
  signal: AbortSignal,
  onOpen: () => void,
): Promise<boolean> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (reader.lastId !== null) headers["Last-Event-ID"] = reader.lastId;
  const query = following.after === undefined ? {} : { after: following.after };
  const answer = await send(following.path, { headers, query, signal });
  if (answer.body === null) return false;
  onOpen();
  const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await text.read();
    if (done) return false;
    const events = reader.feed(value);
    if (events.length > 0) following.onEvents(events);
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
