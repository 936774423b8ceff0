import { type KeyboardEvent, useMemo, useState } from "react";
import type { Graph } from "../api/types";

interface StepSearchProps {
  graph: Graph;
  onFind: (step: string) => void;
}

/** Finds steps by a part of their name. Enter goes to the next match, Shift Enter to the previous one. */
export function StepSearch({ graph, onFind }: StepSearchProps) {
  const [{ text, at }, setState] = useState({ text: "", at: -1 });
  const found = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    const names = graph.steps.filter((step) => step.role === "step").map((step) => step.name);
    return wanted === "" ? [] : names.filter((name) => name.toLowerCase().includes(wanted));
  }, [graph, text]);
  const go = (index: number) => {
    const place = (index + found.length) % found.length;
    const step = found[place];
    if (step === undefined) return;
    setState({ text, at: place });
    onFind(step);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    go(event.shiftKey ? Math.max(at, 0) - 1 : at + 1);
  };
  return (
    <div className="step-search" role="search">
      <input
        type="search" className="input" placeholder="Find a step" aria-label="Find a step" value={text}
        onChange={(event) => setState({ text: event.target.value, at: -1 })} onKeyDown={onKey}
      />
      <span className="faint numbers" role="status">
        {text.trim() === "" ? "" : found.length === 0 ? "no step" : at < 0 ? `${found.length} found` : `${at + 1} of ${found.length}`}
      </span>
      {found.length > 0 && <button type="button" className="button small" onClick={() => go(at + 1)}>Next</button>}
    </div>
  );
}
