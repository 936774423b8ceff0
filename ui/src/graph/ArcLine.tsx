import { BaseEdge, type Edge, EdgeLabelRenderer, type EdgeProps } from "@xyflow/react";
import { memo } from "react";
import type { GraphArc } from "../api/types";
import { useGraphState } from "./context";
import type { Point } from "./layout";
import { labelOf } from "./measure";
import { roundedPath } from "./path";

export type ArcEdge = Edge<{ arc: GraphArc; index: number; points: Point[]; label: Point | null }, "arc">;

function describeArc(arc: GraphArc, fired: number, refused: number, live: boolean): string {
  const guard = arc.when ?? (arc.carries === "failure" ? "on failure" : "always");
  if (!live) return arc.dead ? `${guard}: never fires` : guard;
  const counts = [fired > 0 && `fired ${fired}×`, refused > 0 && `was false ${refused}×`].filter(Boolean);
  return `${guard}: ${counts.join(", ") || "not evaluated yet"}`;
}

export const ArcLine = memo(function ArcLine({ id, data }: EdgeProps<ArcEdge>) {
  const { overlay, live } = useGraphState();
  if (data === undefined) return null;
  const { arc, index, points, label } = data;
  const { fired, refused } = overlay.arcs[index] ?? { fired: 0, refused: 0 };
  const text = labelOf(arc);
  const classes = ["arc", arc.carries === "failure" && "failure", (arc.dead || arc.implied) && "thin"];
  if (live) classes.push(fired > 0 ? "fired" : refused > 0 ? "refused" : "idle");
  const look = classes.filter(Boolean).join(" ");
  const title = describeArc(arc, fired, refused, live);
  return (
    <>
      <BaseEdge id={id} path={roundedPath(points)} className={look} markerEnd={`url(#tip-${live && fired > 0 ? "fired" : "plain"})`} />
      {label !== null && (text !== null || fired > 1) && (
        <EdgeLabelRenderer>
          <span
            className={`arc-label nopan ${look}`}
            style={{ transform: `translate(-50%, -50%) translate(${label.x}px, ${label.y}px)` }}
            title={title}
          >
            {text}
            {live && fired > 0 && <b> ✓{fired > 1 ? fired : ""}</b>}
            {live && fired === 0 && refused > 0 && <b> ✕</b>}
          </span>
        </EdgeLabelRenderer>
      )}
    </>
  );
});

/** Arrow heads, defined once for each drawing. */
export function ArcTips() {
  return (
    <svg className="arc-tips" aria-hidden="true">
      <defs>
        {["plain", "fired"].map((name) => (
          <marker key={name} id={`tip-${name}`} viewBox="0 0 10 10" refX="8.5" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path className={`tip ${name}`} d="M0 1 L9 5 L0 9 z" />
          </marker>
        ))}
      </defs>
    </svg>
  );
}
