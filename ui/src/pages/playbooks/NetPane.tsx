import { Suspense, lazy, useCallback } from "react";
import { SkeletonRows } from "../../design/Skeleton";
import type { Graph } from "./useCheck";

const NetGraph = lazy(async () => ({ default: (await import("../../graph/NetGraph")).NetGraph }));

interface NetPaneProps {
  graph: Graph;
  line: number; // where the cursor is: the step that stands there is selected
  onStep: (place: { line: number; column: number }) => void;
}

/** The net of the text as it stands; a step leads to its lines, and lines select their step. */
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
        <NetGraph graph={graph} direction="DOWN" selected={stepAt(graph, line)} onSelect={select} />
      </Suspense>
    </div>
  );
}

/** The step whose text holds the line: the last one that begins before it. */
function stepAt(graph: Graph, line: number): string | null {
  let found: { name: string; line: number } | null = null;
  for (const { name, line: begins } of graph.steps) {
    if (begins !== null && begins <= line && begins >= (found?.line ?? 0)) found = { name, line: begins };
  }
  return found?.name ?? null;
}
