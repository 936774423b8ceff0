import { BaseEdge, type Edge, EdgeLabelRenderer, type EdgeProps } from "@xyflow/react";
import { memo } from "react";
import type { ArcDrawn } from "../api/types";
import { useDrawn } from "./context";
import type { Point } from "./layout";
import { labelOf } from "./measure";
import { rounded } from "./path";

export type ArcEdge = Edge<{ arc: ArcDrawn; place: number; points: Point[]; label: Point | null }, "arc">;

function tellsOf(arc: ArcDrawn, fired: number, refused: number, live: boolean): string {
  const guard = arc.when ?? (arc.carries === "failure" ? "on failure" : "always");
  if (!live) return arc.dead ? `${guard}: it never fires` : guard;
  const counts = [fired > 0 && `fired ${fired}×`, refused > 0 && `did not hold ${refused}×`].filter(Boolean);
  return `${guard}: ${counts.join(", ") || "not asked yet"}`;
}

export const ArcLine = memo(function ArcLine({ id, data }: EdgeProps<ArcEdge>) {
  const { overlay, live } = useDrawn();
  if (data === undefined) return null;
  const { arc, place, points, label } = data;
  const { fired, refused } = overlay.arcs[place] ?? { fired: 0, refused: 0 };
  const words = labelOf(arc);
  const looks = ["arc", arc.carries === "failure" && "failure", (arc.dead || arc.implied) && "thin"];
  if (live) looks.push(fired > 0 ? "fired" : refused > 0 ? "refused" : "idle");
  const look = looks.filter(Boolean).join(" ");
  const title = tellsOf(arc, fired, refused, live);
  return (
    <>
      <BaseEdge id={id} path={rounded(points)} className={look} markerEnd={`url(#tip-${live && fired > 0 ? "fired" : "plain"})`} />
      {label !== null && (words !== null || fired > 1) && (
        <EdgeLabelRenderer>
          <span
            className={`arc-label nopan ${look}`}
            style={{ transform: `translate(-50%, -50%) translate(${label.x}px, ${label.y}px)` }}
            title={title}
          >
            {words}
            {live && fired > 0 && <b> ✓{fired > 1 ? fired : ""}</b>}
            {live && fired === 0 && refused > 0 && <b> ✕</b>}
          </span>
        </EdgeLabelRenderer>
      )}
    </>
  );
});

/** Arrow heads, once for a drawing. */
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
