/** Draws a net: steps as cards, arcs with their guards, and optionally the state of an execution over it. */

import { Background, BackgroundVariant, Controls, MiniMap, type Node, ReactFlow, type ReactFlowInstance } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { type RefObject, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Graph } from "../api/types";
import { Skeleton } from "../design/Skeleton";
import { type ArcEdge, ArcLine, ArcTips } from "./ArcLine";
import { type StepNode, StepCard } from "./StepCard";
import { StepSearch } from "./StepSearch";
import { GraphContext, type GraphState } from "./context";
import "./graph.css";
import { type Box, type Layout, boundsOf, computeLayout, startWorker } from "./layout";
import { NO_OVERLAY, type Overlay, mainStep } from "./overlay";
import { ZOOM_MAX, ZOOM_MIN, firstView, fits, viewOf } from "./view";

interface NetGraphProps {
  graph: Graph;
  overlay?: Overlay | null; // null or undefined: the net without an execution
  selected?: string | null;
  onSelect?: (step: string) => void;
}

if (typeof Worker !== "undefined") startWorker();

const MAP_SIZE = { width: 140, height: 95 }; // small enough for the pane of a small window

type AnyEdge = ArcEdge;
type Flow = ReactFlowInstance<Node, AnyEdge>;

const NODE_TYPES = { step: StepCard };
const EDGE_TYPES = { arc: ArcLine };
const CONTROLS_PX = 46; // below the net, so that the buttons cover no step
const SEARCH_PX = 46; // above the net
const MAP_PX = { width: 150, height: 100 }; // as in graph.css
const DRAW_ALL_MAX = 100; // steps: of larger nets only the visible ones are drawn
const ignore = () => undefined;

function nodesOf(graph: Graph, layout: Layout): StepNode[] {
  return graph.steps.map((step, index): StepNode => {
    const { x = 0, y = 0, width = 0, height = 0 } = layout.steps[index] ?? {};
    return {
      id: `s${step.place}`, type: "step", position: { x, y }, data: { step }, width, height,
      style: { width, height }, focusable: false,
    };
  });
}

function edgesOf(graph: Graph, layout: Layout): AnyEdge[] {
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

/** The outline of a step on the map: without it, the steps of a large net would be thinner than a pixel. */
const mapStroke = ({ width, height }: Box): number => 2 * Math.max(width / MAP_PX.width, height / MAP_PX.height);

interface Drawn {
  graph: Graph;
  layout: Layout;
  bounds: Box;
}

const sizeOf = (box: RefObject<HTMLElement | null>) => ({ width: box.current?.clientWidth || 800, height: box.current?.clientHeight || 400 });

/** The current layout. The old one stays until the new one is ready. */
function useLayout(graph: Graph, box: RefObject<HTMLElement | null>): Drawn | null {
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  useEffect(() => {
    let wanted = true;
    const { width, height } = sizeOf(box);
    void computeLayout(graph, { width, height: height - CONTROLS_PX }).then((layout) => {
      if (wanted) setDrawn({ graph, layout, bounds: boundsOf(graph, layout) });
    });
    return () => {
      wanted = false;
    };
  }, [graph, box]);
  return drawn;
}

function boxOf({ graph, layout, bounds }: Drawn, step: string | null): Box {
  const index = graph.steps.findIndex((each) => each.name === step && each.role === "step");
  const entry = graph.steps.findIndex((each) => each.role === "entry");
  return layout.steps[index < 0 ? entry : index] ?? bounds;
}

export function NetGraph({ graph, overlay = null, selected = null, onSelect = ignore }: NetGraphProps) {
  const box = useRef<HTMLDivElement>(null);
  const drawn = useLayout(graph, box);
  const flow = useRef<Flow | null>(null);
  const moved = useRef(false); // by the user: a resize keeps the position
  const [isLarge, setIsLarge] = useState(false); // it does not fit into the pane
  const nodes = useMemo(() => (drawn === null ? [] : nodesOf(drawn.graph, drawn.layout)), [drawn]);
  const edges = useMemo(() => (drawn === null ? [] : edgesOf(drawn.graph, drawn.layout)), [drawn]);
  const focus = useRef<string | null>(null);
  useEffect(() => {
    focus.current = selected ?? (overlay === null ? null : mainStep(overlay));
  });

  const show = useCallback(() => {
    if (drawn === null) return;
    const pane = sizeOf(box);
    const large = !fits(drawn.bounds, { ...pane, height: pane.height - CONTROLS_PX });
    setIsLarge(large);
    const edges = { top: large ? SEARCH_PX : 0, bottom: CONTROLS_PX };
    void flow.current?.setViewport(firstView(drawn.bounds, pane, edges, boxOf(drawn, focus.current)));
  }, [drawn]);
  const reveal = useCallback((step: string) => {
    const element = box.current?.querySelector(".react-flow");
    element?.scrollTo(0, 0); // The browser scrolls to a card that gets the focus.
    const view = flow.current?.getViewport();
    if (drawn === null || view === undefined) return;
    const near = viewOf(boxOf(drawn, step), view, sizeOf(box), { top: SEARCH_PX, bottom: CONTROLS_PX });
    if (near !== null) void flow.current?.setViewport(near);
  }, [drawn]);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    moved.current = false;
    const fit = () => {
      if (!moved.current) show();
    };
    const watch = new ResizeObserver(fit);
    watch.observe(element);
    const frame = requestAnimationFrame(fit);
    return () => {
      watch.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [show]);
  useEffect(() => {
    if (selected !== null && isLarge) reveal(selected);
  }, [selected, isLarge, reveal]);

  const context = useMemo<GraphState>(
    () => ({ overlay: overlay ?? NO_OVERLAY, live: overlay !== null, selected, onSelect, onFocus: isLarge ? reveal : ignore }),
    [overlay, selected, onSelect, isLarge, reveal],
  );
  const find = (step: string) => {
    moved.current = true;
    if (step !== selected) onSelect(step);
    reveal(step);
  };
  const tone = (node: Node) => {
    const { step } = (node as StepNode).data;
    return `map-step ${overlay?.steps.get(step.name)?.tone ?? "idle"}${step.name === selected ? " selected" : ""}`;
  };
  return (
    <GraphContext value={context}>
      <div className={`net${isLarge ? " large" : ""}`} ref={box} role="group" aria-label={`Net of ${graph.name || "the playbook"}`}>
        <ArcTips />
        {drawn === null ? (
          <Skeleton height={120} />
        ) : (
          <ReactFlow<Node, AnyEdge>
            nodes={nodes}
            edges={edges}
            nodeTypes={NODE_TYPES}
            edgeTypes={EDGE_TYPES}
            onInit={(instance) => {
              flow.current = instance;
              show();
            }}
            onMoveStart={(event) => {
              if (event !== null) moved.current = true;
            }}
            minZoom={ZOOM_MIN}
            maxZoom={ZOOM_MAX}
            nodesDraggable={false}
            nodesConnectable={false}
            nodesFocusable={false}
            edgesFocusable={false}
            elementsSelectable={false}
            zoomOnScroll={false}
            panOnScroll={isLarge}
            preventScrolling={isLarge}
            onlyRenderVisibleElements={nodes.length > DRAW_ALL_MAX}
            proOptions={{ hideAttribution: true }}
          >
            <Background variant={BackgroundVariant.Dots} gap={18} size={1} />
            <Controls showInteractive={false} orientation="horizontal" showFitView={false}>
              <button
                type="button" className="react-flow__controls-button" title="Show the beginning" aria-label="Show the beginning"
                onClick={() => {
                  moved.current = false;
                  focus.current = null;
                  show();
                }}
              >
                ⌂
              </button>
            </Controls>
            {isLarge && <MiniMap pannable style={MAP_SIZE} ariaLabel="Map of the net" nodeClassName={tone} nodeBorderRadius={8} nodeStrokeWidth={mapStroke(drawn.bounds)} />}
          </ReactFlow>
        )}
        {isLarge && <StepSearch graph={graph} onFind={find} />}
      </div>
    </GraphContext>
  );
}
