/** Runs ELK in a web worker, so that a slow layout does not block the page. */

import ELK, { type ElkNode } from "elkjs/lib/elk.bundled.js";

interface LayoutRequest {
  id: number;
  graph: ElkNode;
}

const elk = new ELK();

self.onmessage = async (event: MessageEvent<LayoutRequest>) => {
  const { id, graph } = event.data;
  try {
    self.postMessage({ id, layout: await elk.layout(graph) });
  } catch (error) {
    self.postMessage({ id, error: String(error) });
  }
};
