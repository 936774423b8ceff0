/** Draws a net: steps as cards, arcs with their guards, and optionally the state of an execution over it. */

import { Background, BackgroundVariant, Controls, type Node, ReactFlow, type ReactFlowInstance } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
import type { Graph } from "../api/types";
import { Skeleton } from "../design/Skeleton";
import { type ArcEdge, ArcLine, ArcTips } from "./ArcLine";
import { type StepNode, StepCard } from "./StepCard";
import { GraphContext, type GraphState } from "./context";
import "./graph.css";
import { type Layout, type LayoutDirection, boundsOf, computeLayout, startElk } from "./layout";
import { NO_OVERLAY, type Overlay } from "./overlay";

interface NetGraphProps {
  graph: Graph;
  direction?: LayoutDirection;
  overlay?: Overlay | null; // null or undefined: the net without an execution
  selected?: string | null;
  onSelect?: (step: string) => void;
}

if (typeof Worker !== "undefined") startElk();

/** An invisible node around labels and arcs: xyflow computes its viewport from nodes only. */
type FrameNode = Node<Record<string, never>, "frame">;
type AnyNode = StepNode | FrameNode;

const NODE_TYPES = { step: StepCard, frame: () => null };
const EDGE_TYPES = { arc: ArcLine };
const CONTROLS_PX = 46; // below the net, so that the buttons cover no step
const FIT = { padding: { top: "16px", x: "16px", bottom: `${CONTROLS_PX}px` }, maxZoom: 1 } as const;
const ignore = () => undefined;

function nodesOf(graph: Graph, layout: Layout): AnyNode[] {
  const { x, y, ...size } = boundsOf(graph, layout);
  const frame: FrameNode = {
    id: "frame", type: "frame", position: { x, y }, data: {}, ...size, style: { ...size, pointerEvents: "none" }, focusable: false,
  };
  const steps = graph.steps.map((step, index): StepNode => {
    const { x = 0, y = 0, width = 0, height = 0 } = layout.steps[index] ?? {};
    return {
      id: `s${step.place}`, type: "step", position: { x, y }, data: { step }, width, height,
      style: { width, height }, focusable: false,
    };
  });
  return [frame, ...steps];
}

function edgesOf(graph: Graph, layout: Layout): ArcEdge[] {
  const names = new Map(graph.steps.map((step) => [step.place, step.name]));
  return graph.arcs.map((arc, index) => {
    const { points, label } = layout.arcs[index] ?? { points: [], label: null };
    return {
      id: `a${index}`, type: "arc", source: `s${arc.start}`, target: `s${arc.to}`,
      data: { arc, index, points, label }, focusable: false,
      ariaLabel: `Arc from ${names.get(arc.start) ?? ""} to ${names.get(arc.to) ?? ""}`,
    };
  });
}

/** The current layout. The old one stays until the new one is ready. */
function useLayout(graph: Graph, direction: LayoutDirection, box: RefObject<HTMLElement | null>): { graph: Graph; layout: Layout } | null {
  const [drawn, setDrawn] = useState<{ graph: Graph; layout: Layout } | null>(null);
  useEffect(() => {
    let wanted = true;
    const room = { width: box.current?.clientWidth ?? 800, height: (box.current?.clientHeight ?? 400) - CONTROLS_PX };
    void computeLayout(graph, direction, room).then((layout) => {
      if (wanted) setDrawn({ graph, layout });
    });
    return () => {
      wanted = false;
    };
  }, [graph, direction, box]);
  return drawn;
}

export function NetGraph({ graph, direction = "BEST", overlay = null, selected = null, onSelect = ignore }: NetGraphProps) {
  const box = useRef<HTMLDivElement>(null);
  const drawn = useLayout(graph, direction, box);
  const instance = useRef<ReactFlowInstance<AnyNode, ArcEdge> | null>(null);
  const nodes = useMemo(() => (drawn === null ? [] : nodesOf(drawn.graph, drawn.layout)), [drawn]);
  const edges = useMemo(() => (drawn === null ? [] : edgesOf(drawn.graph, drawn.layout)), [drawn]);
  const context = useMemo<GraphState>(
    () => ({ overlay: overlay ?? NO_OVERLAY, live: overlay !== null, selected, onSelect }),
    [overlay, selected, onSelect],
  );
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const fit = () => void instance.current?.fitView(FIT);
    const watch = new ResizeObserver(fit);
    watch.observe(element);
    const frame = requestAnimationFrame(fit);
    return () => {
      watch.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [nodes]);

  return (
    <GraphContext value={context}>
      <div className="net" ref={box} role="group" aria-label={`Net of ${graph.name || "the playbook"}`}>
        <ArcTips />
        {drawn === null ? (
          <Skeleton height={120} />
        ) : (
          <ReactFlow<AnyNode, ArcEdge>
            nodes={nodes}
            edges={edges}
            nodeTypes={NODE_TYPES}
            edgeTypes={EDGE_TYPES}
            onInit={(flow) => {
              instance.current = flow;
            }}
            fitView
            fitViewOptions={FIT}
            minZoom={0.1}
            maxZoom={1.8}
            nodesDraggable={false}
            nodesConnectable={false}
            nodesFocusable={false}
            edgesFocusable={false}
            elementsSelectable={false}
            zoomOnScroll={false}
            panOnScroll={false}
            preventScrolling={false}
            proOptions={{ hideAttribution: true }}
          >
            <Background variant={BackgroundVariant.Dots} gap={18} size={1} />
            <Controls showInteractive={false} orientation="horizontal" />
          </ReactFlow>
        )}
      </div>
    </GraphContext>
  );
}
