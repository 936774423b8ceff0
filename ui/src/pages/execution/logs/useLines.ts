/** The lines that tasks have printed: all so far, then new ones as they are printed. */

import { useEffect, useRef, useState } from "react";
import { get } from "../../../api/client";
import { wasAborted } from "../../../api/problem";
import { follow } from "../../../api/stream";
import type { PrintedLine, PrintedPage } from "../../../api/types";

const LINES_MAX = 100_000; // kept in the page; the file has all
const DRAW_MS = 100; // a task can print thousands of lines per second

export interface Wanted {
  step: string | null; // a step, a run, a frame or a call
  failed: boolean; // only of calls that failed
}

interface Lines {
  items: PrintedLine[];
  left: number; // earlier lines that are no longer kept
  done: boolean; // the execution has ended and all lines are here, or all failed ones so far
  error: unknown;
}

const NONE: Lines = { items: [], left: 0, done: false, error: undefined };

async function readFailed(id: string, step: string | null, take: (lines: PrintedLine[]) => void, signal: AbortSignal): Promise<void> {
  let after = 0;
  for (;;) {
    const page = await get<PrintedPage>(`/executions/${id}/logs`, { after, step, failed: true }, signal);
    take(page.items);
    if (page.last === after) return;
    after = page.last;
  }
}

export function useLines(id: string, { step, failed }: Wanted, attempt: number): Lines {
  const key = JSON.stringify([id, step, failed, attempt]);
  const [state, setState] = useState<{ key: string; lines: Lines }>({ key, lines: NONE });
  const pending = useRef<PrintedLine[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    pending.current = [];
    const change = (changes: (lines: Lines) => Lines) => {
      if (!abort.signal.aborted) setState((old) => ({ key, lines: changes(old.key === key ? old.lines : NONE) }));
    };
    const draw = () => {
      timer = undefined;
      const fresh = pending.current;
      pending.current = [];
      change((lines) => {
        const all = [...lines.items, ...fresh];
        const extra = Math.max(0, all.length - LINES_MAX);
        return { ...lines, items: extra > 0 ? all.slice(extra) : all, left: lines.left + extra };
      });
    };
    const take = (fresh: PrintedLine[]) => {
      for (const line of fresh) pending.current.push(line);
      timer ??= setTimeout(draw, DRAW_MS);
    };
    const end = () => {
      clearTimeout(timer);
      draw();
      change((lines) => ({ ...lines, done: true }));
    };
    let stop: (() => void) | undefined;
    if (failed) {
      readFailed(id, step, take, abort.signal).then(end, (error: unknown) => {
        if (!wasAborted(error)) change((lines) => ({ ...lines, error }));
      });
    } else {
      const path = `/executions/${id}/logs/stream${step === null ? "" : `?step=${encodeURIComponent(step)}`}`;
      stop = follow({
        path,
        onConnection: (connection) => {
          if (connection === "ended") end();
        },
        onEvents: (events) => take(events.filter((each) => each.event === "printed").map((each) => JSON.parse(each.data) as PrintedLine)),
      });
    }
    return () => {
      abort.abort();
      clearTimeout(timer);
      stop?.();
    };
  }, [id, step, failed, key]);
  return state.key === key ? state.lines : NONE;
}
