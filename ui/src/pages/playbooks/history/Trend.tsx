import type { PlaybookHistory } from "../../../api/types";
import { duration, shortTime } from "../../../design/time";

interface Bar {
  key: string;
  name: string;
  failed: boolean;
  value: number;
  upper: number | null; // p95 of several executions
}

const WIDTH = 800;
const HEIGHT = 150;
const BARS_MIN = 12; // a few bars are not drawn wider than one of so many

function barsOf({ executions, days }: PlaybookHistory, step: string | null): Bar[] {
  if (step === null && days.length > 1) {
    return days.map(({ day, failed, durations: { count, p50_s: p50, p95_s: p95 } }) => ({
      key: day, name: `${day}: ${String(count)} executions, ${String(failed)} failed, p50 ${duration(p50 ?? 0)}, p95 ${duration(p95 ?? 0)}`,
      failed: failed > 0, value: p50 ?? 0, upper: p95 ?? 0,
    }));
  }
  return executions.flatMap((column) => {
    const cell = step === null ? column : column.steps?.[step];
    if (cell === undefined) return [];
    const name = `${shortTime(column.started_at)}: ${cell.status}, ${duration(cell.duration_s)}`;
    return [{ key: column.execution_id, name, failed: cell.status === "error", value: cell.duration_s, upper: null }];
  });
}

/** How long the playbook, or one of its steps, took: by day if there are several days, else by execution. */
export function Trend({ history, step }: { history: PlaybookHistory; step: string | null }) {
  const bars = barsOf(history, step);
  const summary = step === null ? history.durations : history.steps.find((row) => row.step === step)?.durations;
  const [p50, p95] = [summary?.p50_s ?? null, summary?.p95_s ?? null];
  const most = Math.max(...bars.map((bar) => Math.max(bar.value, bar.upper ?? 0)), p95 ?? 0, 1e-6);
  const y = (value: number): number => HEIGHT - (value / most) * (HEIGHT - 8);
  const wide = WIDTH / Math.max(bars.length, BARS_MIN);
  const byDay = step === null && history.days.length > 1;
  const title = `Duration of ${step ?? "the execution"}, ${byDay ? "by day (p50, and p95 above it)" : "by execution"}`;
  const level = (value: number | null, name: string) => value !== null && !byDay && (
    <g className={`trend-${name}`}>
      <line x1={0} x2={WIDTH} y1={y(value)} y2={y(value)} />
    </g>
  );
  return (
    <figure className="card trend">
      <figcaption className="row wrap">
        <b className="grow">{title}</b>
        {p50 !== null && <span className="numbers"><i className="trend-key p50" /> p50 {duration(p50)}</span>}
        {p95 !== null && <span className="numbers"><i className="trend-key p95" /> p95 {duration(p95)}</span>}
        <span className="soft numbers">longest {duration(most)}</span>
      </figcaption>
      <svg viewBox={`0 0 ${String(WIDTH)} ${String(HEIGHT)}`} preserveAspectRatio="none" role="img" aria-label={`${title}. p50 ${p50 === null ? "unknown" : duration(p50)}, p95 ${p95 === null ? "unknown" : duration(p95)}`}>
        {bars.map((bar, place) => (
          <g key={bar.key} className={bar.failed ? "failed" : undefined}>
            <title>{bar.name}</title>
            {bar.upper !== null && <rect className="upper" x={place * wide + wide * 0.1} width={wide * 0.8} y={y(bar.upper)} height={HEIGHT - y(bar.upper)} />}
            <rect x={place * wide + wide * 0.1} width={wide * 0.8} y={y(bar.value)} height={HEIGHT - y(bar.value)} />
          </g>
        ))}
        {level(p50, "p50")}
        {level(p95, "p95")}
      </svg>
      <div className="row trend-ends soft" style={{ width: `${String(Math.min(100, (100 * bars.length) / BARS_MIN))}%` }}><span className="grow">{bars[0]?.name.split(": ")[0]}</span><span>{bars.at(-1)?.name.split(": ")[0]}</span></div>
    </figure>
  );
}
