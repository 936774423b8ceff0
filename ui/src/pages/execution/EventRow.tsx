import type { CSSProperties } from "react";
import type { FactLine } from "../../api/types";
import { Skeleton } from "../../design/Skeleton";
import { duration, secondsBetween } from "../../design/time";

interface RowProps {
  line: FactLine | undefined; // undefined: loading
  startedAt: string;
  current: boolean;
  future: boolean;
  style: CSSProperties;
  onPick: (seq: number) => void;
}

export function toneOfFact(line: FactLine): string {
  if (line.bad === true) return "error";
  if (line.name.endsWith("done") || line.name.endsWith("processed") || line.name.endsWith("finished")) return "ok";
  if (line.name === "step.waiting" || line.name === "frame.parked" || line.name.endsWith("paused")) return "waiting";
  return line.name.endsWith("started") ? "running" : "neutral";
}

export function EventRow({ line, startedAt, current, future, style, onPick }: RowProps) {
  if (line === undefined) {
    return <div className="event-row" role="listitem" style={style}><Skeleton height={12} width="60%" /></div>;
  }
  const classes = ["event-row", current && "current", future && "future"].filter(Boolean).join(" ");
  return (
    <div role="listitem" style={style}>
      <button type="button" className={classes} aria-current={current ? "true" : undefined} onClick={() => onPick(line.seq)}>
        <span className="event-seq numbers faint">{line.seq}</span>
        <span className={`event-dot ${toneOfFact(line)}`} aria-hidden="true" />
        <span className="event-name">{line.name}</span>
        <code className="event-about cut">{line.about}</code>
        <span className={`event-summary cut${line.bad === true ? " bad" : ""}`}>{line.words}</span>
        <span className="event-ms faint numbers">{line.ms == null ? "" : duration(line.ms / 1000)}</span>
        <span className="event-at faint numbers">+{duration(secondsBetween(startedAt, line.at)) || "0 ms"}</span>
      </button>
    </div>
  );
}
