import { useState } from "react";
import { get } from "../../api/client";
import type { AlertStatus, HealthHistory, HealthPoint } from "../../api/types";
import { useInterval } from "../../api/useInterval";
import { useResource } from "../../api/useResource";
import { Badge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { ErrorNotice } from "../../design/ErrorNotice";
import { TextWithCode } from "../../design/TextWithCode";
import { duration, shortTime } from "../../design/time";

const REFRESH_MS = 15_000;
const RANGES = [["1 h", 3600], ["6 h", 21_600], ["24 h", 86_400]] as const;
const WIDTH = 320;
const HEIGHT = 72;

type Value = (point: HealthPoint) => number | null;

interface ChartProps {
  title: string;
  points: readonly HealthPoint[];
  value: Value;
  format: (value: number) => string;
}

/** A line over time. The figures are also in the text, for screen readers. */
function Chart({ title, points, value, format }: ChartProps) {
  const values = points.map(value);
  const known = values.filter((each): each is number => each !== null);
  const most = Math.max(...known, 0);
  const top = most === 0 ? 1 : most;
  const x = (place: number) => (points.length < 2 ? WIDTH : (WIDTH * place) / (points.length - 1));
  const line = values.map((each, place) => (each === null ? "" : `${x(place).toFixed(1)},${(HEIGHT - 2 - ((HEIGHT - 6) * each) / top).toFixed(1)}`)).filter(Boolean).join(" ");
  const last = values.findLast((each) => each !== null) ?? null;
  const text = last === null ? "not measured" : `now ${format(last)}, at most ${format(most)}`;
  return (
    <figure className="card padded chart">
      <figcaption><span className="label">{title}</span> <span className="soft numbers">{text}</span></figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${title}: ${text}`}>
        <line x1={0} x2={WIDTH} y1={HEIGHT - 1} y2={HEIGHT - 1} className="chart-axis" />
        {line !== "" && <polyline points={line} className="chart-line" />}
      </svg>
    </figure>
  );
}

const TONES = { firing: "error", pending: "waiting", ok: "ok" } as const;

function Alert({ alert }: { alert: AlertStatus }) {
  return (
    <li className="alert">
      <Badge tone={TONES[alert.state]}>{alert.state}</Badge>
      <div>
        <b>{alert.name}</b> <span className="soft">{alert.severity === "page" ? "executions make no progress" : "look at it today"}</span>
        <p>{alert.meaning}{alert.detail !== "" && <>: <b>{alert.detail}</b></>}</p>
        {alert.since != null && <p className="soft numbers">since {shortTime(alert.since)}{alert.for_s > 0 && `; it counts after ${duration(alert.for_s)}`}</p>}
        <p className="soft">What to do: <TextWithCode text={alert.action} /></p>
        <details><summary className="faint">Expression for Prometheus</summary><code>{alert.expression}</code></details>
      </div>
    </li>
  );
}

function Alerts({ alerts }: { alerts: readonly AlertStatus[] }) {
  const bad = alerts.filter((each) => each.state !== "ok");
  const good = alerts.filter((each) => each.state === "ok");
  return (
    <section className="card padded stack" aria-label="Alerts">
      <h2>Alerts</h2>
      {bad.length === 0 && <p className="soft">No alert: all {alerts.length} conditions are fine on this server.</p>}
      <ul className="alerts">{bad.map((each) => <Alert key={each.name} alert={each} />)}</ul>
      {good.length > 0 && <details><summary>{good.length} conditions that are fine</summary><ul className="alerts">{good.map((each) => <Alert key={each.name} alert={each} />)}</ul></details>}
    </section>
  );
}

const ms = (value: number) => duration(value / 1000);
const number = (value: number) => value.toLocaleString(undefined, { maximumFractionDigits: 1 });

/** Charts over time and alerts, from the metrics that this server keeps in memory. */
export function Charts() {
  const [seconds, setSeconds] = useState<number>(3600);
  const { data, error, reload } = useResource<HealthHistory>(`history ${seconds}`, (signal) => get("/health/history", { seconds }, signal));
  useInterval(REFRESH_MS, reload);
  if (error !== undefined) return <ErrorNotice error={error} onRetry={reload} />;
  if (data === undefined) return null;
  const points = data.points;
  const chart = (title: string, value: Value, format: (value: number) => string) => <Chart title={title} points={points} value={value} format={format} />;
  return (
    <>
      {data.alerts.length > 0 && <Alerts alerts={data.alerts} />}
      <div className="row wrap" role="group" aria-label="Time range">
        {RANGES.map(([name, value]) => <Button key={name} small aria-pressed={seconds === value} onClick={() => setSeconds(value)}>{name}</Button>)}
        <span className="soft">
          {points.length === 0 ? `The first points appear after ${duration(2 * data.interval_s)}.` : `Of this server, kept in memory${data.server_since == null ? "" : ` since ${shortTime(data.server_since)}`}.`}
        </span>
      </div>
      {points.length > 0 && (
        <div className="charts">
          {chart("Executions started per minute", (each) => each.executions_per_min, number)}
          {chart("Executions failed per minute", (each) => each.failed_per_min, number)}
          {chart("Facts per second", (each) => each.facts_per_s, number)}
          {chart("Executions in memory", (each) => each.live, number)}
          {chart("Frames waiting", (each) => each.waiting, number)}
          {chart("Age of the first frame in the queue", (each) => each.oldest_s, duration)}
          {chart("Frames that workers run", (each) => each.busy, number)}
          {chart("Average commit", (each) => each.commit_ms ?? null, ms)}
          {chart("Average response of the API", (each) => each.request_ms ?? null, ms)}
          {chart("Frames lost", (each) => each.lost, number)}
        </div>
      )}
    </>
  );
}
