import { get, send } from "../../api/client";
import type { components } from "../../api/schema";
import { useEvery } from "../../api/useEvery";
import { useResource } from "../../api/useResource";
import { useSession } from "../../app/session";
import { Badge } from "../../design/Badge";
import { Failed } from "../../design/Failed";
import { Skeleton, SkeletonRows } from "../../design/Skeleton";
import { duration, wholeTime } from "../../design/times";
import { type Sample, mean, samplesOf, sum } from "./metrics";
import "./health.css";

type Health = components["schemas"]["HealthResponse"];

const LOOK_AGAIN_MS = 5000;
const NOT_MEASURED = "–";

export default function HealthPage() {
  const ready = useResource<Health>("/ready", (signal) => get("/ready", {}, signal));
  const metrics = useResource("/metrics", async (signal) => samplesOf(await (await send("/metrics", { signal })).text()));
  useEvery(LOOK_AGAIN_MS, ready.reload);
  useEvery(LOOK_AGAIN_MS, metrics.reload);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Health</h1>
        <Readiness ready={ready} />
      </div>
      {ready.error !== undefined && <Failed error={ready.error} onRetry={ready.reload} />}
      <div className="stack">
        <About version={ready.data?.version} samples={metrics.data} />
        {metrics.error !== undefined && <Failed error={metrics.error} onRetry={metrics.reload} />}
        {metrics.data === undefined && metrics.error === undefined && <SkeletonRows rows={8} height={48} />}
        {metrics.data !== undefined && <Figures samples={metrics.data} />}
        <p className="soft">
          All figures, for Prometheus: <code>/metrics</code>. What the API can do:{" "}
          <a href="/schema/openapi.json">/schema/openapi.json</a>.
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
      <Fact name="Version">{version}</Fact>
      <Fact name="Runs since">{at !== null && wholeTime(at)}</Fact>
      <Fact name="Memory">{memory > 0 && `${Math.round(memory / 1e6)} MB`}</Fact>
      <Fact name="You are">{session.name}</Fact>
      <Fact name="You may">{session.open ? "do everything: no token is asked for" : session.scopes.join(", ")}</Fact>
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="label">{name}</dt>
      <dd>{children || NOT_MEASURED}</dd>
    </div>
  );
}

function Figures({ samples }: { samples: Sample[] }) {
  const count = (name: string, labels = {}) => sum(samples, name, labels).toLocaleString();
  const took = (name: string, labels = {}) => {
    const seconds = mean(samples, name, labels);
    return seconds === null ? NOT_MEASURED : duration(seconds);
  };
  const ended = "noetl_executions_ended_total";
  const groups: [string, [string, string][]][] = [
    ["Executions", [
      ["started", count("noetl_executions_started_total")],
      ["ended well", count(ended, { status: "ok" })],
      ["ended in error", count(ended, { status: "error" })],
      ["cancelled", count(ended, { status: "cancelled" })],
      ["on average", took("noetl_execution_seconds")],
    ]],
    ["Steps and tasks", [
      ["facts on record", count("noetl_facts_total")],
      ["a step, on average", took("noetl_step_seconds")],
      ["a task, on average", took("noetl_task_seconds")],
      ["a step waits", took("noetl_step_wait_seconds")],
      ["timers set", count("noetl_timers")],
    ]],
    ["Storage", [
      ["a commit takes", took("noetl_store_append_seconds")],
      ["not answered", count("noetl_store_unavailable_total")],
      ["late writers refused", count("noetl_stale_writes_refused_total")],
      ["frames lost", count("noetl_frames_lost_total")],
    ]],
    ["API", [
      ["requests", count("noetl_api_request_seconds_count")],
      ["an answer takes", took("noetl_api_request_seconds")],
      ["followers now", count("noetl_followers")],
      ["commands waiting", count("noetl_commands_waiting")],
    ]],
  ];
  return (
    <div className="figures">
      {groups.map(([title, figures]) => (
        <section key={title} className="card padded">
          <h2>{title}</h2>
          <dl>
            {figures.filter(([, value]) => value !== NOT_MEASURED).map(([name, value]) => (
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
