import { type MouseEvent, memo, useEffect, useRef } from "react";
import type { RunBar, StepLine, Timeline } from "../../api/types";
import { duration, secondsBetween } from "../../design/times";
import { coloursOf, paintProgress, paintRun, prepared } from "./paint";
import type { Scale } from "./timescale";

interface RowProps {
  timeline: Timeline;
  scale: Scale;
  line: StepLine;
  runs: readonly RunBar[]; // those that this row draws
  label: string;
  words: string;
  inner: boolean; // it is one run of the row above
  selected: boolean;
  theme: string; // another theme paints anew
  open: boolean | null; // null: there is nothing to open
  onOpen: () => void;
  onSelect: () => void;
  onTime: (x: number) => void; // 0 to 1
}

/** `until`: how long what still goes on is counted, in milliseconds since the epoch. */
export function wordsOf(runs: readonly RunBar[], until: number): string {
  const last = runs.at(-1);
  if (last === undefined) return "";
  const seconds = last.started_at == null ? null : secondsBetween(last.started_at, last.ended_at ?? until);
  const { iterations } = last;
  const counted = iterations == null ? "" : ` · ${(iterations.succeeded + iterations.failed).toLocaleString()}/${iterations.count.toLocaleString()}`;
  return `${duration(seconds)}${counted}${runs.length > 1 ? ` · ×${runs.length}` : ""}`;
}

export const GanttRow = memo(function GanttRow(props: RowProps) {
  const { timeline, scale, line, runs, label, words, inner, selected, theme, open, onOpen, onSelect, onTime } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const paint = () => {
      const ready = prepared(element);
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
        <span className="gantt-words faint numbers cut">{words}</span>
      </span>
      <canvas ref={canvas} className="gantt-canvas" onClick={pick} aria-hidden="true" />
    </div>
  );
});
