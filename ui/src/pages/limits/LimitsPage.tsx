import { get } from "../../api/client";
import type { LimitList, LimitStatus, PermitStatus } from "../../api/types";
import { useInterval } from "../../api/useInterval";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { Badge } from "../../design/Badge";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { duration, secondsBetween, shortTime, wholeTime } from "../../design/time";
import { useNow } from "../../design/useNow";
import "../workers/workers.css";
import "./limits.css";

const REFRESH_MS = 3000;

function limitWords({ in_flight: most, rate }: LimitStatus): string {
  const parts = [
    ...(most == null ? [] : [`${most.toLocaleString()} at once`]),
    ...(rate == null ? [] : [`${rate.burst.toLocaleString()} per ${duration(rate.per_s)}`]),
  ];
  return parts.join(", ");
}

function Permits({ title, permits, total }: { title: string; permits: readonly PermitStatus[]; total: number }) {
  const now = useNow(1000, permits.length > 0);
  return (
    <section className="permits">
      <h3 className="label">{title} {total.toLocaleString()}</h3>
      {permits.length === 0 && <p className="faint">{total === 0 ? "none" : "outside of your paths"}</p>}
      <ul>
        {permits.map((each) => (
          <li key={`${each.execution_id} ${each.place}`}>
            <Link className="inline-link" to={`/executions/${each.execution_id}`} title={each.execution_id}>{each.path}</Link>{" "}
            <code className="faint">…{each.execution_id.slice(-8)}</code>{" "}
            {!each.place.startsWith("@") && <code>{each.place}</code>}{" "}
            <span className="faint numbers" title={wholeTime(each.since)}>for {duration(Math.max(0, secondsBetween(each.since, now)))}</span>
          </li>
        ))}
      </ul>
      {permits.length > 0 && total > permits.length && <p className="faint">and {(total - permits.length).toLocaleString()} more</p>}
    </section>
  );
}

function LimitCard({ limit }: { limit: LimitStatus }) {
  return (
    <section className="card padded stack" aria-label={limit.key}>
      <div className="row wrap">
        <h2>{limit.key || "(no key)"}</h2>
        <Badge>{limit.kind === "executions" ? "executions of a playbook" : "steps and calls"}</Badge>
        <span className="soft numbers">{limitWords(limit)}</span>
        {limit.waits > 0 && <Badge tone="waiting">{`${limit.waits.toLocaleString()} waiting`}</Badge>}
      </div>
      {limit.in_flight != null && (
        <div className="row load">
          <meter aria-label={`${limit.key}: permits in use`} min={0} max={Math.max(1, limit.in_flight)} value={Math.min(limit.holds, limit.in_flight)} />
          <span className="numbers">{limit.holds} of {limit.in_flight}</span>
        </div>
      )}
      {limit.rate != null && (
        <p className="soft numbers">
          {limit.tokens == null ? "The whole rate is available." : `${Math.floor(limit.tokens)} of ${limit.rate.burst} left in the bucket.`}
          {limit.next_at != null && ` Nothing is granted before ${shortTime(limit.next_at)}.`}
        </p>
      )}
      {limit.rate == null && limit.next_at != null && <p className="soft">A server asked to wait until {shortTime(limit.next_at)}.</p>}
      <div className="limit-parts">
        <Permits title="Holding" permits={limit.holders} total={limit.holds} />
        <Permits title="Waiting" permits={limit.waiting} total={limit.waits} />
      </div>
    </section>
  );
}

export default function LimitsPage() {
  const { data, error, reload } = useResource<LimitList>("/limits", (signal) => get("/limits", {}, signal));
  useInterval(REFRESH_MS, reload);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Limits</h1>
        <span className="soft">Who holds the permits of each key, and who waits</span>
      </div>
      {error !== undefined && <ErrorNotice error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <SkeletonRows />}
      {data?.items.length === 0 && (
        <div className="card">
          <EmptyState title="No limit is in use">
            A limit appears here while executions hold its permits or wait for them: <code>limit</code> of a step, or <code>concurrency</code> of a playbook.
          </EmptyState>
        </div>
      )}
      <div className="stack">{data?.items.map((each) => <LimitCard key={`${each.kind} ${each.key}`} limit={each} />)}</div>
      {data !== undefined && data.left_out > 0 && <p className="faint">and {data.left_out.toLocaleString()} more keys</p>}
    </div>
  );
}
