import { get } from "../../api/client";
import type { WorkerStatus } from "../../api/types";
import { useInterval } from "../../api/useInterval";
import { useResource } from "../../api/useResource";
import { Badge } from "../../design/Badge";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/time";
import "./workers.css";

const REFRESH_MS = 3000;

export default function WorkersPage() {
  const status = useResource<WorkerStatus>("/workers", (signal) => get("/workers", {}, signal));
  useInterval(REFRESH_MS, status.reload);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Workers</h1>
        <span className="soft">Connected workers, their pools and their load</span>
      </div>
      {status.error !== undefined && <ErrorNotice error={status.error} onRetry={status.reload} />}
      {status.data === undefined && status.error === undefined && <SkeletonRows />}
      {status.data !== undefined && (status.data.workers.length === 0 ? <NoWorkers /> : <WorkerList status={status.data} />)}
    </div>
  );
}

function NoWorkers() {
  return (
    <div className="card">
      <EmptyState title="No workers" command="noetl worker --nats nats://host:4222">
        Scheduled steps wait until a worker connects.
      </EmptyState>
    </div>
  );
}

function WorkerList({ status }: { status: WorkerStatus }) {
  return (
    <div className="stack">
      <ul className="pools" aria-label="Pools">
        {status.pools.map((each) => (
          <li key={each.pool} className="card padded stack">
            <div className="row">
              <h2 className="grow">{each.pool}</h2>
              <span className="soft">{each.workers} {each.workers === 1 ? "worker" : "workers"}</span>
            </div>
            <Load name={`Pool ${each.pool}`} busy={each.busy} slots={each.slots} />
          </li>
        ))}
      </ul>
      <div className="card table-scroll">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Worker</th>
              <th scope="col">Pool</th>
              <th scope="col">Busy</th>
              <th scope="col">Host</th>
              <th scope="col">Version</th>
              <th scope="col">Last seen</th>
              <th scope="col">Labels</th>
            </tr>
          </thead>
          <tbody>
            {status.workers.map((each) => (
              <tr key={`${each.pool} ${each.name}`}>
                <td>
                  <span className="mono">{each.name}</span> {each.leaving && <Badge tone="waiting">leaving</Badge>}
                </td>
                <td>{each.pool}</td>
                <td><Load name={each.name} busy={each.busy} slots={each.slots} /></td>
                <td className="soft">{each.host}, process {each.pid}</td>
                <td>{each.version}</td>
                <td title={wholeTime(each.at)}>{shortTime(each.at)}</td>
                <td>{Object.entries(each.labels).map(([key, value]) => <Badge key={key}>{key}={value}</Badge>)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function Load({ name, busy, slots }: { name: string; busy: number; slots: number }) {
  return (
    <div className="row load">
      <meter aria-label={`${name}: running calls`} min={0} max={Math.max(1, slots)} value={busy} />
      <span className="numbers">{busy} of {slots}</span>
    </div>
  );
}
