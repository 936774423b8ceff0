import { useCallback, useMemo, useState } from "react";
import { isHeld, isLive } from "../../api/commands";
import type { RunBar, StepLine, Timeline } from "../../api/types";
import { useTheme } from "../../app/theme";
import { EmptyState } from "../../design/EmptyState";
import { duration } from "../../design/time";
import { useMediaQuery } from "../../design/useMediaQuery";
import { useNow } from "../../design/useNow";
import { GanttRow, summaryOf } from "./GanttRow";
import { msAt, seqAt } from "./clock";
import { type Scale, idleGaps, marksOf, scaleOf } from "./timescale";
import type { Cursor } from "./useCursor";

interface GanttProps {
  timeline: Timeline;
  cursor: Cursor;
  selected: string | null;
  onSelect: (step: string) => void;
}

const RUNS_OPEN_MAX = 100;

function Axis({ scale }: { scale: Scale }) {
  return (
    <div className="gantt-axis" aria-hidden="true">
      {marksOf(scale).map(({ x, label }) => (
        <span key={x} className="numbers" style={{ left: `${100 * x}%` }}>{label}</span>
      ))}
    </div>
  );
}

function Gaps({ scale }: { scale: Scale }) {
  return scale.gaps.map((gap) => {
    const [left, right] = [scale.x(gap.from), scale.x(gap.to)];
    const text = `nothing ran for ${duration((gap.to - gap.from) / 1000)}`;
    return (
      <span key={gap.from} className="gantt-gap" title={text} style={{ left: `${100 * left}%`, width: `${100 * (right - left)}%` }}>
        <em>{duration((gap.to - gap.from) / 1000)}</em>
      </span>
    );
  });
}

function toggled(steps: ReadonlySet<string>, step: string): ReadonlySet<string> {
  const others = [...steps].filter((each) => each !== step);
  return new Set(steps.has(step) ? others : [...others, step]);
}

/** The bars depend on the timeline only. The cursor is a separate line, so that moving it repaints nothing. */
export function Gantt({ timeline, cursor, selected, onSelect }: GanttProps) {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const theme = `${useTheme()} ${useMediaQuery("(prefers-color-scheme: dark)")}`;
  const ticking = isLive(timeline.status) && !isHeld(timeline);
  const now = useNow(500, ticking);
  const started = Date.parse(timeline.started_at);
  const recorded = msAt(timeline.clock, timeline.seq);
  const end = Math.max(1, ticking ? Math.max(recorded, now - started) : recorded);
  const gaps = useMemo(() => idleGaps(timeline, end), [timeline, end]);
  const scale = useMemo(() => scaleOf(gaps, end), [gaps, end]);
  const { move } = cursor;
  const onTime = useCallback(
    (x: number) => move(Math.max(1, seqAt(timeline.clock, scale.ms(x)))),
    [move, timeline.clock, scale],
  );
  const rows = useMemo(() => {
    const toggle = (step: string) => setOpened((old) => toggled(old, step));
    const row = (line: StepLine, label: string, runs: readonly RunBar[], inner: boolean) => (
      <GanttRow
        key={inner ? label : line.step}
        timeline={timeline} scale={scale} line={line} runs={runs} label={label}
        summary={summaryOf(runs, started + scale.end)} inner={inner} theme={theme}
        selected={selected === line.step && !inner}
        open={!inner && line.runs.length > 1 ? opened.has(line.step) : null}
        onOpen={() => toggle(line.step)} onSelect={() => onSelect(line.step)} onTime={onTime}
      />
    );
    return timeline.steps.flatMap((line) => {
      const runs = opened.has(line.step) ? line.runs.slice(-RUNS_OPEN_MAX) : [];
      return [row(line, line.step, line.runs, false), ...runs.map((run) => row(line, run.id, [run], true))];
    });
  }, [timeline, scale, started, opened, selected, theme, onSelect, onTime]);
  if (timeline.steps.length === 0) {
    return <EmptyState title={isLive(timeline.status) ? "No step has started yet" : "The execution ended before any step started"} />;
  }
  const at = ticking && cursor.live ? 100 : 100 * scale.x(msAt(timeline.clock, cursor.seq));
  return (
    <div className="gantt" role="group" aria-label="Timeline">
      <div className="gantt-head">
        <span className="gantt-label faint">Step</span>
        <Axis scale={scale} />
      </div>
      <div className="gantt-body">
        {rows}
        <div className="gantt-over" aria-hidden="true">
          <Gaps scale={scale} />
          <span className="gantt-veil" style={{ left: `${at}%` }} />
          <span className="gantt-cursor" style={{ left: `${at}%` }} />
        </div>
      </div>
    </div>
  );
}
