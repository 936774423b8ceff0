/** A net, drawn: steps as cards, arcs with their guards; and over it, when there is one, an execution. */

import { Background, BackgroundVariant, Controls, type Node, ReactFlow, type ReactFlowInstance } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
import type { Graph } from "../api/types";
import { Skeleton } from "../design/Skeleton";
import { type ArcEdge, ArcLine, ArcTips } from "./ArcLine";
import { type StepNode, StepCard } from "./StepCard";
import { DrawnContext, type Drawn } from "./context";
import "./graph.css";
import { type Laid, type Wanted, boundsOf, layOut, startElk } from "./layout";
import { NO_OVERLAY, type Overlay } from "./overlay";

interface NetGraphProps {
  graph: Graph;
  direction?: Wanted;
  overlay?: Overlay | null; // null or left out: only the net
  selected?: string | null;
  onSelect?: (step: string) => void;
}

if (typeof Worker !== "undefined") startElk();

/** Nothing to see: it holds the place of labels and arcs, since xyflow makes room for its nodes only. */
type FrameNode = Node<Record<string, never>, "frame">;
type AnyNode = StepNode | FrameNode;

const NODE_TYPES = { step: StepCard, frame: () => null };
const EDGE_TYPES = { arc: ArcLine };
const CONTROLS_PX = 46; // below the net, so that the buttons lie over no step
const FIT = { padding: { top: "16px", x: "16px", bottom: `${CONTROLS_PX}px` }, maxZoom: 1 } as const;
const ignore = () => undefined;

function nodesOf(graph: Graph, laid: Laid): AnyNode[] {
  const { x, y, ...size } = boundsOf(graph, laid);
  const frame: FrameNode = {
    id: "frame", type: "frame", position: { x, y }, data: {}, ...size, style: { ...size, pointerEvents: "none" }, focusable: false,
  };
  const steps = graph.steps.map((step, place): StepNode => {
    const { x = 0, y = 0, width = 0, height = 0 } = laid.steps[place] ?? {};
    return {
      id: `s${step.place}`, type: "step", position: { x, y }, data: { step }, width, height,
      style: { width, height }, focusable: false,
    };
  });
  return [frame, ...steps];
}

function edgesOf(graph: Graph, laid: Laid): ArcEdge[] {
  const names = new Map(graph.steps.map((step) => [step.place, step.name]));
  return graph.arcs.map((arc, place) => {
    const { points, label } = laid.arcs[place] ?? { points: [], label: null };
    return {
      id: `a${place}`, type: "arc", source: `s${arc.start}`, target: `s${arc.to}`,
      data: { arc, place, points, label }, focusable: false,
      ariaLabel: `Arc from ${names.get(arc.start) ?? ""} to ${names.get(arc.to) ?? ""}`,
    };
  });
}

/** What was laid out last; the old drawing stays until the new one is there. */
function useLaid(graph: Graph, direction: Wanted, box: RefObject<HTMLElement | null>): { graph: Graph; laid: Laid } | null {
  const [drawn, setDrawn] = useState<{ graph: Graph; laid: Laid } | null>(null);
  useEffect(() => {
    let wanted = true;
    const room = { width: box.current?.clientWidth ?? 800, height: (box.current?.clientHeight ?? 400) - CONTROLS_PX };
    void layOut(graph, direction, room).then((laid) => {
      if (wanted) setDrawn({ graph, laid });
    });
    return () => {
      wanted = false;
    };
  }, [graph, direction, box]);
  return drawn;
}

export function NetGraph({ graph, direction = "BEST", overlay = null, selected = null, onSelect = ignore }: NetGraphProps) {
  const box = useRef<HTMLDivElement>(null);
  const drawn = useLaid(graph, direction, box);
  const instance = useRef<ReactFlowInstance<AnyNode, ArcEdge> | null>(null);
  const nodes = useMemo(() => (drawn === null ? [] : nodesOf(drawn.graph, drawn.laid)), [drawn]);
  const edges = useMemo(() => (drawn === null ? [] : edgesOf(drawn.graph, drawn.laid)), [drawn]);
  const context = useMemo<Drawn>(
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
    <DrawnContext value={context}>
      <div className="net" ref={box} role="group" aria-label={`The net of ${graph.name || "the playbook"}`}>
        <ArcTips />
        {drawn === null ? (
          <Skeleton height={120} />
        ) : (
          <ReactFlow<AnyNode, ArcEdge>
            nodes={nodes}
            edges={edges}
            nodeTypes={NODE_TYPES}
            edgeTypes={EDGE_TYPES}
            onInit={(made) => {
              instance.current = made;
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
    </DrawnContext>
  );
}
