/** Positions of steps and arcs. A web worker computes them; large nets use the layout of the server. */

import type { Graph } from "../api/types";
import { labelOf, labelSize, type Size } from "./measure";

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

const STEPS_MAX = 100; // larger nets would take too long
const ARCS_MAX = 200;

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

let worker: Worker | null = null;
let requests = 0;

/** Starts the worker. It loads a file first, so call this early. */
export function startWorker(): Worker {
  worker ??= new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  return worker;
}

/** Rejects when there is no worker, or it fails. */
function askWorker(graph: Graph, room: Size): Promise<Layout> {
  const asked = startWorker();
  requests += 1;
  const id = requests;
  return new Promise((resolve, reject) => {
    const stop = () => {
      asked.removeEventListener("message", listen);
      asked.removeEventListener("error", broken);
    };
    const listen = (event: MessageEvent<{ id: number; layout: Layout }>) => {
      if (event.data.id !== id) return;
      stop();
      resolve(event.data.layout);
    };
    const broken = () => {
      stop();
      asked.terminate();
      worker = null;
      reject(new Error("the layout worker has failed"));
    };
    asked.addEventListener("message", listen);
    asked.addEventListener("error", broken);
    asked.postMessage({ id, graph, room });
  });
}

/** `room`: the size of the pane. */
export async function computeLayout(graph: Graph, room: Size): Promise<Layout> {
  if (graph.steps.length > STEPS_MAX || graph.arcs.length > ARCS_MAX) return layoutFromServer(graph);
  try {
    return await askWorker(graph, room);
  } catch {
    return layoutFromServer(graph);
  }
}
