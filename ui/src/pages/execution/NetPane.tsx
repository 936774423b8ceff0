import { memo, useMemo } from "react";
import { post } from "../../api/client";
import type { Graph, Timeline } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Failed } from "../../design/Failed";
import { Skeleton } from "../../design/Skeleton";
import { loadable } from "../../design/loadable";
import { useIsNarrow } from "../../design/useMedia";
import { overlayAt } from "./overlayAt";

const WAITING = <Skeleton height={240} />;
const NetGraph = loadable(async () => (await import("../../graph/NetGraph")).NetGraph, WAITING);

// It is large, and it will be wanted: it comes while the execution is read.
NetGraph.preload().catch(() => undefined);

interface NetProps {
  timeline: Timeline;
  seq: number;
  step: string | null;
  onSelect: (step: string) => void;
}

/** The net of the text that runs, with the execution laid over it as it stood. */
export const NetPane = memo(function NetPane({ timeline, seq, step, onSelect }: NetProps) {
  const { digest } = timeline;
  const { data: graph, error, reload } = useResource<Graph>(`graph ${digest}`, (signal) => post("/playbooks/graph", { digest }, { signal }));
  const overlay = useMemo(() => (graph === undefined ? null : overlayAt(timeline, graph, seq)), [timeline, graph, seq]);
  const narrow = useIsNarrow();
  return (
    <section className="net-pane card" aria-label="Net">
      {error !== undefined && <Failed error={error} onRetry={reload} />}
      {graph === undefined && error === undefined && WAITING}
      {graph !== undefined && (
        <NetGraph graph={graph} overlay={overlay} selected={step} onSelect={onSelect} direction={narrow ? "DOWN" : "BEST"} />
      )}
    </section>
  );
});
