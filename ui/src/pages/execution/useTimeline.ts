/** The timeline of an execution, read anew whenever its log has grown. */

import { useCallback, useEffect, useState } from "react";
import { get } from "../../api/client";
import { isLive, onCommand } from "../../api/commands";
import { Unreachable, wasAborted } from "../../api/problem";
import { type Connection, follow } from "../../api/stream";
import type { Timeline } from "../../api/types";

const APART_MS = 150; // between two readings: a loop tells of itself a thousand times a second
const AGAIN_MS = 1000; // after the server did not answer

interface Told {
  id: string;
  timeline: Timeline | null;
  error: unknown;
  connection: Connection;
}

const nothing = (id: string): Told => ({ id, timeline: null, error: undefined, connection: "connecting" });

/** Was it asked for once more meanwhile? It is told once. */
function taken(state: { again: boolean }): boolean {
  const { again } = state;
  state.again = false;
  return again;
}

export function useTimeline(id: string) {
  const [told, setTold] = useState<Told>(() => nothing(id));
  const [turn, setTurn] = useState(0);
  const retry = useCallback(() => setTurn((old) => old + 1), []);
  const shown = told.id === id ? told.timeline : null;

  useEffect(() => {
    const abort = new AbortController();
    const state = { reading: false, again: false };
    let timer: ReturnType<typeof setTimeout> | undefined;
    let stop: (() => void) | undefined;

    const tell = (news: Partial<Told>) => {
      if (!abort.signal.aborted) setTold((old) => ({ ...(old.id === id ? old : nothing(id)), ...news }));
    };
    const later = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => void read(), ms);
    };
    const read = async (): Promise<void> => {
      if (state.reading) {
        state.again = true;
        return;
      }
      state.reading = true;
      try {
        const timeline = await get<Timeline>(`/executions/${id}/timeline`, {}, abort.signal);
        tell({ timeline, error: undefined });
        if (isLive(timeline.status)) stop ??= listen(timeline.seq);
      } catch (error) {
        if (wasAborted(error)) return;
        tell({ error });
        if (error instanceof Unreachable) later(AGAIN_MS);
      } finally {
        state.reading = false;
        if (taken(state)) later(APART_MS);
      }
    };
    const listen = (after: number) =>
      follow({
        path: `/executions/${id}/stream`,
        after,
        onConnection: (connection) => {
          tell({ connection });
          if (connection !== "ended") return;
          stop = undefined;
          void read();
        },
        // What the events say is not read here: the timeline says it in fewer words.
        onEvents: () => void read(),
      });
    const look = () => void read(); // Others may have taken it up again meanwhile.
    const deaf = onCommand((commanded) => {
      if (commanded === id) look();
    });
    window.addEventListener("focus", look);
    void read();
    return () => {
      abort.abort();
      deaf();
      window.removeEventListener("focus", look);
      clearTimeout(timer);
      stop?.();
    };
  }, [id, turn]);

  return { timeline: shown, error: told.id === id ? told.error : undefined, connection: told.connection, reload: retry };
}
