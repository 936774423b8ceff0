/** Where the net is shown: it is never smaller than legible, so a large net is panned. */

import type { Box, Point } from "./layout";
import type { Size } from "./measure";

export const ZOOM_MIN = 0.7; // smaller text is not legible
export const ZOOM_MAX = 1.8;
const PAD = 16;

export interface View extends Point {
  zoom: number;
}

/** The free space at the edges of the pane, which buttons or a search cover. */
export interface Edges {
  top: number;
  bottom: number;
}

/** How much of the whole size fits: 1 or more if everything fits without zooming out. */
export function fittingZoom(bounds: Size, room: Size): number {
  return Math.min((room.width - 2 * PAD) / Math.max(1, bounds.width), (room.height - 2 * PAD) / Math.max(1, bounds.height));
}

export const fits = (bounds: Size, room: Size): boolean => fittingZoom(bounds, room) >= ZOOM_MIN;

/** The number of panes that a net of this size fills. */
export function panesOf(bounds: Size, room: Size): number {
  const along = (size: number, space: number) => Math.max(1, (size * ZOOM_MIN) / Math.max(1, space - 2 * PAD));
  return along(bounds.width, room.width) * along(bounds.height, room.height);
}

/** One coordinate of the view: the net is centred if it fits; otherwise the focus is, without empty space at the edges. */
function place(start: number, size: number, room: number, focus: number, zoom: number): number {
  if (size * zoom <= room - 2 * PAD) return (room - size * zoom) / 2 - start * zoom;
  const [least, most] = [room - PAD - (start + size) * zoom, PAD - start * zoom];
  return Math.min(most, Math.max(least, room / 2 - focus * zoom));
}

const centreOf = ({ x, y, width, height }: Box): Point => ({ x: x + width / 2, y: y + height / 2 });

/** The whole net if it is legible, otherwise the part around `focus`. */
export function firstView(bounds: Box, pane: Size, edges: Edges, focus: Box): View {
  const room = { width: pane.width, height: Math.max(1, pane.height - edges.top - edges.bottom) };
  const zoom = Math.max(ZOOM_MIN, Math.min(1, fittingZoom(bounds, room)));
  const centre = centreOf(focus);
  return {
    zoom,
    x: place(bounds.x, bounds.width, room.width, centre.x, zoom),
    y: place(bounds.y, bounds.height, room.height, centre.y, zoom) + edges.top,
  };
}

/** The nearest view in which the box is visible; null: it is visible already. */
export function viewOf(box: Box, view: View, pane: Size, edges: Edges): View | null {
  const along = (offset: number, start: number, size: number, from: number, to: number): number => {
    const [low, high] = [start * view.zoom + offset, (start + size) * view.zoom + offset];
    return low >= from && high <= to ? offset : (from + to) / 2 - (start + size / 2) * view.zoom;
  };
  const x = along(view.x, box.x, box.width, 0, pane.width);
  const y = along(view.y, box.y, box.height, edges.top, pane.height - edges.bottom);
  return x === view.x && y === view.y ? null : { ...view, x, y };
}
