/** The SVG path through points, with rounded corners. */

import type { Point } from "./layout";

const RADIUS = 9;

function toward(from: Point, to: Point, length: number): Point {
  const whole = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: from.x + ((to.x - from.x) / whole) * length, y: from.y + ((to.y - from.y) / whole) * length };
}

const write = ({ x, y }: Point): string => `${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10}`;

export function roundedPath(points: readonly Point[]): string {
  const [first, ...rest] = points;
  const last = rest.pop();
  if (first === undefined || last === undefined) return "";
  const parts = [`M${write(first)}`];
  let before = first;
  for (const [index, corner] of rest.entries()) {
    const after = rest[index + 1] ?? last;
    const room = Math.min(
      RADIUS,
      Math.hypot(corner.x - before.x, corner.y - before.y) / 2,
      Math.hypot(after.x - corner.x, after.y - corner.y) / 2,
    );
    parts.push(`L${write(toward(corner, before, room))}`);
    parts.push(`Q${write(corner)} ${write(toward(corner, after, room))}`);
    before = corner;
  }
  parts.push(`L${write(last)}`);
  return parts.join(" ");
}
