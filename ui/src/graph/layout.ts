/** Positions of steps and arcs. A web worker computes them with ELK; large nets use the layout of the server. */

import type { Graph } from "../api/types";
import { labelOf, labelSize, sizeOf, type Size } from "./measure";
import { fittingZoom, panesOf } from "./view";

export type Direction = "RIGHT" | "DOWN";

export interface Point {
  x: number;
  y: number;
}

export interface Box extends Size, Point {}

export interface Layout {
  steps: Box[]; // in the order of the graph's steps: top left corners
  arcs: { points: Point[]; label: Point | null }[]; // labels by their centre
}

export const ELK_STEPS_MAX = 100; // steps; larger nets would take too long

interface ElkBox extends Point {
  id: string;
}

export interface ElkResult {
  children?: ElkBox[];
  edges?: {
    id: string;
    sections?: { startPoint: Point; bendPoints?: Point[]; endPoint: Point }[];
    labels?: (Point & Size)[];
  }[];
}

export function elkGraph(graph: Graph, direction: Direction) {
  return {
    id: "net",
    layoutOptions: {
      "elk.algorithm": "layered",
      "elk.direction": direction,
      "elk.edgeRouting": "ORTHOGONAL",
      "elk.spacing.nodeNode": "28",
      "elk.spacing.edgeNode": "18",
      "elk.spacing.edgeEdge": "14",
      "elk.layered.spacing.nodeNodeBetweenLayers": direction === "DOWN" ? "30" : "44",
      "elk.layered.spacing.edgeNodeBetweenLayers": "14",
      "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
      "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
      "elk.layered.nodePlacement.favorStraightEdges": "true",
      "elk.edgeLabels.placement": "CENTER",
    },
    children: graph.steps.map((step) => ({
      id: `s${step.place}`,
      ...sizeOf(step),
      ...(step.role === "end" ? { layoutOptions: { "elk.layered.layering.layerConstraint": "LAST" } } : {}),
    })),
    edges: graph.arcs.map((arc, index) => {
      const label = labelOf(arc);
      return {
        id: `a${index}`,
        sources: [`s${arc.start}`],
        targets: [`s${arc.to}`],
        labels: label === null ? [] : [{ text: label, ...labelSize(label) }],
      };
    }),
  };
}

export function layoutFromElk(graph: Graph, result: ElkResult): Layout {
  const boxes = new Map((result.children ?? []).map((each) => [each.id, each]));
  const arcs = new Map((result.edges ?? []).map((each) => [each.id, each]));
  return {
    steps: graph.steps.map((step) => {
      const { x, y } = boxes.get(`s${step.place}`) ?? { x: 0, y: 0 };
      return { x, y, ...sizeOf(step) };
    }),
    arcs: graph.arcs.map((_, index) => {
      const found = arcs.get(`a${index}`);
      const section = found?.sections?.[0];
      const label = found?.labels?.[0];
      return {
        points: section ? [section.startPoint, ...(section.bendPoints ?? []), section.endPoint] : [],
        label: label ? { x: label.x + label.width / 2, y: label.y + label.height / 2 } : null,
      };
    }),
  };
}

/** The layout of the server, with the box sizes of its own drawings. */
export function layoutFromServer(graph: Graph): Layout {
  return {
    steps: graph.steps.map(({ x, y, width, height }) => ({ x: x - width / 2, y, width, height })),
    arcs: graph.arcs.map((arc) => {
      const points = arc.points.map(([x, y]) => ({ x, y }));
      return { points, label: points[Math.floor(points.length / 2)] ?? null };
    }),
  };
}

let worker: Worker | null = null;
let requests = 0;

/** Starts the worker. It loads a large file first, so call this early. */
export function startElk(): Worker {
  worker ??= new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  return worker;
}

/** Rejects when there is no worker, or ELK fails. */
function runElk(graph: Graph, direction: Direction): Promise<ElkResult> {
  const elk = startElk();
  requests += 1;
  const id = requests;
  return new Promise((resolve, reject) => {
    const stop = () => {
      elk.removeEventListener("message", listen);
      elk.removeEventListener("error", broken);
    };
    const listen = (event: MessageEvent<{ id: number; layout?: ElkResult; error?: string }>) => {
      if (event.data.id !== id) return;
      stop();
      if (event.data.layout !== undefined) resolve(event.data.layout);
      else reject(new Error(event.data.error));
    };
    const broken = () => {
      stop();
      worker = null;
      reject(new Error("the layout worker has crashed"));
    };
    elk.addEventListener("message", listen);
    elk.addEventListener("error", broken);
    elk.postMessage({ id, graph: elkGraph(graph, direction) });
  });
}

/** The bounding box of steps, labels and arcs. */
export function boundsOf(graph: Graph, layout: Layout): Box {
  const points = layout.steps.flatMap(({ x, y, width, height }) => [{ x, y }, { x: x + width, y: y + height }]);
  for (const [index, arc] of layout.arcs.entries()) {
    points.push(...arc.points);
    const text = graph.arcs[index] === undefined ? null : labelOf(graph.arcs[index]);
    if (arc.label === null || text === null) continue;
    const { width, height } = labelSize(text);
    const { x, y } = arc.label;
    points.push({ x: x - width / 2, y: y - height / 2 }, { x: x + width / 2, y: y + height / 2 });
  }
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return points.length === 0 ? { x: 0, y: 0, width: 1, height: 1 } : { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
}

const COMFORTABLE_ZOOM = 0.8; // a net that fits like this is drawn from left to right

/** By the shape of the pane: the direction in which the net fits, or else fills fewer panes. `room`: its size. */
export async function computeLayout(graph: Graph, room: Size): Promise<Layout> {
  if (graph.steps.length > ELK_STEPS_MAX) return layoutFromServer(graph);
  try {
    const right = layoutFromElk(graph, await runElk(graph, "RIGHT"));
    const wide = boundsOf(graph, right);
    if (fittingZoom(wide, room) >= COMFORTABLE_ZOOM) return right;
    const down = layoutFromElk(graph, await runElk(graph, "DOWN"));
    const high = boundsOf(graph, down);
    const [panesRight, panesDown] = [panesOf(wide, room), panesOf(high, room)];
    if (panesRight !== panesDown) return panesRight < panesDown ? right : down;
    return fittingZoom(wide, room) >= fittingZoom(high, room) ? right : down;
  } catch {
    return layoutFromServer(graph);
  }
}
