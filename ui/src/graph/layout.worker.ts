/** Lays out nets in a web worker, so that a slow layout does not block the page. */

import type { Graph } from "../api/types";
import { layoutForRoom } from "./layered";
import type { Size } from "./measure";

self.onmessage = ({ data: { id, graph, room } }: MessageEvent<{ id: number; graph: Graph; room: Size }>) => {
  self.postMessage({ id, layout: layoutForRoom(graph, room) });
};
