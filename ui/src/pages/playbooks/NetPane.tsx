import { Suspense, lazy, useCallback } from "react";
import type { Graph } from "../../api/types";
import { SkeletonRows } from "../../design/Skeleton";

const NetGraph = lazy(async () => ({ default: (await import("../../graph/NetGraph")).NetGraph }));

interface NetPaneProps {
  graph: Graph;
  line: number; // of the cursor: the step on this line is selected
  onStep: (place: { line: number; column: number }) => void;
}

/** The net of the current text. Selecting a step moves the cursor to its lines, and vice versa. */
export function NetPane({ graph, line, onStep }: NetPaneProps) {
  const select = useCallback(
    (name: string) => {
      const step = graph.steps.find((each) => each.name === name);
      if (step?.line != null) onStep({ line: step.line, column: step.column ?? 1 });
    },
    [graph, onStep],
  );
  return (
    <div className="net-pane">
      <Suspense fallback={<SkeletonRows />}>
        <NetGraph graph={graph} selected={stepAt(graph, line)} onSelect={select} />
      </Suspense>
    </div>
  );
}

/** The step that contains the line: the last one that starts at or before it. */
function stepAt(graph: Graph, line: number): string | null {
  let found: { name: string; line: number } | null = null;
  for (const { name, line: begins } of graph.steps) {
    if (begins !== null && begins <= line && begins >= (found?.line ?? 0)) found = { name, line: begins };
  }
  return found?.name ?? null;
}
