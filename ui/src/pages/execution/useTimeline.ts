/** The timeline of an execution, loaded again whenever its log has grown. */

import { useCallback, useEffect, useState } from "react";
import { get } from "../../api/client";
import { isLive, onCommand } from "../../api/commands";
import { Unreachable, wasAborted } from "../../api/problem";
import { type Connection, follow } from "../../api/stream";
import type { Timeline } from "../../api/types";

const READ_INTERVAL_MS = 150; // between two requests
const LOOK_MS = 5000; // the log does not grow when a worker or the process that runs it disappears
const RETRY_MS = 1000; // after the server did not answer

interface LoadState {
  id: string;
  timeline: Timeline | null;
  error: unknown;
  connection: Connection;
}

const initialState = (id: string): LoadState => ({ id, timeline: null, error: undefined, connection: "connecting" });

/** Returns and clears the flag that another read was requested meanwhile. */
function takePending(state: { pending: boolean }): boolean {
  const { pending } = state;
  state.pending = false;
  return pending;
}

export function useTimeline(id: string) {
  const [loaded, setLoaded] = useState<LoadState>(() => initialState(id));
  const [attempt, setAttempt] = useState(0);
  const retry = useCallback(() => setAttempt((old) => old + 1), []);
  const shown = loaded.id === id ? loaded.timeline : null;

  useEffect(() => {
    const abort = new AbortController();
    const state = { reading: false, pending: false };
    let timer: ReturnType<typeof setTimeout> | undefined;
    let stop: (() => void) | undefined;

    const update = (changes: Partial<LoadState>) => {
      if (!abort.signal.aborted) setLoaded((old) => ({ ...(old.id === id ? old : initialState(id)), ...changes }));
    };
    const readLater = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => void read(), ms);
    };
    let shownSeq = 0;
    /** `atLeast`: a document with this many facts is enough, so that several viewers share one; null: the newest. */
    const read = async (atLeast: number | null = null): Promise<void> => {
      if (state.reading) {
        state.pending = true;
        return;
      }
      state.reading = true;
      try {
        const timeline = await get<Timeline>(`/executions/${id}/timeline`, { at_least: atLeast }, abort.signal);
        shownSeq = timeline.seq;
        update({ timeline, error: undefined });
        if (isLive(timeline.status)) stop ??= listen(timeline.seq);
      } catch (error) {
        if (wasAborted(error)) return;
        update({ error });
        if (error instanceof Unreachable) readLater(RETRY_MS);
      } finally {
        state.reading = false;
        if (takePending(state)) readLater(READ_INTERVAL_MS);
      }
    };
    const listen = (after: number) =>
      follow({
        path: `/executions/${id}/growth`,
        after,
        onConnection: (connection) => {
          update({ connection });
          if (connection !== "ended") return;
          stop = undefined;
          void read();
        },
        onEvents: (events) => {
          const grown = events.findLast((each) => each.event === "grown");
          const seq = grown === undefined ? 0 : (JSON.parse(grown.data) as { seq: number }).seq;
          if (seq > shownSeq) void read(seq);
        },
      });
    const refresh = () => void read(); // Another client may have resumed it.
    const unsubscribe = onCommand((commanded) => {
      if (commanded === id) refresh();
    });
    const look = setInterval(() => {
      if (stop !== undefined && !document.hidden) refresh();
    }, LOOK_MS);
    window.addEventListener("focus", refresh);
    void read();
    return () => {
      abort.abort();
      unsubscribe();
      window.removeEventListener("focus", refresh);
      clearTimeout(timer);
      clearInterval(look);
      stop?.();
    };
  }, [id, attempt]);

  return { timeline: shown, error: loaded.id === id ? loaded.error : undefined, connection: loaded.connection, reload: retry };
}
