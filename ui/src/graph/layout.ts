/** Where steps and arcs are drawn. Laid out by ELK in a worker; large nets keep the places the server gives. */

import type { Graph } from "../api/types";
import { labelOf, labelSize, sizeOf, type Size } from "./measure";

export type Direction = "RIGHT" | "DOWN";
export type Wanted = Direction | "BEST"; // the one in which it is drawn larger

export interface Point {
  x: number;
  y: number;
}

export interface Placed extends Size, Point {}

export interface Laid {
  steps: Placed[]; // in the order of the graph's steps: upper left corners
  arcs: { points: Point[]; label: Point | null }[]; // labels by their middle
}

export const LAID_OUT_MAX = 100; // steps; beyond, a person sees a waterfall as well, and sooner

interface ElkPlaced extends Point {
  id: string;
}

export interface ElkAnswer {
  children?: ElkPlaced[];
  edges?: {
    id: string;
    sections?: { startPoint: Point; bendPoints?: Point[]; endPoint: Point }[];
    labels?: (Point & Size)[];
  }[];
}

export function elkQuestion(graph: Graph, direction: Direction) {
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
    edges: graph.arcs.map((arc, place) => {
      const label = labelOf(arc);
      return {
        id: `a${place}`,
        sources: [`s${arc.start}`],
        targets: [`s${arc.to}`],
        labels: label === null ? [] : [{ text: label, ...labelSize(label) }],
      };
    }),
  };
}

export function laidByElk(graph: Graph, answer: ElkAnswer): Laid {
  const places = new Map((answer.children ?? []).map((each) => [each.id, each]));
  const arcs = new Map((answer.edges ?? []).map((each) => [each.id, each]));
  return {
    steps: graph.steps.map((step) => {
      const { x, y } = places.get(`s${step.place}`) ?? { x: 0, y: 0 };
      return { x, y, ...sizeOf(step) };
    }),
    arcs: graph.arcs.map((_, place) => {
      const found = arcs.get(`a${place}`);
      const section = found?.sections?.[0];
      const label = found?.labels?.[0];
      return {
        points: section ? [section.startPoint, ...(section.bendPoints ?? []), section.endPoint] : [],
        label: label ? { x: label.x + label.width / 2, y: label.y + label.height / 2 } : null,
      };
    }),
  };
}

/** The server's own places: its boxes are as large as its own drawings have them. */
export function laidByServer(graph: Graph): Laid {
  return {
    steps: graph.steps.map(({ x, y, width, height }) => ({ x: x - width / 2, y, width, height })),
    arcs: graph.arcs.map((arc) => {
      const points = arc.points.map(([x, y]) => ({ x, y }));
      return { points, label: points[Math.floor(points.length / 2)] ?? null };
    }),
  };
}

let worker: Worker | null = null;
let asked = 0;

/** It reads a large file first: whoever knows that there will be a net calls this early. */
export function startElk(): Worker {
  worker ??= new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  return worker;
}

/** Raises when there is no worker, or ELK can not do it. */
function askElk(graph: Graph, direction: Direction): Promise<ElkAnswer> {
  const elk = startElk();
  asked += 1;
  const number = asked;
  return new Promise((found, failed) => {
    const stop = () => {
      elk.removeEventListener("message", listen);
      elk.removeEventListener("error", broken);
    };
    const listen = (event: MessageEvent<{ number: number; answer?: ElkAnswer; error?: string }>) => {
      if (event.data.number !== number) return;
      stop();
      if (event.data.answer !== undefined) found(event.data.answer);
      else failed(new Error(event.data.error));
    };
    const broken = () => {
      stop();
      worker = null;
      failed(new Error("the worker that lays out nets has broken"));
    };
    elk.addEventListener("message", listen);
    elk.addEventListener("error", broken);
    elk.postMessage({ number, question: elkQuestion(graph, direction) });
  });
}

/** The box around all that is drawn: labels and arcs reach beyond the steps. */
export function boundsOf(graph: Graph, laid: Laid): Placed {
  const points = laid.steps.flatMap(({ x, y, width, height }) => [{ x, y }, { x: x + width, y: y + height }]);
  for (const [place, arc] of laid.arcs.entries()) {
    points.push(...arc.points);
    const words = graph.arcs[place] === undefined ? null : labelOf(graph.arcs[place]);
    if (arc.label === null || words === null) continue;
    const { width, height } = labelSize(words);
    const { x, y } = arc.label;
    points.push({ x: x - width / 2, y: y - height / 2 }, { x: x + width / 2, y: y + height / 2 });
  }
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return points.length === 0 ? { x: 0, y: 0, width: 1, height: 1 } : { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
}

function zoomOf(graph: Graph, laid: Laid, room: Size): number {
  const { width, height } = boundsOf(graph, laid);
  return Math.min(1, room.width / Math.max(1, width), room.height / Math.max(1, height));
}

/** `room`: how much place there is on the screen. */
export async function layOut(graph: Graph, wanted: Wanted, room: Size): Promise<Laid> {
  if (graph.steps.length > LAID_OUT_MAX) return laidByServer(graph);
  try {
    const right = wanted === "DOWN" ? null : laidByElk(graph, await askElk(graph, "RIGHT"));
    if (right !== null && (wanted === "RIGHT" || zoomOf(graph, right, room) > 0.8)) return right;
    const down = laidByElk(graph, await askElk(graph, "DOWN"));
    return right !== null && zoomOf(graph, right, room) >= zoomOf(graph, down, room) ? right : down;
  } catch {
    return laidByServer(graph);
  }
}
