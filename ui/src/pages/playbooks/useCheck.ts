/** The server's check and net of a text, requested shortly after each change. The latest text wins. */

import { useEffect, useState } from "react";
import { post } from "../../api/client";
import { errorMessage, wasAborted } from "../../api/problem";
import type { Graph, PlaybookCheck } from "../../api/types";
import type { Problem } from "../../editor/problems";

const DEBOUNCE_MS = 300;

export interface Checked {
  text: string | null; // the text that was checked; null: none yet
  problems: readonly Problem[];
  ok: boolean;
  graph: Graph | null; // of the last text that has a net
  error: string | null; // why the check failed
}

const NOTHING: Checked = { text: null, problems: [], ok: false, graph: null, error: null };

export function useCheck(text: string): Checked {
  const [checked, setChecked] = useState<Checked>(NOTHING);
  useEffect(() => {
    const abort = new AbortController();
    const runCheck = async () => {
      try {
        const options = { signal: abort.signal };
        const [check, graph] = await Promise.all([
          post<PlaybookCheck>("/playbooks/check", { text }, options),
          // A text with errors may have no net: keep the last one.
          post<Graph>("/playbooks/graph", { text }, options).catch(() => null),
        ]);
        if (abort.signal.aborted) return;
        setChecked((old) => ({ text, problems: check.problems, ok: check.ok, graph: graph ?? old.graph, error: null }));
      } catch (error) {
        if (!wasAborted(error)) setChecked((old) => ({ ...old, text, error: errorMessage(error) }));
      }
    };
    const timer = setTimeout(() => void runCheck(), DEBOUNCE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return checked;
}
