import { get } from "../../api/client";
import type { components } from "../../api/schema";
import { useEvery } from "../../api/useEvery";
import { useResource } from "../../api/useResource";
import { Badge } from "../../design/Badge";
import { Empty } from "../../design/Empty";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/times";
import "./workers.css";

type Workers = components["schemas"]["WorkersResponse"];

const LOOK_AGAIN_MS = 3000;

export default function WorkersPage() {
  const seen = useResource<Workers>("/workers", (signal) => get("/workers", {}, signal));
  useEvery(LOOK_AGAIN_MS, seen.reload);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Workers</h1>
        <span className="soft">Who does the work, and how much of it at once</span>
      </div>
      {seen.error !== undefined && <Failed error={seen.error} onRetry={seen.reload} />}
      {seen.data === undefined && seen.error === undefined && <SkeletonRows />}
      {seen.data !== undefined && (seen.data.workers.length === 0 ? <Nobody /> : <Crew seen={seen.data} />)}
    </div>
  );
}

function Nobody() {
  return (
    <div className="card">
      <Empty title="No worker is here" command="noetl worker --nats nats://host:4222">
        What is scheduled waits until one comes.
      </Empty>
    </div>
  );
}

function Crew({ seen }: { seen: Workers }) {
  return (
    <div className="stack">
      <ul className="pools" aria-label="Pools">
        {seen.pools.map((each) => (
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
              <th scope="col">Where</th>
              <th scope="col">Version</th>
              <th scope="col">Heard</th>
              <th scope="col">Labels</th>
            </tr>
          </thead>
          <tbody>
            {seen.workers.map((each) => (
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
      <meter aria-label={`${name}: calls that run`} min={0} max={Math.max(1, slots)} value={busy} />
      <span className="numbers">{busy} of {slots}</span>
    </div>
  );
}
