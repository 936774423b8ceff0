import { memo, useMemo } from "react";
import type { Timeline } from "../../api/types";
import { useShortcuts } from "../../app/keyboard";
import { Button } from "../../design/Button";
import { copyToClipboard } from "../../design/ShellCommand";
import { duration } from "../../design/time";
import { msAt } from "./clock";
import type { Cursor } from "./useCursor";
import { usePlay } from "./usePlay";

const FAR = 100; // facts

function toneOf(name: string): string {
  if (name.endsWith("failed")) return "error";
  return name === "workflow.finished" ? "end" : "note";
}

/** Marks for failures, commands and changes of ctx. */
const Ticks = memo(function Ticks({ timeline }: { timeline: Timeline }) {
  const left = (seq: number) => `${timeline.seq < 2 ? 0 : (100 * (seq - 1)) / (timeline.seq - 1)}%`;
  return (
    <div className="ticks" aria-hidden="true">
      {timeline.writes.map(([seq = 0]) => (
        <i key={`w${seq}`} className="write" style={{ left: left(seq) }} />
      ))}
      {timeline.marks.map((mark) => (
        <i key={mark.seq} className={toneOf(mark.name)} style={{ left: left(mark.seq) }} />
      ))}
    </div>
  );
});

function linkTo(seq: number): string {
  const url = new URL(window.location.href);
  url.searchParams.set("seq", String(seq));
  return url.toString();
}

export function Scrubber({ timeline, cursor }: { timeline: Timeline; cursor: Cursor }) {
  const last = timeline.seq;
  const { playing, toggle } = usePlay(cursor, last);
  const { seq, move, live } = cursor;
  const keys = useMemo(() => {
    const by = (facts: number) => () => move(Math.max(1, Math.min(last, seq + facts)));
    return {
      ArrowLeft: by(-1), ArrowRight: by(1), "[": by(-FAR), "]": by(FAR), " ": toggle, l: () => move(null),
    };
  }, [move, last, seq, toggle]);
  useShortcuts(keys);
  const at = duration(msAt(timeline.clock, seq) / 1000) || "0 ms";
  return (
    <div className="scrubber card" role="group" aria-label="Time travel">
      <Button small icon aria-label="Previous fact" title="Previous fact (←)" disabled={seq <= 1} onClick={keys.ArrowLeft}>‹</Button>
      <Button small icon aria-label={playing ? "Stop" : "Play"} title="Play or stop (Space)" onClick={toggle}>
        {playing ? "❚❚" : "▶"}
      </Button>
      <Button small icon aria-label="Next fact" title="Next fact (→)" disabled={seq >= last} onClick={keys.ArrowRight}>›</Button>
      <div className="track">
        <Ticks timeline={timeline} />
        <input
          type="range"
          aria-label="Position in the log"
          aria-valuetext={`fact ${seq} of ${last}, ${at} after the start`}
          min={1}
          max={Math.max(1, last)}
          value={seq}
          onChange={(event) => move(Number(event.target.value))}
          style={{ "--at": `${last < 2 ? 100 : (100 * (seq - 1)) / (last - 1)}%` } as React.CSSProperties}
        />
      </div>
      <output className="numbers scrubber-place">
        <b>{seq.toLocaleString()}</b> of {last.toLocaleString()} <span className="soft">+{at}</span>
      </output>
      <Button small variant="quiet" title="Copy a link to this moment" onClick={() => void copyToClipboard(linkTo(seq))}>Link</Button>
      <Button small aria-pressed={live} title="Follow the end of the log (l)" onClick={() => move(null)}>
        {timeline.status === "running" ? "Live" : "End"}
      </Button>
    </div>
  );
}
