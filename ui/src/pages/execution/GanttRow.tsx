import { type MouseEvent, memo, useEffect, useRef } from "react";
import { waitsForShare } from "../../api/commands";
import type { RunBar, StepLine, Timeline } from "../../api/types";
import { duration, secondsBetween } from "../../design/time";
import { coloursOf, paintProgress, paintRun, prepareCanvas } from "./canvas";
import type { Scale } from "./timescale";

interface RowProps {
  timeline: Timeline;
  scale: Scale;
  line: StepLine;
  runs: readonly RunBar[]; // the runs of this row
  label: string;
  summary: string;
  inner: boolean; // a single run of the step above
  selected: boolean;
  theme: string; // a new theme repaints the canvas
  open: boolean | null; // null: cannot be expanded
  onOpen: () => void;
  onSelect: () => void;
  onTime: (x: number) => void; // 0 to 1
}

/** `until`: the end of a run that is still going on, in milliseconds since the epoch. */
export function summaryOf(runs: readonly RunBar[], until: number): string {
  const last = runs.at(-1);
  if (last === undefined) return "";
  const seconds = last.started_at == null ? null : secondsBetween(last.started_at, last.ended_at ?? until);
  const { iterations } = last;
  const advances = last.status === "running" && waitsForShare(last.why);
  if (last.why != null && last.ended_at == null && !advances) return last.why;
  const failed = iterations == null || iterations.failed === 0 ? "" : ` · ${iterations.failed.toLocaleString()} failed`;
  const counted = iterations == null ? "" : ` · ${iterations.succeeded.toLocaleString()}/${iterations.count.toLocaleString()}${failed}`;
  return `${duration(seconds)}${counted}${runs.length > 1 ? ` · ×${runs.length}` : ""}`;
}

export const GanttRow = memo(function GanttRow(props: RowProps) {
  const { timeline, scale, line, runs, label, summary, inner, selected, theme, open, onOpen, onSelect, onTime } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const paint = () => {
      const ready = prepareCanvas(element);
      if (ready === null) return;
      const colours = coloursOf(element);
      const looped = runs.length > 0 && runs.every((run) => run.iterations != null) && !inner;
      if (looped) paintProgress(ready, timeline, scale, line, colours);
      else for (const run of runs) paintRun(ready, timeline, scale, run, colours);
    };
    paint();
    const watch = new ResizeObserver(paint);
    watch.observe(element);
    return () => watch.disconnect();
  }, [timeline, scale, line, runs, inner, theme]);
  const pick = (event: MouseEvent<HTMLCanvasElement>) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    onSelect();
    onTime((event.clientX - left) / width);
  };
  return (
    <div className={`gantt-row${selected ? " selected" : ""}${inner ? " inner" : ""}`}>
      <span className="gantt-label">
        {open === null ? (
          <span className="gantt-fold" />
        ) : (
          <button type="button" className="gantt-fold" aria-expanded={open} aria-label={`Runs of ${label}`} onClick={onOpen}>
            {open ? "▾" : "▸"}
          </button>
        )}
        <button type="button" className="gantt-name cut" aria-pressed={selected} onClick={onSelect}>{label}</button>
        <span className="gantt-summary faint numbers cut" title={summary}>{summary}</span>
      </span>
      <canvas ref={canvas} className="gantt-canvas" onClick={pick} aria-hidden="true" />
    </div>
  );
});
