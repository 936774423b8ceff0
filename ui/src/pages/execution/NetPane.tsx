import { memo, useMemo } from "react";
import { post } from "../../api/client";
import { hasBegun } from "../../api/commands";
import type { Graph, Timeline } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Failed } from "../../design/Failed";
import { Skeleton } from "../../design/Skeleton";
import { loadable } from "../../design/loadable";
import { useIsNarrow } from "../../design/useMedia";
import { NotBegun } from "./NotBegun";
import { overlayAt } from "./overlayAt";

const WAITING = <Skeleton height={240} />;
const NetGraph = loadable(async () => (await import("../../graph/NetGraph")).NetGraph, WAITING);

// It is large, and it will be wanted: it comes while the execution is read.
NetGraph.preload().catch(() => undefined);

interface NetProps {
  timeline: Timeline;
  read: boolean; // whether it is known how its steps stand
  seq: number;
  step: string | null;
  onSelect: (step: string) => void;
}

/** The net of the text that runs, with the execution laid over it as it stood. */
export const NetPane = memo(function NetPane({ timeline, read, seq, step, onSelect }: NetProps) {
  const { digest } = timeline;
  const begun = hasBegun(timeline);
  const { data: graph, error, reload } = useResource<Graph>(begun ? `graph ${digest}` : null, (signal) => post("/playbooks/graph", { digest }, { signal }));
  const overlay = useMemo(() => (graph === undefined || !read ? null : overlayAt(timeline, graph, seq)), [timeline, read, graph, seq]);
  const narrow = useIsNarrow();
  return (
    <section className="net-pane card" aria-label="Net">
      {error !== undefined && <Failed error={error} onRetry={reload} />}
      {!begun && <NotBegun timeline={timeline} />}
      {begun && graph === undefined && error === undefined && WAITING}
      {graph !== undefined && (
        <NetGraph graph={graph} overlay={overlay} selected={step} onSelect={onSelect} direction={narrow ? "DOWN" : "BEST"} />
      )}
    </section>
  );
});
