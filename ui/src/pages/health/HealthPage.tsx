import { get, send } from "../../api/client";
import type { Health } from "../../api/types";
import { useInterval } from "../../api/useInterval";
import { useResource } from "../../api/useResource";
import { useSession } from "../../app/session";
import { Badge } from "../../design/Badge";
import { ErrorNotice } from "../../design/ErrorNotice";
import { Skeleton, SkeletonRows } from "../../design/Skeleton";
import { duration, wholeTime } from "../../design/time";
import { Charts } from "./Charts";
import { type Sample, mean, parseMetrics, sum } from "./metrics";
import "./health.css";

const REFRESH_MS = 5000;
const NOT_MEASURED = "–";

export default function HealthPage() {
  const ready = useResource<Health>("/ready", (signal) => get("/ready", {}, signal));
  const metrics = useResource("/metrics", async (signal) => parseMetrics(await (await send("/metrics", { signal })).text()));
  useInterval(REFRESH_MS, ready.reload);
  useInterval(REFRESH_MS, metrics.reload);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Health</h1>
        <Readiness ready={ready} />
      </div>
      {ready.error !== undefined && <ErrorNotice error={ready.error} onRetry={ready.reload} />}
      <div className="stack">
        <About version={ready.data?.version} samples={metrics.data} />
        <Charts />
        {metrics.error !== undefined && <ErrorNotice error={metrics.error} onRetry={metrics.reload} />}
        {metrics.data === undefined && metrics.error === undefined && <SkeletonRows rows={8} height={48} />}
        {metrics.data !== undefined && <Metrics samples={metrics.data} />}
        <p className="soft">
          All metrics for Prometheus: <code>/metrics</code>. OpenAPI document:{" "}
          <code>/schema/openapi.json</code>. Both need a token if the server does.
        </p>
      </div>
    </div>
  );
}

function Readiness({ ready }: { ready: { data: Health | undefined; error: unknown } }) {
  if (ready.error !== undefined) return <Badge tone="error">not ready</Badge>;
  if (ready.data === undefined) return <Skeleton width={70} height={22} />;
  return <Badge tone="ok">ready</Badge>;
}

function About({ version, samples }: { version: string | undefined; samples: Sample[] | undefined }) {
  const session = useSession();
  const started = samples === undefined ? 0 : sum(samples, "process_start_time_seconds");
  const at = started > 0 ? new Date(started * 1000).toISOString() : null;
  const memory = samples === undefined ? 0 : sum(samples, "process_resident_memory_bytes");
  return (
    <dl className="card padded about">
      <Item name="Version">{version}</Item>
      <Item name="Started">{at !== null && wholeTime(at)}</Item>
      <Item name="Memory">{memory > 0 && `${Math.round(memory / 1e6)} MB`}</Item>
      <Item name="Signed in as">{session.name}</Item>
      <Item name="Permissions">{session.open ? "all: this server requires no token" : session.scopes.join(", ")}</Item>
    </dl>
  );
}

function Item({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="label">{name}</dt>
      <dd>{children || NOT_MEASURED}</dd>
    </div>
  );
}

function Metrics({ samples }: { samples: Sample[] }) {
  const count = (name: string, labels = {}) => sum(samples, name, labels).toLocaleString();
  const average = (name: string, labels = {}) => {
    const seconds = mean(samples, name, labels);
    return seconds === null ? NOT_MEASURED : duration(seconds);
  };
  const ended = "noetl_executions_ended_total";
  const groups: [string, [string, string][]][] = [
    ["Executions", [
      ["started", count("noetl_executions_started_total")],
      ["succeeded", count(ended, { status: "ok" })],
      ["failed", count(ended, { status: "error" })],
      ["cancelled", count(ended, { status: "cancelled" })],
      ["average duration", average("noetl_execution_seconds")],
    ]],
    ["Steps and tasks", [
      ["facts in the log", count("noetl_facts_total")],
      ["average step duration", average("noetl_step_seconds")],
      ["average task duration", average("noetl_task_seconds")],
      ["average step wait", average("noetl_step_wait_seconds")],
      ["pending timers", count("noetl_timers")],
      ["frames lost", count("noetl_frames_lost_total")],
    ]],
    ["Storage", [
      ["average commit time", average("noetl_store_append_seconds")],
      ["requests without an answer", count("noetl_store_unavailable_total")],
      ["stale writes refused", count("noetl_stale_writes_refused_total")],
    ]],
    ["API", [
      ["requests", count("noetl_api_request_seconds_count")],
      ["average response time", average("noetl_api_request_seconds")],
      ["open event streams", count("noetl_followers")],
      ["queued commands", count("noetl_commands_waiting")],
    ]],
  ];
  return (
    <div className="figures">
      {groups.map(([title, values]) => (
        <section key={title} className="card padded">
          <h2>{title}</h2>
          <dl>
            {values.filter(([, value]) => value !== NOT_MEASURED).map(([name, value]) => (
              <div key={name}>
                <dt className="soft">{name}</dt>
                <dd className="numbers">{value}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </div>
  );
}
