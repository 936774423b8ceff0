import { type PointerEvent, useCallback, useMemo, useState } from "react";
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
import { type Range, WHOLE, isWhole, moved, scaleWithin, selected as selectedRange, zoomed } from "./zoom";

interface GanttProps {
  timeline: Timeline;
  cursor: Cursor;
  selected: string | null;
  onSelect: (step: string) => void;
}

const RUNS_OPEN_MAX = 100;
const DRAG_MIN = 0.01; // of the width: less is a click

/** Dragging selects the time that is shown. The buttons do the same with the keyboard. */
function Axis({ scale, onRange }: { scale: Scale; onRange: (one: number, other: number) => void }) {
  const [drag, setDrag] = useState<{ one: number; other: number } | null>(null);
  const at = (event: PointerEvent<HTMLDivElement>) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - left) / width));
  };
  const end = () => {
    if (drag !== null && Math.abs(drag.one - drag.other) > DRAG_MIN) onRange(drag.one, drag.other);
    setDrag(null);
  };
  return (
    <div
      className="gantt-axis" aria-hidden="true" title="Drag to zoom"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag({ one: at(event), other: at(event) });
      }}
      onPointerMove={(event) => drag !== null && setDrag({ ...drag, other: at(event) })}
      onPointerUp={end} onPointerCancel={() => setDrag(null)}
    >
      {marksOf(scale).map(({ x, label }) => (
        <span key={x} className="numbers" style={{ left: `${100 * x}%` }}>{label}</span>
      ))}
      {drag !== null && <i style={{ left: `${100 * Math.min(drag.one, drag.other)}%`, width: `${100 * Math.abs(drag.one - drag.other)}%` }} />}
    </div>
  );
}

function ZoomButtons({ range, centre, onRange }: { range: Range; centre: number; onRange: (range: Range) => void }) {
  const whole = isWhole(range);
  const buttons: [string, string, Range, boolean][] = [
    ["Earlier", "‹", moved(range, "earlier"), !whole], ["Later", "›", moved(range, "later"), !whole],
    ["Zoom out", "−", zoomed(range, "out", centre), !whole], ["Zoom in", "+", zoomed(range, "in", centre), true],
    ["Show the whole time", "↔", WHOLE, !whole],
  ];
  return (
    <span className="gantt-zoom" role="group" aria-label="Zoom of the timeline">
      {buttons.map(([label, icon, next, enabled]) => (
        <button key={label} type="button" aria-label={label} title={label} disabled={!enabled} onClick={() => onRange(next)}>{icon}</button>
      ))}
    </span>
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
  const [range, setRange] = useState<Range>(WHOLE);
  const whole = useMemo(() => scaleOf(gaps, end), [gaps, end]);
  const scale = useMemo(() => (isWhole(range) ? whole : scaleWithin(whole, range)), [whole, range]);
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
  const shownMs = ticking && cursor.live ? end : msAt(timeline.clock, cursor.seq);
  const at = Math.min(101, Math.max(-1, 100 * scale.x(shownMs)));
  return (
    <div className="gantt" role="group" aria-label="Timeline">
      <div className="gantt-head">
        <span className="gantt-label faint"><span className="grow">Step</span><ZoomButtons range={range} centre={whole.x(msAt(timeline.clock, cursor.seq))} onRange={setRange} /></span>
        <Axis scale={scale} onRange={(one, other) => setRange(selectedRange(range, one, other))} />
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
