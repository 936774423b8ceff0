import { memo, useMemo } from "react";
import { post } from "../../api/client";
import { hasStarted } from "../../api/commands";
import type { Graph, Timeline } from "../../api/types";
import { useResource } from "../../api/useResource";
import { ErrorNotice } from "../../design/ErrorNotice";
import { Skeleton } from "../../design/Skeleton";
import { loadable } from "../../design/loadable";
import { NotStarted } from "./NotStarted";
import { overlayAt } from "./overlayAt";

const LOADING = <Skeleton height={240} />;
const NetGraph = loadable(async () => (await import("../../graph/NetGraph")).NetGraph, LOADING);

// Start to load this large module while the execution is loading.
NetGraph.preload().catch(() => undefined);

interface NetProps {
  timeline: Timeline;
  loaded: boolean; // whether the state of the steps is known
  seq: number;
  step: string | null;
  onSelect: (step: string) => void;
}

/** The net of the playbook, with the state of the execution at the cursor. */
export const NetPane = memo(function NetPane({ timeline, loaded, seq, step, onSelect }: NetProps) {
  const { digest } = timeline;
  const started = hasStarted(timeline);
  const { data: graph, error, reload } = useResource<Graph>(started ? `graph ${digest}` : null, (signal) => post("/playbooks/graph", { digest }, { signal }));
  const overlay = useMemo(() => (graph === undefined || !loaded ? null : overlayAt(timeline, graph, seq)), [timeline, loaded, graph, seq]);
  return (
    <section className="net-pane card" aria-label="Net">
      {error !== undefined && <ErrorNotice error={error} onRetry={reload} />}
      {!started && <NotStarted timeline={timeline} />}
      {started && graph === undefined && error === undefined && LOADING}
      {graph !== undefined && (
        <NetGraph graph={graph} overlay={overlay} selected={step} onSelect={onSelect} />
      )}
    </section>
  );
});
